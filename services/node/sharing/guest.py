"""A process that works through the one that holds the data directory."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from mnemolog.events.arguments import Refused
from mnemolog.services.api import (
    Answer,
    Begun,
    Busy,
    Event,
    Follow,
    Progress,
    Request,
    TimedOut,
    Unavailable,
    ask_again,
    last_event,
)
from mnemolog.services.node.following.feed import Buffer
from mnemolog.services.node.sharing.lock import DirectoryLock
from mnemolog.services.node.sharing.wire import (
    EVERYTHING,
    MAX_TOLD,
    Ask,
    Told,
    dial,
    peer,
    read_frame,
    socket_path,
    told_decoder,
    write_frame,
)

MAX_BUFFERED = 1000
"""Events that may wait here for their reader, besides those that wait at the holder."""
GRACE_S = 5.0
"""The holder has its own limits, and says more than that it says nothing: this much longer it is
waited for."""

_log = structlog.get_logger("mnemolog.shared")


class HolderLost(Exception):
    """The connection broke; whether the call was carried out is not known."""


class HolderSilent(Unavailable):
    """The holder is there, and says nothing: it was stopped, or hangs."""


class Guest:
    """Asks the holder, and waits as long as it gives signs of life about what it was asked."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        data_dir: Path,
        timeout_s: float,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._data_dir = data_dir
        self._silence_s = timeout_s + GRACE_S
        self._heard_s: dict[int, float] = {}
        self._waiting: dict[int, asyncio.Future[Told]] = {}
        self._progress: dict[int, Callable[[int, int], None]] = {}
        self._streams: dict[int, Buffer[Told]] = {}
        self._last = 0
        self.turned_away: str | None = None
        """Why the holder has no room for this process, if so."""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def connect(cls, data_dir: Path, timeout_s: float) -> Guest | None:
        """A connection to the holder of `data_dir`; None when nobody answers there. A holder that
        says nothing for somewhat longer than `timeout_s` is not waited for."""
        path = socket_path(data_dir)
        try:
            reader, writer = await dial(path)
        except OSError:
            return None
        holder = peer(writer)
        if not holder.is_this_user:
            writer.close()
            raise Unavailable(f"At {path} user {holder.uid} listens, who is not told anything")
        return cls(reader, writer, data_dir, timeout_s)

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        try:
            told = await self._ask(progress, op="call", request=request)
        except HolderSilent as silent:
            key = request.idempotency_key or request.call_id
            raise HolderSilent(f"{silent}. {ask_again(key)}") from None
        assert told.answer is not None
        return told.answer

    async def health(self) -> dict[str, Any]:
        return (await self._ask(op="health")).result or {}

    async def names(self, begun: Begun) -> list[str]:
        return (await self._ask(op="names", begun=begun)).names or []

    async def figures(self) -> dict[str, Any]:
        return (await self._ask(op="figures")).result or {}

    async def rebuild(self, verify: bool, progress: Callable[[int, int], None]) -> dict[str, Any]:
        return (await self._ask(progress, op="rebuild", verify=verify)).result or {}

    async def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        if self._listening.done():
            raise self._lost()
        self._last += 1
        number, position = self._last, follow.after or ""
        buffer = self._streams[number] = Buffer[Told](MAX_BUFFERED)
        told: Told | None = None
        try:
            write_frame(self._writer, Ask(id=number, op="events", follow=follow))
            try:
                async with asyncio.timeout(self._silence_s):
                    await self._writer.drain()
                    told = await buffer.take()
            except TimeoutError:
                raise self._silent() from None
            while told is not None and told.event is not None:
                position = told.event.position
                yield told.event
                told = await buffer.take()
        except ConnectionError:
            raise self._lost() from None
        finally:
            del self._streams[number]
            if told is None or told.event is not None:
                with contextlib.suppress(ConnectionError):
                    write_frame(self._writer, Ask(id=number, op="stop"))
        if told is None and buffer.lost:
            yield last_event("cut_off", position, f"This reader fell {MAX_BUFFERED} events behind")
        elif told is None:
            raise self._lost()
        elif told.unavailable is not None:
            raise _unavailable(told.unavailable, told)
        elif told.refused is not None:
            raise Refused(told.refused)

    async def ended(self) -> None:
        """Returns when the holder is gone, or has no room for this process."""
        await asyncio.wait([self._listening])

    async def close(self) -> None:
        self._listening.cancel()
        self._writer.close()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._listening

    async def _ask(self, progress: Callable[[int, int], None] | None = None, **fields: Any) -> Told:
        self._last += 1
        number = self._last
        future: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        if self._listening.done():
            raise self._lost()
        self._waiting[number] = future
        if progress is not None:
            self._progress[number] = progress
        try:
            write_frame(self._writer, Ask(id=number, **fields))
            told = await self._told(number, future)
        except ConnectionError:
            raise self._lost() from None
        finally:
            self._waiting.pop(number, None)
            self._heard_s.pop(number, None)
            self._progress.pop(number, None)
        if told.unavailable is not None:
            raise _unavailable(told.unavailable, told)
        return told

    async def _told(self, number: int, future: asyncio.Future[Told]) -> Told:
        self._heard_s[number] = time.monotonic()
        try:
            async with asyncio.timeout(self._silence_s):
                await self._writer.drain()
        except TimeoutError:
            raise self._silent() from None
        while True:
            left_s = self._heard_s[number] + self._silence_s - time.monotonic()
            await asyncio.wait([future], timeout=max(0.0, left_s))
            if future.done():
                return future.result()
            if left_s <= 0:
                raise self._silent()

    def _lost(self) -> HolderLost | Unavailable:
        return HolderLost() if self.turned_away is None else Unavailable(self.turned_away)

    def _silent(self) -> HolderSilent:
        holder = DirectoryLock(self._data_dir / "lock").holder()
        return HolderSilent(
            f"Process {holder}, which holds {self._data_dir}, has not answered for "
            f"{self._silence_s:g} s"
        )

    async def _listen(self) -> None:
        try:
            while True:
                told = told_decoder.decode(await read_frame(self._reader, MAX_TOLD))
                if told.id == EVERYTHING:
                    self.turned_away = told.unavailable
                    self._writer.close()
                    break
                heard = abs(told.id)
                if heard in self._heard_s:
                    self._heard_s[heard] = time.monotonic()
                if told.progress is not None:
                    if told.id in self._progress:
                        self._progress[told.id](*told.progress)
                    continue
                if told.id in self._streams:
                    data = told.event.data if told.event is not None else b""
                    self._streams[told.id].put(told, len(data))
                    continue
                future = self._waiting.get(told.id)
                if future is not None and not future.done():
                    future.set_result(told)
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):
            pass
        except Exception:
            _log.error("what the holder says cannot be taken", exc_info=True)
        finally:
            for buffer in self._streams.values():
                buffer.end()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(self._lost())


def _unavailable(sentence: str, told: Told) -> Unavailable:
    if told.busy_s is not None:
        return Busy(sentence, told.busy_s)
    return (TimedOut if told.timed_out else Unavailable)(sentence)
