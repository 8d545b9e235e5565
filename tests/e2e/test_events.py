"""`GET /events` of a real server: robots that follow along, resume, fall behind, and hang up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mnemolog.infra.settings import Settings
from mnemolog.services.gateway import sse
from mnemolog.services.gateway.auth.admission import CALLER
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.house import House
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.node.embedded.node import EmbeddedNode
from tests.e2e.conftest import PATIENCE_S, HttpClient, Message, Server
from tests.families import CATALOGUE

WORDS_ONLY = ("--model", "none")


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data", *WORDS_ONLY)
    yield server
    server.stop()


class Stream:
    """The events of an open response, parsed by the rules of the format."""

    def __init__(self, response: httpx.Response) -> None:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        self.id = ""
        self._lines = response.iter_lines()

    def __iter__(self) -> Iterator[tuple[str, Message]]:
        kind, data = "message", ""
        for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "event":
                kind = value
            elif field == "data":
                data += value
            elif field == "id":
                self.id = value
            elif not line and data:
                yield kind, json.loads(data)
                kind, data = "message", ""

    def present(self) -> None:
        """Go on to where it is live."""
        assert next(kind for kind, _ in self if kind != "opened") == "present"

    def decided(self, count: int) -> list[Message]:
        found: list[Message] = []
        for kind, data in self:
            assert kind in ("opened", "present", "decided"), data
            found += [data] if kind == "decided" else []
            if len(found) == count:
                return found
        raise AssertionError(f"the stream ended after {len(found)} of {count} events")


@contextmanager
def stream(server: Server, headers: dict[str, str] | None = None, **query: str) -> Iterator[Stream]:
    url = f"{server.url}/events"
    with httpx.stream("GET", url, params=query, headers=headers, timeout=PATIENCE_S) as response:
        yield Stream(response)


def contents(events: list[Message]) -> list[str]:
    return [one["facts"][0]["content"] for one in events]


def text(number: int) -> str:
    """Unlike any other, or it would be a duplicate."""
    return f"trial {number}: {os.urandom(8).hex()}"


def learn(client: HttpClient, collection: str, number: int, actor: str = "robot-a") -> str:
    said = text(number)
    client.ok("learn", {"insight": said, "collection": collection}, {"actor": actor})
    return said


def streams_open(client: HttpClient) -> float:
    lines = client.get("/metrics")[1].splitlines()
    return float(
        next(line for line in lines if line.startswith("mnemolog_event_streams ")).split()[1]
    )


def test_one_robot_learns_and_another_sees_it(server: Server, collection: str) -> None:
    client = server.client()
    with stream(server, space=f"robot/{collection}") as events:
        events.present()
        said = learn(client, collection, 1, actor="robot-a")
        learn(client, f"{collection}-other", 2)
        client.refused("learn", {"insight": "", "collection": collection})
        client.ok("recall", {"query": "trial", "collection": collection})
        again = learn(client, collection, 3, actor="robot-b")
        found = events.decided(2)
    assert contents(found) == [said, again]
    assert [one["actor"] for one in found] == ["robot-a", "robot-b"]
    assert {one["space"] for one in found} == {f"robot/{collection}"}
    assert [one["facts"][0]["fact"] for one in found] == ["robot.memory_learned"] * 2
    assert events.id == found[-1]["position"]
    # The server of this test has a model: vectors are on the log, and never in an event.
    assert not {"embedding", "vector", "type"} & set(found[0]["facts"][0])


def test_resume_by_position(server: Server, collection: str) -> None:
    client, space = server.client(), f"robot/{collection}"
    said = []
    with stream(server, space=space) as events:
        events.present()
        said += [learn(client, collection, number) for number in range(5)]
        found = events.decided(3)
    said += [learn(client, collection, number) for number in range(5, 10)]
    with stream(server, space=space, after=events.id) as again:
        found += again.decided(4)
        said += [learn(client, collection, number) for number in range(10, 12)]
        found += again.decided(3)
    # A client that reconnects by itself sends the first address again, and the header.
    with stream(server, {"Last-Event-ID": again.id}, space=space, after=events.id) as third:
        found += third.decided(2)
    assert contents(found) == said
    position = client.call("recall", {"query": "x", "collection": collection})["result"]["_meta"]
    with stream(server, space=space, after=position["position"]) as fresh:
        fresh.present()
    with stream(server, space=space, after="start", follow="false") as whole:
        assert contents([data for kind, data in whole if kind == "decided"]) == said
    with stream(server, space=space, last="2", follow="false") as newest:
        assert contents([data for kind, data in newest if kind == "decided"]) == said[-2:]


def test_a_killed_server_and_then_another(tmp_path: Path) -> None:
    """Robots write all the time; the follower reconnects with the last id it has."""
    first = Server(tmp_path / "data", *WORDS_ONLY)
    said: list[str] = []
    stop = threading.Event()

    def write() -> None:
        client, number = first.client(), 0
        while not stop.is_set():
            number += 1
            one = text(number)
            try:
                client.ok("learn", {"insight": one, "collection": "a"})
            except (OSError, ValueError):
                return
            said.append(one)

    writer = threading.Thread(target=write, daemon=True)
    try:
        with stream(first, space="robot/a") as events:
            events.present()
            writer.start()
            found = events.decided(20)
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
    finally:
        stop.set()
        writer.join()
        first.stop()
    second = Server(tmp_path / "data", *WORDS_ONLY)
    try:
        with stream(second, {"Last-Event-ID": events.id}, space="robot/a") as again:
            last = learn(second.client(), "a", 0)
            for kind, data in again:
                if kind == "decided":
                    found.append(data)
                    if contents([data]) == [last]:
                        break
    finally:
        second.stop()
    # The last call may have been decided without its answer having arrived.
    assert [one for one in contents(found) if one in said or one == last] == [*said, last]
    assert len(found) - len(said) - 1 in (0, 1)


def test_a_slow_reader_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOLOG_EVENTS_BUFFER", "4")
    server = Server(tmp_path / "data", *WORDS_ONLY)
    try:
        client = server.client()
        data, count = json.dumps({"trace": "x" * 250_000}), 80
        with stream(server, space="robot/a") as events:
            events.present()
            said = []
            # More than the sockets between the two can hold, and nobody reads.
            for number in range(count):
                said.append(text(number))
                client.ok(
                    "save_perception",
                    {"description": said[-1], "data": data, "collection": "a"},
                )
            found = list(events)
        assert [kind for kind, _ in found[:-1]] == ["decided"] * (len(found) - 1)
        kind, told = found[-1]
        seen = contents([one for _, one in found[:-1]])
        assert kind == "cut_off"
        assert seen == said[: len(seen)]
        assert len(seen) < count
        assert told["position"] == events.id == found[-2][1]["position"]
        assert told["reason"] == (
            f"This reader fell more than 4 events behind; go on with after={events.id}"
        )
        with stream(server, space="robot/a", after=told["position"]) as again:
            assert contents(again.decided(count - len(seen))) == said[len(seen) :]
        assert "mnemolog_event_streams_cut_off_total 1.0" in client.get("/metrics")[1]
    finally:
        server.stop()


def test_a_tenant_follows_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tenant in ("a", "b"):
        monkeypatch.setenv("MNEMOLOG_TENANT", tenant)
        server = Server(tmp_path / "data", *WORDS_ONLY)
        try:
            said = learn(server.client(), "shared", 1)
            everything: dict[str, str] = {}
            for query in (everything, {"space": "robot/shared"}):
                with stream(server, None, after="start", follow="false", **query) as events:
                    found = [data for kind, data in events if kind == "decided"]
                assert contents(found) == [said]
        finally:
            server.stop()


def test_who_hangs_up_is_forgotten(own_server: Server) -> None:
    client = own_server.client()
    with ExitStack() as stack:
        open_ = [stack.enter_context(stream(own_server)) for _ in range(5)]
        for one in open_:
            one.present()
        assert streams_open(client) == 5
    deadline = time.monotonic() + PATIENCE_S
    while streams_open(client) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert streams_open(client) == 0


def test_a_limit_on_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOLOG_EVENTS_STREAMS", "2")
    server = Server(tmp_path / "data", *WORDS_ONLY)
    try:
        with stream(server) as one, stream(server) as two:
            one.present()
            two.present()
            status, body = server.client().get("/events")
            assert status == 503
            assert json.loads(body)["error"].startswith("2 streams are open, which is the limit")
            said = learn(server.client(), "a", 1)
            assert contents(one.decided(1)) == contents(two.decided(1)) == [said]
    finally:
        server.stop()


def test_the_server_ends_and_says_so(own_server: Server) -> None:
    with stream(own_server) as idle, stream(own_server) as busy:
        idle.present()
        said = learn(own_server.client(), "a", 1)
        assert contents(busy.decided(1)) == [said]
        own_server.process.terminate()
        for events in (idle, busy):
            *_, (kind, told) = events
            assert kind == "closing"
            assert told == {
                "position": "0:0",
                "reason": "The server is shutting down; go on with after=0:0",
            }
    assert own_server.process.wait(PATIENCE_S) == 0
    assert "Traceback" not in own_server.errors.read_text()
    assert "timeout graceful shutdown" not in own_server.errors.read_text()


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("space=foo", "space can be graph, or episodes, or robot/ and the name of a collection"),
        (
            "space=default/graph",
            "space can be graph, or episodes, or robot/ and the name of a collection",
        ),
        ("space=", "space can be graph, or episodes, or robot/ and the name of a collection"),
        ("after=yesterday", "after must be start, or a position"),
        ("after=7:0", "after names partition 7, and the log has 1: it is of another store"),
        ("last=ten", "last must be a whole number"),
        ("last=0", "last must be from 1 to 1000"),
        ("last=1&after=0:1", "Give after or last, not both"),
        ("follow=no", "follow can be true or false"),
        ("tenant=other", "Unknown parameter 'tenant'; events takes space, after, last, follow"),
    ],
)
def test_bad_wishes(server: Server, query: str, sentence: str) -> None:
    status, body = server.client().get(f"/events?{query}")
    assert status == 400
    assert json.loads(body)["error"].startswith(sentence)


def test_a_web_page_gets_nothing(server: Server) -> None:
    for headers, status in (
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
    ):
        told = httpx.get(f"{server.url}/events?follow=false", headers=headers, timeout=PATIENCE_S)
        assert told.status_code == status
    assert httpx.post(f"{server.url}/events", timeout=PATIENCE_S).status_code == 405
    assert httpx.head(f"{server.url}/events", timeout=PATIENCE_S).status_code == 405


class Reader:
    """A client of the endpoint itself, which takes what it is sent, or nothing any more."""

    def __init__(self, takes: bool = True) -> None:
        self.data = b""
        self._takes = takes
        self.got = asyncio.Event()

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if not self._takes and message["type"] == "http.response.body":
            await asyncio.Event().wait()
        self.data += message.get("body", b"")
        if b"still here" in self.data:
            self.got.set()


def test_signs_of_life_and_readers_that_take_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(sse, "SEND_S", 0.01)
    scope: Any = {
        "type": "http",
        "method": "GET",
        "path": "/events",
        "query_string": b"",
        "headers": [],
    }
    scope[CALLER] = Caller()

    async def test() -> None:
        given = Settings(data=str(tmp_path), model="none", events_streams=1)
        node = await asyncio.to_thread(EmbeddedNode, given, CATALOGUE)
        ending = asyncio.Event()
        endpoint = sse.Events(
            House(Calls(node), Offer(CATALOGUE), given.import_root, shared=True), ending
        )
        try:
            stuck = Reader(takes=False)
            await asyncio.wait_for(endpoint(scope, stuck.receive, stuck.send), PATIENCE_S)
            assert stuck.data == b""
            reader = Reader()  # in the only place there is
            reading = asyncio.create_task(endpoint(scope, reader.receive, reader.send))
            await asyncio.wait_for(reader.got.wait(), PATIENCE_S)
            ending.set()
            await asyncio.wait_for(reading, PATIENCE_S)
        finally:
            await asyncio.to_thread(node.close)
        blocks = reader.data.decode().split("\n\n")
        assert blocks[0] == 'retry: 1000\nevent: opened\nid: start\ndata: {"position":"start"}'
        assert ": still here" in blocks
        assert blocks[-2].startswith("event: closing\n")

    asyncio.run(test())
