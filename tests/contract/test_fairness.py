"""Several tenants on one real node: one that asks for much keeps nobody else waiting, and what is
asked stays in its order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mnemolog.events.codec import decode_call
from mnemolog.services.api import Answer, Busy
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.node import answering
from mnemolog.services.node.embedded import worker
from mnemolog.services.node.embedding.embedding import Embedding
from tests.contract.test_feed import PATIENCE_S, Node, run


async def held(node: Node, ask: Callable[[], Awaitable[Any]]) -> None:
    """Nothing is decided until everything is asked."""
    go_on, holding = threading.Event(), threading.Event()

    def hold() -> None:
        holding.set()
        go_on.wait()

    node.node.workers[0].between_batches(hold)
    await asyncio.to_thread(holding.wait)
    try:
        await ask()
    finally:
        go_on.set()


def offset(answer: Answer) -> int:
    assert answer.position is not None and not answer.refused, answer
    return int(answer.position.split(":")[1])


async def asked(node: Node, *calls: tuple[str, str]) -> list[asyncio.Task[Answer]]:
    """Calls of a tenant that each create an entity, and wait for their decision in this order."""
    tasks = []
    for tenant, name in calls:
        entities = [{"name": name, "observations": ["seen"]}]
        tasks.append(asyncio.create_task(node.call("create_entities", tenant, entities=entities)))
        await asyncio.sleep(0)  # So that they wait in the order of their making.
    return tasks


def test_writes_are_decided_in_turns(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        tasks: list[asyncio.Task[Answer]] = []

        async def ask() -> None:
            flood = [("flood", f"f{number}") for number in range(300)]
            tasks.extend(await asked(node, *flood, ("small", "s0"), ("small", "s1")))

        await held(node, ask)
        offsets = [offset(one) for one in await asyncio.gather(*tasks)]
        assert offsets[:300] == sorted(offsets[:300])
        assert offsets[300] < offsets[301] < 10

    run(tmp_path, test)


def test_a_read_is_on_the_log_before_a_later_write_of_its_tenant(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        await asyncio.gather(*(await asked(node, ("lab", "A"))))
        tasks: list[asyncio.Task[Answer]] = []

        async def ask() -> None:
            tasks.extend(await asked(node, *(("flood", f"f{number}") for number in range(100))))
            for _ in range(5):
                await node.call("open_nodes", "lab", names=["A"])
            tasks.extend(await asked(node, ("lab", "B")))

        await held(node, ask)
        answers = await asyncio.gather(*tasks)
        stored = node.node.log.calls(0, 0, 200)
        tools = [(one.tenant, one.tool) for one in (decode_call(found.data) for found in stored)]
        assert [tool for tenant, tool in tools if tenant == "lab"] == [
            "create_entities",
            *["open_nodes"] * 5,
            "create_entities",
        ]
        assert offset(answers[-1]) < 50, "it did not wait for the others"

    run(tmp_path, test)


def test_who_floods_a_partition_is_told_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_WAITING", 50)

    async def test(node: Node) -> None:
        tasks: list[asyncio.Task[Answer]] = []

        async def ask() -> None:
            flood = [("flood", f"f{number}") for number in range(100)]
            tasks.extend(await asked(node, *flood, ("small", "s")))

        await held(node, ask)
        *flood, small = await asyncio.gather(*tasks, return_exceptions=True)
        refused = [one for one in flood if isinstance(one, BaseException)]
        assert len(refused) == 60
        assert all(isinstance(one, Busy) for one in refused)
        assert isinstance(small, Answer)
        assert (await node.node.health())["status"] == "ok"

    run(tmp_path, test)


def test_who_waits_for_vectors_keeps_only_its_own_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Future[Inputs] = Future()
    real = Embedding.start

    def start(self: Embedding, texts: list[str], tenant: str, *more: Any) -> Future[Inputs]:
        return made if tenant == "slow" else real(self, texts, tenant, *more)

    monkeypatch.setattr(Embedding, "start", start)

    async def test(node: Node) -> None:
        tasks: list[asyncio.Task[Answer]] = []

        async def ask() -> None:
            tasks.extend(await asked(node, ("slow", "A"), ("small", "s"), ("slow", "B")))

        await held(node, ask)
        slow, small, later = tasks
        await asyncio.wait_for(small, PATIENCE_S)
        assert not slow.done() and not later.done()
        made.set_result(Inputs())
        assert offset(await slow) < offset(await later)

    run(tmp_path, test)


def test_reads_are_answered_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "READ_THREADS", 1)

    async def test(node: Node) -> None:
        await asyncio.gather(*(await asked(node, ("flood", "A"), ("small", "A"))))
        go_on = threading.Event()
        holding = node.node.answering.threads.submit("flood", go_on.wait)
        done: list[str] = []

        async def read(tenant: str) -> None:
            await node.call("open_nodes", tenant, names=["A"])
            done.append(tenant)

        tasks = [asyncio.create_task(read("flood")) for _ in range(50)]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(read("small")))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*tasks)
        assert holding.result(PATIENCE_S)
        assert done.index("small") < 10

    run(tmp_path, test)
