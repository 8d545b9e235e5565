"""Two processes' worth of services on one directory, in one loop: what a guest waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemolog.infra.settings import Settings
from mnemolog.projections.text.index import TantivyText
from mnemolog.services.api import Answer, Request, Unavailable
from mnemolog.services.node.following import rebuild
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.node.sharing import guest, holder
from mnemolog.services.node.sharing.guest import Guest
from mnemolog.services.node.sharing.holder import Holder
from mnemolog.services.node.sharing.lock import DirectoryLock
from mnemolog.services.node.sharing.shared import SharedService
from tests.contract.test_failing import Broken, Panic
from tests.families import CATALOGUE


@asynccontextmanager
async def two(data: Path, **given: Any) -> AsyncIterator[tuple[SharedService, SharedService]]:
    settings = Settings(data=str(data), model="none", **given)
    first, second = SharedService(settings, CATALOGUE), SharedService(settings, CATALOGUE)
    try:
        for one in (first, second):
            await one.start()
            await one.ready()
        assert first.holder is not None and second.guest is not None
        yield first, second
    finally:
        await second.close()
        await first.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(240):
            await test()

    asyncio.run(bounded())


async def call(service: SharedService, tool: str, key: str = "call-1", **given: Any) -> Answer:
    return await service.call(
        Request(
            tool=tool,
            arguments=msgspec.json.encode(given),
            call_id=key,
            received_at_us=time.time_ns() // 1000,
        )
    )


def beside(data: Path) -> list[str]:
    return [one.name for one in data.iterdir() if one.name.startswith("projections")]


def nothing(done: int, total: int) -> None:
    pass


def test_whatever_is_raised_at_the_holder_is_told_to_the_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, digest = (
        Broken(monkeypatch, TantivyText, "search"),
        Broken(monkeypatch, TantivyText, "digest"),
    )
    health = Broken(monkeypatch, Holder, "health")

    async def test() -> None:
        async with two(tmp_path) as (_, other):
            search.error = digest.error = health.error = Panic("index out of bounds")
            with pytest.raises(Unavailable, match="Panic: index out of bounds"):
                await call(other, "recall", query="cups")
            with pytest.raises(Unavailable, match="Panic: index out of bounds"):
                await other.health()
            assert other.guest is not None
            with pytest.raises(Unavailable, match="The rebuild failed: Panic: index out"):
                await other.guest.rebuild(True, nothing)
            assert not (tmp_path / "projections.new").exists()
            search.error = digest.error = health.error = None
            assert (await other.guest.rebuild(True, nothing))["differences"] == []

    run(test)


def test_what_takes_long_is_waited_for_while_the_holder_is_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "GRACE_S", 0.0)
    monkeypatch.setattr(holder, "BEAT_S", 0.05)
    real = rebuild._compare

    def slow(*args: Any) -> Any:
        time.sleep(3)
        return real(*args)

    monkeypatch.setattr(rebuild, "_compare", slow)

    async def test() -> None:
        async with two(tmp_path, call_timeout_s=1.0) as (_, other):
            assert other.guest is not None
            assert (await other.guest.rebuild(True, nothing))["verified"]

    run(test)


def test_a_holder_that_says_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes connections, and never says a word."""
    monkeypatch.setattr(guest, "GRACE_S", 0.0)
    lock = DirectoryLock(tmp_path / "lock")
    assert lock.take()

    async def test() -> None:
        silent = await asyncio.start_unix_server(lambda *_: None, str(tmp_path / "socket"))
        connection = await Guest.connect(tmp_path, 0.2)
        assert connection is not None
        said = rf"Process {lock.holder()}, which holds {tmp_path}, has not answered for 0.2 s"
        asked = Request(tool="learn", arguments=b"{}", call_id="mine", received_at_us=0)
        with pytest.raises(Unavailable, match=f"{said}. The call may still.* key 'mine'"):
            await connection.call(asked)
        with pytest.raises(Unavailable, match=f"{said}$"):
            await connection.health()
        with pytest.raises(Unavailable, match=f"{said}$"):
            await connection.rebuild(True, nothing)
        await connection.close()
        silent.close()

    run(test)
    lock.release()


@pytest.mark.parametrize("fails", ["swap", "open"])
def test_a_rebuild_that_cannot_be_switched_to_leaves_what_there_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    opening = Broken(monkeypatch, Projections, "__init__")
    real, after = rebuild._swap, [False]
    full = OSError(28, "No space left on device")

    def swap(directory: Path) -> None:
        if not after[0]:
            real(directory)
            return
        after[0] = False
        if fails == "swap":
            (directory / "projections").rename(directory / "projections.old")
            raise full
        real(directory)
        opening.error, opening.once = full, True

    monkeypatch.setattr(rebuild, "_swap", swap)

    async def test() -> None:
        async with two(tmp_path) as (_, other):
            await call(other, "learn", insight="cups slip when wet")
            assert other.guest is not None
            after[0] = True
            with pytest.raises(Unavailable, match=r"The rebuild failed: The disk that .* is full"):
                await other.guest.rebuild(False, nothing)
            assert beside(tmp_path) == ["projections"]
            found = msgspec.json.decode((await call(other, "recall", "2", query="cups")).reply)
            assert found["total"] == 1
            assert not (await call(other, "learn", "3", insight="plates break")).refused
            assert (await other.guest.rebuild(True, nothing))["differences"] == []
            assert not (await other.guest.rebuild(False, nothing))["differences"]

    run(test)
