"""A log that goes bad while it is in use is noticed, though nobody reads that part of it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mnemolog.services.api import Unavailable
from mnemolog.services.node.embedded import scrub
from tests.contract.test_feed import PATIENCE_S, opened
from tests.contract.test_node import body

LEARNED = 6


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def fill(data: Path) -> None:
    async with opened(data) as node:
        for number in range(LEARNED):
            await node.learn(number)


def change(data: Path, table: str) -> None:
    with closing(sqlite3.connect(data / "log.db")) as log:
        (old,) = log.execute(f"SELECT data FROM {table} WHERE offset = 3").fetchone()
        assert b"mark" in old
        log.execute(
            f"UPDATE {table} SET data = ? WHERE offset = 3", (old.replace(b"mark", b"park"),)
        )
        log.commit()


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ("calls", "call 3 is not the one that decision 3 was made for"),
        ("decisions", "decision 4 of partition 0 extends no record of the log"),
    ],
)
def test_damage_in_the_middle_stops_deciding_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, place: str
) -> None:
    monkeypatch.setattr(scrub, "FIRST_AFTER_S", 0.0)

    async def test() -> None:
        await fill(tmp_path)
        change(tmp_path, table)
        async with opened(tmp_path) as node:
            await until(lambda: node.node.workers[0].failed)
            with pytest.raises(Unavailable, match=place):
                await node.learn(LEARNED)
            found = body(await node.call("recall", query="mark", collection="a", n=100))
            assert len(found["memories"]) == LEARNED  # What was decided can be read.
            health = await node.node.health()
            assert health["status"] != "ok"
            assert any(
                place in reason and "from a backup" in reason for reason in health["reasons"]
            )

    asyncio.run(test())


def test_a_whole_log_is_read_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "FIRST_AFTER_S", 0.0)

    async def test() -> None:
        await fill(tmp_path)
        async with opened(tmp_path) as node:
            await until(lambda: node.node.scrub.read_through)
            assert (await node.node.health())["status"] == "ok"
            assert not (await node.call("start_session", "other")).refused

    asyncio.run(test())
