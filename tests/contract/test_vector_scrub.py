"""The node's own vectors, compared with the log while it works: what is in order is never taken for
damaged, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mnemolog.projections.vectors import edge
from mnemolog.projections.vectors.edge import EdgeVectors
from mnemolog.services.node import background
from mnemolog.services.node.following.rebuild import rebuild_live
from mnemolog.services.node.vectors import scrub
from tests.contract.test_feed import PATIENCE_S, Node, run
from tests.contract.test_node import body
from tests.contract.test_scrub import until
from tests.faults import fill, small_disk

MODEL = "bge-small-en-v1.5"
WRITES = 5
TIMES = 4
SIZE_MB = 400


@pytest.fixture(autouse=True)
def again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "IDLE", 0)
    monkeypatch.setattr(scrub, "FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(scrub, "EVERY_S", 0.01)
    monkeypatch.setattr(scrub, "AGAIN_AFTER_S", 0.01)


async def write(node: Node, numbers: range) -> None:
    """Lessons that stay, that are replaced, and that go, and a search, which needs them all."""
    for number in numbers:
        text = f"Note {number}: shelf {number * 7} holds {number % 5} cups"
        made = body(await node.call("learn", insight=text, collection="a"))
        if number % 3 == 1:
            more = f"{text}, and a pan"
            await node.call("update", memory_id=made["memory_id"], new_content=more, reason="seen")
        if number % 3 == 2:
            await node.call("forget", memory_id=made["memory_id"], reason="it was cleared")
        await node.call("recall", query="cups", collection="a")
    entities = [{"name": f"Shelf {numbers.start}", "observations": ["holds cups"]}]
    await node.call("create_entities", entities=entities)


async def read_through(node: Node, times: int = 2) -> None:
    """The reading that is under way may have begun before whatever was done last."""
    done = node.node.vector_scrub.read_through
    await until(lambda: node.node.vector_scrub.read_through >= done + times)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of the vectors."""
    return [one.getMessage() for one in caplog.records if one.name == edge.__name__]


def test_writes_are_not_taken_for_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each page of a reading, and so before and after the place that it has come to."""
    monkeypatch.setattr(scrub, "PAGE", 4)
    page, writing = EdgeVectors.rows, threading.Event()
    writing.set()

    def after_a_write(index: EdgeVectors, after: UUID | None, limit: int) -> Any:
        before = dict(index._applied)
        while writing.is_set() and (index._applied == before or index._buffer):
            time.sleep(0.001)
        return page(index, after, limit)

    monkeypatch.setattr(EdgeVectors, "rows", after_a_write)

    async def test(node: Node) -> None:
        before = node.node.projections
        deadline = time.monotonic() + PATIENCE_S
        for start in itertools.count(0, WRITES):
            await write(node, range(start, start + WRITES))
            if node.node.vector_scrub.read_through >= TIMES:
                break
            assert time.monotonic() < deadline
        writing.clear()
        await read_through(node)
        assert node.node.projections is before
        assert (await node.node.health())["vectors"] == {"status": "own"}
        report = await asyncio.to_thread(rebuild_live, node.node, True, lambda *_: None)
        assert report.differences == []

    run(tmp_path, test, model=MODEL)
    assert told(caplog) == []


def test_a_rebuild_is_not_taken_for_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(node: Node) -> None:
        await write(node, range(10))
        for start in (10, 20, 30):
            before = node.node.projections
            rebuilt = asyncio.to_thread(rebuild_live, node.node, False, lambda *_: None)
            await asyncio.gather(rebuilt, write(node, range(start, start + 10)))
            assert node.node.projections is not before
        await read_through(node)

    run(tmp_path, test, model=MODEL)
    assert told(caplog) == []


def test_a_full_disk_is_not_taken_for_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path / "disk", SIZE_MB) as disk:

        async def test(node: Node) -> None:
            await write(node, range(10))
            await read_through(node)
            before = node.node.projections
            filler = await asyncio.to_thread(fill, disk, 8 * 1024 * 1024)
            answer = await node.call("learn", insight="the last cup is blue", collection="a")
            assert body(answer)["status"] == "created"
            done = node.node.vector_scrub.read_through
            found = await node.call("recall", query="what colour is the cup", collection="a")
            assert body(found)["mode"] == "bm25_only"
            filler.unlink()
            await until(lambda: node.node.vector_scrub.read_through > done)
            assert node.node.projections is before

        run(disk / "store", test, model=MODEL)
    assert not [one for one in told(caplog) if "given up" in one]
