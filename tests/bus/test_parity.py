"""Embedded and on Kafka, on one node and on three: the same calls get the same replies and leave
the same state, at equal partition count and with the same clock and call ids."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemolog.infra.embedder.catalogue import Model
from mnemolog.infra.kafka.broker import Broker
from mnemolog.infra.settings import Settings
from mnemolog.projections.episodes.state import EPISODE, PATTERN
from mnemolog.projections.graph.meaning import ENTITY, REFLECTION
from mnemolog.services.api import Answer, Request, own_files
from mnemolog.services.late import Queue
from mnemolog.services.node.embedded.node import EmbeddedNode
from mnemolog.services.node.embedding.late import LateVectors
from mnemolog.services.node.following.rebuild import state_hash
from mnemolog.services.node.kafka.node import KafkaNode
from mnemolog.services.node.node import Node
from tests.bus.fleet import CALL_S, PARTITIONS, until
from tests.bus.script import Reply, Script
from tests.families import CATALOGUE

SEED = 20_251_116
START_US = 1_760_000_000_000_000
STEP_US = 60_000_000
PATIENCE_S = 240.0


class Held(LateVectors):
    """Describes entities between two calls only: while one is under way, how much of it is there
    already would be a matter of chance."""

    def _drain_queue(self, queue: Queue, partition: int, model: Model) -> None:
        while not GO.wait(0.02):
            if self._stopping.is_set():
                return
        self._hurry.set()  # Otherwise how much is described at once depends on the time.
        super()._drain_queue(queue, partition, model)


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnemolog.services.node.node.LateVectors", Held)


class Stage:
    """Plays calls on the nodes in turn, and lets each one come to rest everywhere before the next:
    the order of what is on the log is then the order of the calls."""

    def __init__(self, nodes: list[Node], settle: Callable[[int], Awaitable[None]]) -> None:
        self._turn = itertools.cycle(nodes)
        self._nodes = nodes
        self._settle = settle
        self._count = itertools.count()
        self._files = own_files()

    async def play(self, tool: str, arguments: Reply) -> Reply:
        number = next(self._count)
        CLOCK[0] = START_US + number * STEP_US
        GO.clear()
        answer = await next(self._turn).call(
            Request(
                tool=tool,
                arguments=msgspec.json.encode(arguments),
                call_id=f"call-{number}",
                received_at_us=CLOCK[0],
                files=self._files,
            )
        )
        GO.set()
        await self._settle(_partition(answer))
        for node in self._nodes:
            # Word statistics count what was replaced until a commit: its moment would be chance.
            await asyncio.to_thread(node.projections.commit)
        found: dict[str, Any] = _without_times(msgspec.json.decode(answer.reply))
        return found


CLOCK = [START_US]
GO = threading.Event()


def _partition(answer: Answer) -> int:
    return int((answer.position or "").split(":")[0])


def _without_times(reply: Any) -> Any:
    """How long it took is told by a recall, by code and by a test of embeddings; nothing else may
    differ."""
    for name in ("query_ms", "execution_time_ms", "latency_ms"):
        reply.pop(name, None)
    return reply


async def _described(nodes: list[Node]) -> None:
    """The service's own work that a call leaves behind is done."""
    deadline = time.monotonic() + PATIENCE_S
    for node in nodes:
        for state in node.projections.states:
            for space, kind in DESCRIBED:
                while await asyncio.to_thread(_pending, node, state.partition, space, kind):
                    assert time.monotonic() < deadline, "things wait to be described"
                    await asyncio.sleep(0.002)


DESCRIBED = (
    ("default/graph", ENTITY),
    ("default/graph", REFLECTION),
    ("default/episodes", EPISODE),
    ("default/episodes", PATTERN),
)


def _pending(node: Node, partition: int, space: str, kind: str) -> int:
    with node.using.shared():
        view = node.projections.states[partition].reader()
        return node.late.pending(view, space, kind).count


