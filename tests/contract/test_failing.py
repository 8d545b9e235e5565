"""What a node does when something fails in it that should not: callers are told, threads go on, and
the health says so until it is over."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemolog.projections.state.store import PartitionState
from mnemolog.projections.text.index import TantivyText
from mnemolog.services.api import Unavailable
from mnemolog.services.node import health, upkeep
from mnemolog.services.node.embedding.late import LateVectors
from mnemolog.services.node.failing import Complaints, disk_is_full, told
from tests.contract.test_feed import PATIENCE_S, Node, run


class Panic(BaseException):
    """As engines written in Rust raise it: no `Exception`."""


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(int(PATIENCE_S * 100)):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")


async def until_healthy(node: Node) -> None:
    for _ in range(int(PATIENCE_S * 100)):
        if (await node.node.health())["status"] == "ok":
            return
        await asyncio.sleep(0.01)
    raise AssertionError((await node.node.health())["reasons"])


class Broken:
    """A method that fails until it is mended, or `once`."""

    def __init__(self, patch: pytest.MonkeyPatch, place: type, name: str) -> None:
        self.error: BaseException | None = None
        self.once = False
        self.calls = 0
        real = getattr(place, name)

        def called(*args: Any, **more: Any) -> Any:
            self.calls += 1
            error = self.error
            if self.once:
                self.error = None
            if error is not None:
                raise error
            return real(*args, **more)

        patch.setattr(place, name, called)


def test_a_read_that_panics_is_told_and_is_a_reason_until_it_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "EVERY_S", 0.01)
    monkeypatch.setattr(health, "PAUSE_S", 0.01)
    search = Broken(monkeypatch, TantivyText, "search")

    async def test(node: Node) -> None:
        await node.learn(1)
        for error in (Panic("index out of bounds"), OSError(5, "Input/output error")):
            search.error = error
            with pytest.raises(Unavailable, match=str(error.args[-1])):
                await node.call("recall", query="mark", collection="a")
            found = await node.node.health()
            assert found["status"] == "degraded"
            assert "The last read failed, at 2" in found["reasons"][0]
            assert str(error.args[-1]) in found["reasons"][0]
            await node.learn(2)  # A write says nothing of reads.
            assert (await node.node.health())["status"] == "degraded"
            before = search.calls
            await until(lambda before=before: search.calls > before)  # type: ignore[misc]
            assert (await node.node.health())["status"] == "degraded"
            decided = node.node.log.end(0).decisions
            search.error = None
            await until_healthy(node)
            assert node.node.log.end(0).decisions == decided, "what was tried again is no access"

    run(tmp_path, test)


def test_a_refusal_is_no_failure(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        assert (await node.call("recall", query="")).refused
        assert (await node.call("learn", insight="")).refused
        assert (await node.node.health())["status"] == "ok"

    run(tmp_path, test)


def test_upkeep_goes_on_whatever_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "EVERY_S", 0.01)
    monkeypatch.setattr(PartitionState, "wal_has_grown", True)
    shorten = Broken(monkeypatch, PartitionState, "shorten_wal")
    shorten.error = sqlite3.OperationalError("disk I/O error")
    commit = Broken(monkeypatch, TantivyText, "commit")
    commit.error = Panic("no such segment")

    async def test(node: Node) -> None:
        await node.learn(1)
        await until(lambda: shorten.calls > 2 and commit.calls > 2)
        shorten.error = commit.error = None
        await until(lambda: node.node.projections.text.checkpoint(0) >= 0)

    run(tmp_path, test)


@pytest.mark.parametrize("error", [RuntimeError("once"), Panic("once"), Unavailable("once")])
def test_late_embedding_goes_on_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    drain = Broken(monkeypatch, LateVectors, "_drain_all")
    drain.error = error

    async def test(node: Node) -> None:
        await node.call("create_entities", entities=[{"name": "Ball", "observations": ["rolls"]}])
        await until(lambda: drain.calls > 2)
        drain.error = None
        await until(lambda: node.node.late.progress()["embedded"] > 0)

    run(tmp_path, test, model="bge-small-en-v1.5")


class Lines:
    """Where log lines go."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def error(self, what: str, error: str, **_: Any) -> None:
        self.told.append(f"{what}: {error}")

    def info(self, what: str, after: str) -> None:
        self.told.append(f"{after}: {what}")


def test_what_stays_is_complained_of_once() -> None:
    lines = Lines()
    complaints = Complaints(lines)

    def met(error: BaseException | None) -> None:
        with complaints.about("it fails"):
            if error is not None:
                raise error

    for n in range(3):
        met(OSError(f"no room for {n}"))
    met(Panic("out of bounds"))
    met(None)
    met(None)
    met(Panic("out of bounds"))
    assert lines.told == [
        "it fails: OSError: no room for 0",
        "it fails: Panic: out of bounds",
        "it fails: works again",
        "it fails: Panic: out of bounds",
    ]
    for ending in (asyncio.CancelledError(), KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(ending)):
            met(ending)


def test_a_full_disk_is_told_as_such_wherever_it_was_met(tmp_path: Path) -> None:
    met: list[Exception] = [
        sqlite3.OperationalError("database or disk is full"),
        OSError(28, "No space left on device"),
        ValueError("Failed to open: IoError { No space left on device (os error 28) }"),
    ]
    for cause in met:
        error = RuntimeError("`mnemolog rebuild` makes it anew")
        error.__cause__ = cause
        assert disk_is_full(error, tmp_path)
        assert f"The disk that {tmp_path} is on is full" in told(error, tmp_path)
        assert "rebuild" not in told(error, tmp_path)
    assert told(Panic("out of bounds"), tmp_path) == "Panic: out of bounds"
