"""Nodes on one Kafka log: as processes that can be killed, and in this process, to look inside."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

import msgspec

from mnemolog.infra.kafka.broker import Broker
from mnemolog.infra.settings import Settings
from mnemolog.services.api import Answer, Request
from mnemolog.services.node.kafka.node import KafkaNode
from tests.e2e.conftest import PATIENCE_S, HttpClient, Server, run

PARTITIONS = 4
CALL_S = 90.0
"""How long calls within this process wait: on a busy machine a group takes its time."""


class Fleet:
    """Processes that share the log `topics` on `broker`, each with a directory of its own."""

    def __init__(self, broker: Broker, directory: Path, *args: str) -> None:
        self.broker = broker
        self.topics = f"fleet-{uuid.uuid4().hex[:12]}"
        self.log = f"kafka://{broker.bootstrap}"
        self._directory = directory
        self._args = args
        self._servers: dict[str, Server] = {}

    def node(self, name: str, *args: str) -> Server:
        """Start a node, or start it again on its directory."""
        server = Server(
            self.data(name),
            *("--log", self.log, "--partitions", str(PARTITIONS)),
            *self._args,
            *args,
            env={"MNEMOLOG_TOPICS": self.topics},
        )
        self._servers[name] = server
        return server

    def data(self, name: str) -> Path:
        return self._directory / name

    def kill(self, name: str) -> None:
        server = self._servers[name]
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()

    def close(self) -> None:
        for server in self._servers.values():
            if server.process.poll() is None:
                server.process.kill()
            server.process.wait()

    def end(self) -> None:
        """All of them, in good order."""
        for server in self._servers.values():
            if server.process.poll() is None:
                assert server.stop() == 0, server.errors.read_text()

    def hash_of(self, name: str) -> str:
        """The state's canonical hash, once it was found equal to a rebuild from the log."""
        shown = run("rebuild", "--verify", "--json", "--data", str(self.data(name)))
        assert shown.returncode == 0, shown.stdout + shown.stderr
        report = json.loads(shown.stdout)
        assert report["differences"] == []
        return str(report["state_hash"])

    def memories(self, name: str) -> dict[int, str]:
        """What a node that has ended remembers, read past the service."""
        found: dict[int, str] = {}
        files = sorted(self.data(name).rglob("p[0-9]*.db"))
        assert len(files) == PARTITIONS
        for file in files:
            with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as state:
                found |= dict(state.execute("SELECT id, content FROM memory"))
        return found

    def verify(self, name: str) -> list[dict[str, Any]]:
        """What `audit verify` says of each partition; the log must be whole."""
        shown = run("audit", "verify", "--json", "--data", str(self.data(name)))
        found = json.loads(shown.stdout)
        assert found["whole"], found
        partitions: list[dict[str, Any]] = found["partitions"]
        return partitions


class Robot(threading.Thread):
    """Teaches lesson after lesson, each under a key of its own, again until it is acknowledged,
    to whichever of the servers answers. `taught` holds what was acknowledged, `failed` counts the
    calls that came to nothing."""

    def __init__(self, name: str, clients: Callable[[], list[HttpClient]]) -> None:
        super().__init__(name=name, daemon=True)
        self.taught: dict[int, str] = {}
        self.failed = 0
        self._clients = clients
        self._ended = threading.Event()

    def run(self) -> None:
        for i in itertools.count():
            if self._ended.is_set():
                return
            self._teach(f"{self.name} lesson {i}: {uuid.uuid4().hex} {uuid.uuid4().hex}")

    def _teach(self, insight: str) -> None:
        arguments = {"insight": insight, "collection": self.name}
        meta = {"idempotency_key": uuid.uuid4().hex}
        clients = itertools.cycle(self._clients())
        while True:
            # The last of these: killed while it answered.
            with contextlib.suppress(OSError, ValueError, HTTPException):
                message = next(clients).call("learn", arguments, meta)
                reply = message.get("result", {}).get("structuredContent", {})
                if reply.get("status") == "created":
                    self.taught[reply["memory_id"]] = insight
                    return
            self.failed += 1
            time.sleep(0.05)

    def wait_for(self, more: int, patience_s: float = PATIENCE_S) -> None:
        """Until it has been acknowledged that many lessons more."""
        wanted, deadline = len(self.taught) + more, time.monotonic() + patience_s
        while len(self.taught) < wanted:
            assert time.monotonic() < deadline, f"{self.name} stands at {len(self.taught)}"
            time.sleep(0.02)

    def end(self) -> dict[int, str]:
        self._ended.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        return self.taught


def decides(client: HttpClient) -> set[int]:
    """The partitions that a node decides now."""
    partitions = json.loads(client.get("/healthz")[1])["partitions"]
    return {one["partition"] for one in partitions if one["decided_here"]}


def wait_until(condition: Callable[[], bool], say: Callable[[], Any]) -> None:
    """As `until`, where no event loop runs."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about: {say()}"
        time.sleep(0.05)


def knows(client: HttpClient, robots: list[Robot]) -> None:
    """Everything that was acknowledged is there, once, under the id it was acknowledged with."""
    for robot in robots:
        assert robot.taught
        found = client.ok(
            "recall",
            {"query": f"{robot.name} lesson", "collection": robot.name, "n": 100},
            {"consistency": "strong"},
        )["memories"]
        assert len(found) == min(100, len(robot.taught))
        assert {one["id"]: one["content"] for one in found}.items() <= robot.taught.items()
        wanted = dict(list(robot.taught.items())[-20:])
        for number, insight in wanted.items():
            exact = client.ok("recall", {"query": insight, "collection": robot.name, "n": 1})
            assert exact["memories"][0]["content"] == insight
            assert exact["memories"][0]["id"] == number


# --- in this process -----------------------------------------------------------------------------


def settings_of(broker: Broker, topics: str, data: Path, **more: Any) -> Settings:
    return Settings(
        data=str(data),
        log=f"kafka://{broker.bootstrap}",
        topics=topics,
        partitions=PARTITIONS,
        model="none",
        call_timeout_s=CALL_S,
        **more,
    )


async def call(
    node: KafkaNode,
    tool: str,
    *,
    call_id: str = "",
    after: str | None = None,
    consistency: str | None = None,
    **arguments: Any,
) -> Answer:
    return await node.call(
        Request(
            tool=tool,
            arguments=msgspec.json.encode(arguments),
            call_id=call_id or uuid.uuid4().hex,
            received_at_us=time.time_ns() // 1000,
            after=after,
            consistency=consistency,
        )
    )


async def until(
    condition: Callable[[], bool],
    patience_s: float = PATIENCE_S,
    say: Callable[[], Any] = lambda: "",
) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"it did not come about: {say()}"
        await asyncio.sleep(0.02)


def digest(node: KafkaNode) -> dict[str, str]:
    return {
        name: value
        for name, value in node.projections.digest().items()
        if name.startswith(("state/", "text/"))
    }