def _settings(data: Path, **more: Any) -> Settings:
    return Settings(data=str(data), partitions=PARTITIONS, call_timeout_s=CALL_S, **more)


async def embedded(data: Path, script: Script) -> tuple[list[Reply], str]:
    node = EmbeddedNode(_settings(data), CATALOGUE, clock=lambda: CLOCK[0])

    async def settle(partition: int) -> None:
        await _described([node])
        worker = node.workers[partition]
        await asyncio.wrap_future(worker.between_batches(lambda: None))

    try:
        await asyncio.to_thread(node.embedder.wait, PATIENCE_S)
        replies = await script.play(Stage([node], settle).play)
        return replies, state_hash(node.projections.digest())
    finally:
        node.close()


async def on_kafka(
    broker: Broker, topics: str, data: Path, count: int, script: Script
) -> tuple[list[Reply], str]:
    async with AsyncExitStack() as stack:
        nodes: list[KafkaNode] = []
        for i in range(count):
            settings = _settings(data / str(i), log=f"kafka://{broker.bootstrap}", topics=topics)
            nodes.append(await KafkaNode.open(settings, CATALOGUE, clock=lambda: CLOCK[0]))
            stack.push_async_callback(nodes[-1].aclose)
            await asyncio.to_thread(nodes[-1].embedder.wait, PATIENCE_S)

        def shared() -> bool:
            owned = [{p.number for p in node.partitions if p.ours} for node in nodes]
            return all(owned) and sorted(itertools.chain(*owned)) == list(range(PARTITIONS))

        await until(shared)

        async def at_rest(partition: int) -> None:
            for node in nodes:
                await node.outbox.send_reads()
            ends = await nodes[0]._kafka.ends(partition)
            for node in nodes:
                place = node.partitions[partition]
                place.log_ends(ends.calls, ends.decisions)
                await until(
                    lambda place=place: (  # type: ignore[misc]
                        place.state.head.next_call >= ends.calls and not place.behind
                    )
                )
                await until(lambda place=place: place.shown >= place.decisions.end)  # type: ignore[misc]

        async def settle(partition: int) -> None:
            await at_rest(partition)
            await _described(list(nodes))
            await at_rest(partition)

        replies = await script.play(Stage(list(nodes), settle).play)
        hashes = {state_hash(node.projections.digest()) for node in nodes}
        assert len(hashes) == 1
        return replies, hashes.pop()


def _lines(reply: Reply) -> list[str]:
    return json.dumps(reply, indent=1, ensure_ascii=False).splitlines()


def same_on_all(broker: Broker, tmp_path: Path, calls: int) -> None:
    def script(name: str) -> Script:
        return Script(SEED, calls, tmp_path / "files")

    (tmp_path / "files").mkdir()
    expected, state = asyncio.run(embedded(tmp_path / "embedded", script("embedded")))
    played = {reply["tool"] for reply in expected}
    every = {tool.name for tool in CATALOGUE.tools.values() if not tool.internal}
    assert played >= every, f"not in the script: {every - played}"
    assert sum("error" not in reply for reply in expected) > calls / 2
    for count in (1, 3):
        replies, found = asyncio.run(
            on_kafka(broker, f"parity{count}-{calls}", tmp_path / f"k{count}", count, script("k"))
        )
        for i, (mine, theirs) in enumerate(zip(expected, replies, strict=True)):
            assert _lines(mine) == _lines(theirs), f"call {i} with {count} nodes"
        assert found == state


@pytest.mark.timeout(1800)
def test_the_same_calls_have_the_same_outcome_everywhere(broker: Broker, tmp_path: Path) -> None:
    same_on_all(broker, tmp_path, 400)


@pytest.mark.faults
@pytest.mark.timeout(7200)
def test_thousands_of_calls_have_the_same_outcome_everywhere(
    broker: Broker, tmp_path: Path
) -> None:
    same_on_all(broker, tmp_path, 5_000)
