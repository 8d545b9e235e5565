"""A process that works through the one that holds the data directory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.services.api import Answer, Event, Follow, Progress, Request, Unavailable, last_event
from mnemolog.services.node.following.feed import Buffer
from mnemolog.services.node.sharing.wire import (
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


class HolderLost(Exception):
    """The connection broke; whether the call was carried out is not known."""


class Guest:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Told]] = {}
        self._progress: dict[int, Callable[[int, int], None]] = {}
        self._streams: dict[int, Buffer[Told]] = {}
        self._last = 0
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def connect(cls, data_dir: Path) -> Guest | None:
        """A connection to the holder of `data_dir`; None when nobody answers there."""
        path = socket_path(data_dir)
        try:
            reader, writer = await dial(path)
        except OSError:
            return None
        holder = peer(writer)
        if not holder.is_this_user:
            writer.close()
            raise Unavailable(f"At {path} user {holder.uid} listens, who is not told anything")
        return cls(reader, writer)

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        told = await self._ask(progress, op="call", request=request)
        assert told.answer is not None
        return told.answer

    async def health(self) -> dict[str, Any]:
        return (await self._ask(op="health")).result or {}

    async def rebuild(self, verify: bool, progress: Callable[[int, int], None]) -> dict[str, Any]:
        return (await self._ask(progress, op="rebuild", verify=verify)).result or {}

    async def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        if self._listening.done():
            raise HolderLost
        self._last += 1
        number, position = self._last, follow.after or ""
        buffer = self._streams[number] = Buffer[Told](MAX_BUFFERED)
        told: Told | None = None
        try:
            write_frame(self._writer, Ask(id=number, op="events", follow=follow))
            await self._writer.drain()
            while (told := await buffer.take()) is not None and told.event is not None:
                position = told.event.position
                yield told.event
        except ConnectionError:
            raise HolderLost from None
        finally:
            del self._streams[number]
            if told is None or told.event is not None:
                with contextlib.suppress(ConnectionError):
                    write_frame(self._writer, Ask(id=number, op="stop"))
        if told is None and buffer.lost:
            yield last_event("cut_off", position, f"This reader fell {MAX_BUFFERED} events behind")
        elif told is None:
            raise HolderLost
        elif told.unavailable is not None:
            raise Unavailable(told.unavailable)
        elif told.refused is not None:
            raise Refused(told.refused)

    async def ended(self) -> None:
        """Returns when the holder is gone."""
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
            raise HolderLost
        self._waiting[number] = future
        if progress is not None:
            self._progress[number] = progress
        try:
            write_frame(self._writer, Ask(id=number, **fields))
            await self._writer.drain()
            told = await future
        except ConnectionError:
            raise HolderLost from None
        finally:
            self._waiting.pop(number, None)
            self._progress.pop(number, None)
        if told.unavailable is not None:
            raise Unavailable(told.unavailable)
        return told

    async def _listen(self) -> None:
        try:
            while True:
                told = told_decoder.decode(await read_frame(self._reader, MAX_TOLD))
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
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
            pass
        finally:
            for buffer in self._streams.values():
                buffer.end()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(HolderLost())
