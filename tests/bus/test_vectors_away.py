"""Whole nodes whose vectors are on a server: fed in the background, searched at once, and done
without while the server is away. The server is a stand-in, see `qdrant_wire`; all else is real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.kafka.broker import Broker
from mnemolog.infra.settings import Settings
from mnemolog.projections.vectors.server import ServerVectors
from mnemolog.services.node.following.follow import follow_vectors
from mnemolog.services.node.kafka.logs import reading
from tests.bus.fleet import Fleet, Robot
from tests.bus.fleet import wait_until as until
from tests.contract.qdrant_local import LocalServer
from tests.contract.qdrant_wire import WireServer, serving
from tests.e2e.conftest import HttpClient, Server, run
from tests.families import PROJECTED
from tests.ports import HeldPort

MODEL = CATALOGUE[DEFAULT_MODEL]
KEY = "a-key-that-nobody-may-see"

LESSONS = {
    "grip": "Hold fragile glass gently, with at most four newton",
    "ramp": "Drive slowly when the ramp is wet from rain",
    "door": "The blue door opens only after the badge was shown",
}
ASKED = {
    "grip": "how much force for a fragile cup made of crystal",
    "ramp": "speed on a slippery slope in bad weather when wet",
    "door": "how to get through the blue entrance",
}


class Store:
    """The vector server: it can be stopped and comes back at the same place with what it had."""

    def __init__(self) -> None:
        self.local = LocalServer()
        self._port = HeldPort()
        self.url = self._port.url
        self.keys: set[str | None] = set()
        self._running: ExitStack | None = None
        self._server: WireServer | None = None

    def start(self) -> None:
        self._running = ExitStack()
        self._server = self._running.enter_context(serving(self.local, self._port.number))

    def stop(self) -> None:
        if self._running is not None:
            assert self._server is not None
            self._running.close()
            self.keys |= {
                next((value for name, value in headers.items() if name.lower() == "api-key"), None)
                for _, _, headers in self._server.seen
            }
            self._running = None

    def holds(self) -> dict[str, str]:
        """Its contents, as hashes by space."""
        (alias,) = self.local.get_aliases().aliases
        prefix = alias.alias_name.removesuffix(f"_{MODEL.name}")
        index = ServerVectors(self.local.server(), MODEL.dims, MODEL.name, prefix=prefix)
        try:
            return index.digest()
        finally:
            index.close()

    def end(self) -> None:
        self.stop()
        self.local.stop()
        self._port.release()

    @property
    def live(self) -> str:
        (alias,) = self.local.get_aliases().aliases
        return str(alias.collection_name)


def by_the_log(data: Path) -> dict[str, str]:
    """What a store has to hold, by a feeding from nothing."""
    local = LocalServer()
    index = ServerVectors(local.server(), MODEL.dims, MODEL.name)
    with reading(Settings(data=str(data))) as (log, _):
        follow_vectors(log, index, PROJECTED, MODEL.name)
    index.commit()
    made = index.digest()
    index.close()
    local.stop()
    assert made
    return made


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("MNEMOLOG_QDRANT_API_KEY", KEY)
    store = Store()
    store.start()
    yield store
    store.end()


def health(client: HttpClient) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.get("/healthz")[1])
    return found


def teach(client: HttpClient, name: str, text: str | None = None) -> int:
    reply = client.ok("learn", {"insight": text or LESSONS[name], "collection": name})
    assert reply["status"] == "created"
    return int(reply["memory_id"])


def finds(client: HttpClient, name: str, mode: str) -> dict[str, Any]:
    """The lesson, and how it was searched for."""
    reply: dict[str, Any] = {}

    def searched() -> bool:
        reply.update(client.ok("recall", {"query": ASKED[name], "collection": name}))
        return bool(reply["mode"] == mode)

    if mode == "hybrid":
        # On a busy machine a server that does not answer in time counts as away for a moment.
        until(searched, lambda: health(client))
    else:
        assert searched(), reply
    assert reply["memories"][0]["content"].startswith(LESSONS[name]), reply
    first: dict[str, Any] = reply["memories"][0]
    return first


def settled(client: HttpClient) -> None:
    """The store has everything that this node knows."""

    def done() -> bool:
        found = health(client)["vectors"]
        return (found["status"], found["tail"]) == ("ok", 0)

    until(done, lambda: health(client))


def test_an_embedded_node_does_without_its_store_and_catches_up(
    store: Store, tmp_path: Path
) -> None:
    data, vectors = tmp_path / "data", ("--vectors", store.url)
    server = Server(data, *vectors)
    told: list[str] = []
    try:
        client = server.client()
        grip = teach(client, "grip")
        assert finds(client, "grip", "hybrid")["id"] == grip
        settled(client)
        assert finds(client, "grip", "hybrid")["id"] == grip
        assert store.holds() == by_the_log(data)

        store.stop()
        teach(client, "ramp")
        finds(client, "grip", "bm25_only")
        finds(client, "ramp", "bm25_only")
        client.ok("create_entities", {"entities": [{"name": "Crane", "observations": ["lifts"]}]})
        crane = {"query": "a crane that lifts"}
        until(lambda: "pending" not in client.ok("search_semantic", crane), lambda: health(client))
        meant = client.ok("search_semantic", crane)
        assert ([one["name"] for one in meant["results"]], meant["mode"]) == (
            ["Crane"],
            "bm25_only",
        )
        found = health(client)
        told.append(json.dumps(found))
        assert (found["status"], found["mode"]) == ("ok", "bm25_only")
        assert found["vectors"]["status"] == "away"
        assert "cannot be reached" in found["vectors"]["reason"]
        assert found["vectors"]["tail"] == 2
        client.ok("forget", {"memory_id": grip, "reason": "not true"})
        assert client.ok("recall", {"query": ASKED["grip"], "collection": "grip"})["memories"] == []
        shown = run("rebuild", "--data", str(data))
        told.append(shown.stdout + shown.stderr)
        assert shown.returncode == 1
        assert "The vectors on the server were not made anew" in shown.stderr

        store.start()
        settled(client)
        finds(client, "ramp", "hybrid")
        assert "mode" not in client.ok("search_semantic", crane)
        assert store.holds() == by_the_log(data)

        # Killed with something that the store does not have, and started while it is away.
        store.stop()
        teach(client, "door")
        server.process.kill()
        server.process.wait()
        told.append(server.errors.read_text())
        server = Server(data, *vectors)
        client = server.client()
        finds(client, "door", "bm25_only")
        store.start()
        settled(client)
        finds(client, "door", "hybrid")
        finds(client, "ramp", "hybrid")
        assert store.holds() == by_the_log(data)

        # Rebuilt while somebody writes.
        before, robot = store.live, Robot("writer", lambda: [client])
        robot.start()
        shown = run("rebuild", "--data", str(data))
        told.append(shown.stdout + shown.stderr)
        assert shown.returncode == 0, shown.stderr
        assert robot.end()
        assert store.live != before
        assert [one.name for one in store.local.get_collections().collections] == [store.live]
        finds(client, "door", "hybrid")
        client.ok("update", {"memory_id": 2, "new_content": LESSONS["ramp"] + " or oil"})
        finds(client, "ramp", "hybrid")
        settled(client)
        until(lambda: store.holds() == by_the_log(data), lambda: health(client))
        finds(client, "ramp", "hybrid")
        told.append(client.get("/healthz")[1] + client.get("/metrics")[1])
        assert server.stop() == 0
    finally:
        server.process.kill()
        server.process.wait()
    store.stop()
    assert store.keys == {KEY}
    assert not any(KEY in one for one in (*told, server.errors.read_text()))


@pytest.fixture
def far(broker: Broker, store: Store, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(broker, tmp_path, "--vectors", store.url)
    yield made
    made.close()


def test_nodes_on_kafka_share_a_store_that_a_projector_feeds(store: Store, far: Fleet) -> None:
    node = far.node("node", "--role", "gateway,decider")
    client, data = node.client(), far.data("node")
    teach(client, "grip")
    finds(client, "grip", "hybrid")
    # Nobody feeds the store yet: what is new is searched from memory.
    assert health(client)["vectors"]["tail"] == 1

    projector = far.node("projector", "--role", "projector")
    settled(client)
    finds(client, "grip", "hybrid")
    assert store.holds() == by_the_log(data)
    assert "takes no calls" in str(projector.client().call("learn", {"insight": "x"}))

    store.stop()
    teach(client, "ramp")
    finds(client, "ramp", "bm25_only")
    assert health(client)["mode"] == "bm25_only"
    until(lambda: health(projector.client())["status"] == "degraded", lambda: "")
    seen = [client.get("/healthz")[1], projector.client().get("/healthz")[1]]
    assert "cannot be reached" in seen[1]
    store.start()
    settled(client)
    finds(client, "ramp", "hybrid")
    until(lambda: health(projector.client())["status"] == "ok", lambda: "")
    assert store.holds() == by_the_log(data)

    far.kill("projector")
    teach(client, "door")
    finds(client, "door", "hybrid")
    far.node("projector", "--role", "projector")
    settled(client)
    assert store.holds() == by_the_log(data)

    before = store.live
    shown = run("rebuild", "--data", str(data))
    assert shown.returncode == 0, shown.stderr
    assert store.live != before
    for name in LESSONS:
        finds(client, name, "hybrid")
    client.ok("update", {"memory_id": first_id(client), "new_content": LESSONS["grip"] + ", ever"})
    settled(client)
    until(lambda: store.holds() == by_the_log(data), lambda: health(client))
    finds(client, "grip", "hybrid")
    far.end()
    store.stop()
    assert store.keys == {KEY}
    seen += [shown.stdout, shown.stderr]
    seen += [file.read_text() for file in far.data("node").parent.glob("*.err")]
    assert not any(KEY in one for one in seen)


def first_id(client: HttpClient) -> int:
    return int(finds(client, "grip", "hybrid")["id"])
