"""One trace through all parts of the service, with the client's own as its root."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.e2e.conftest import (
    MNEMOLOG,
    PATIENCE_S,
    HttpClient,
    Message,
    Server,
    environment,
    run,
)
from tests.otlp import Receiver, Span

SECRET = "the-key-of-the-collector"
CONTENTS = "cups slip when wet and cold"
ACTOR = "arm-3-of-the-kitchen"
WRITE = {"gateway", "embed", "decide", "log.append", "project"}
READ = {"gateway", "embed", "read", "decide", "log.append", "project"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def env(receiver: Receiver) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={SECRET}",
    }


def new_trace() -> tuple[str, str, str]:
    """Trace id, span id, and the header."""
    trace, span = os.urandom(16).hex(), os.urandom(8).hex()
    return trace, span, f"00-{trace}-{span}-01"


def post(client: HttpClient, tool: str, arguments: Message, headers: dict[str, str]) -> None:
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    given = {"Content-Type": "application/json", **headers}
    status, body = client.post(json.dumps(message).encode(), given)
    assert status == 200, body
    assert json.loads(body)["result"]["isError"] is False, body


def check(spans: list[Span], trace: str, parent: str, tool: str) -> None:
    """The gateway's span is the client's child, and all the others are the gateway's."""
    of = [one for one in spans if one.trace == trace]
    (gateway,) = [one for one in of if one.name == "gateway"]
    assert gateway.parent == parent
    assert gateway.attributes["mnemolog.tool"] == tool
    assert gateway.attributes["mnemolog.family"] == "robot"
    assert gateway.attributes["mnemolog.outcome"] == "ok"
    for one in of:
        assert one is gateway or one.parent == gateway.id
        assert one.began_ns <= one.ended_ns
        assert one.resource["service.name"] == "mnemolog"


def has(trace: str, names: set[str]) -> Callable[[list[Span]], bool]:
    return lambda spans: {one.name for one in spans if one.trace == trace} == names


def nothing_is_told(receiver: Receiver) -> None:
    told = b"".join(receiver.bodies)
    for word in (CONTENTS, ACTOR, SECRET, "kitchen-of-ana", "default/robot"):
        assert word.encode() not in told


def test_over_http_plain_and_through_the_sdk(tmp_path: Path, receiver: Receiver) -> None:
    server = Server(tmp_path / "data", env=env(receiver))
    try:
        client = server.client()
        arguments = {"insight": CONTENTS, "collection": "kitchen-of-ana"}
        trace, parent, header = new_trace()
        post(client, "learn", arguments, {"traceparent": header, "tracestate": "a=1"})
        check(receiver.until(has(trace, WRITE)), trace, parent, "learn")

        trace, parent, header = new_trace()
        asked = {"query": "wet cups", "collection": "kitchen-of-ana"}
        post(client, "recall", asked, {"traceparent": header})
        check(receiver.until(has(trace, READ)), trace, parent, "recall")

        # The message's own context goes before the request's.
        trace, parent, header = new_trace()
        other = new_trace()[2]

        async def through_the_sdk() -> None:
            meta = {"traceparent": header, "actor": ACTOR}
            async with Client(f"{server.url}/mcp", read_timeout_seconds=PATIENCE_S) as sdk:
                given = {"insight": f"{CONTENTS} again", "collection": "kitchen-of-ana"}
                result = await sdk.call_tool("learn", given, meta=meta)  # type: ignore[arg-type]
                assert not result.is_error

        asyncio.run(through_the_sdk())
        check(receiver.until(has(trace, WRITE)), trace, parent, "learn")
        params = {"name": "learn", "arguments": {"insight": "plates break"}}
        params["_meta"] = {"traceparent": header}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        sent = {"Content-Type": "application/json", "traceparent": other}
        assert client.post(json.dumps(message).encode(), sent)[0] == 200
        receiver.until(lambda spans: sum(one.trace == trace for one in spans) == 2 * len(WRITE))
        assert not any(one.trace == other[3:35] for one in receiver.spans)
        assert receiver.headers[0]["x-key"] == SECRET
    finally:
        assert server.stop() == 0
    nothing_is_told(receiver)
    assert SECRET not in server.errors.read_text()


def test_over_stdio(tmp_path: Path, receiver: Receiver) -> None:
    trace, parent, header = new_trace()
    given = ["stdio", "--data", str(tmp_path / "data")]
    way = StdioServerParameters(
        command=str(MNEMOLOG), args=given, env=environment() | env(receiver)
    )

    async def call() -> None:
        async with Client(way, read_timeout_seconds=PATIENCE_S) as client:
            arguments = {"insight": CONTENTS, "collection": "kitchen-of-ana"}
            meta = {"traceparent": header}
            result = await client.call_tool("learn", arguments, meta=meta)  # type: ignore[arg-type]
            assert not result.is_error

    asyncio.run(call())
    # What was noted at the end is sent, too.
    check(receiver.until(has(trace, WRITE)), trace, parent, "learn")
    nothing_is_told(receiver)


def test_an_endpoint_that_is_away_costs_nothing_and_is_told_once(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.away()
    server = Server(tmp_path / "data", "--model", "none", env=env(receiver))
    client = server.client()
    said = "their endpoint does not take them"
    for n in range(20):
        client.ok("learn", {"insight": f"{CONTENTS} {n}"})
    until(lambda: said in server.errors.read_text())
    receiver.back()
    trace, parent, header = new_trace()
    post(client, "learn", {"insight": "plates break when dropped"}, {"traceparent": header})
    found = receiver.until(has(trace, WRITE - {"embed"}))
    check(found, trace, parent, "learn")
    receiver.away()
    client.ok("learn", {"insight": "knives are sharp"})
    assert server.stop() == 0
    lines = server.errors.read_text().splitlines()
    assert sum(said in line for line in lines) <= 2, "once each time it went away"
    assert not any("Transient error" in line or "Traceback" in line for line in lines)
    receiver.back()


def test_what_is_not_sampled_is_recorded_and_not_sent(tmp_path: Path, receiver: Receiver) -> None:
    server = Server(tmp_path / "data", "--model", "none", env=env(receiver))
    try:
        trace, _, header = new_trace()
        quiet = header.removesuffix("01") + "00"
        client = server.client()
        post(client, "learn", {"insight": "cups slip"}, {"traceparent": quiet})
        seen, _, header = new_trace()
        post(client, "learn", {"insight": "plates break"}, {"traceparent": header})
        receiver.until(has(seen, WRITE - {"embed"}))
        assert not any(one.trace == trace for one in receiver.spans)
    finally:
        server.stop()
    told = run("audit", "log", "--data", str(server.data), "--json")
    second, first = json.loads(told.stdout)
    assert first["trace"] == {"parent": quiet, "state": ""}
    assert second["trace"]["parent"][3:35] == seen


def test_a_wrong_endpoint_is_told_and_not_shown(tmp_path: Path) -> None:
    os.environ["MNEMOLOG_OTEL_ENDPOINT"] = f"http://me:{SECRET}@127.0.0.1:4318"
    try:
        told = run("serve", "--data", str(tmp_path / "data"), "--port", "0", "--model", "none")
    finally:
        del os.environ["MNEMOLOG_OTEL_ENDPOINT"]
    assert told.returncode == 1
    assert "otel_endpoint" in told.stderr
    assert SECRET not in told.stderr


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
