"""The process that holds a data directory: opens the store and serves the others on it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from mnemolog.events.arguments import Refused
from mnemolog.infra.directory import own_directory
from mnemolog.infra.settings import Settings
from mnemolog.projections.ports import IndexDamaged
from mnemolog.services.api import Answer, Event, Follow, Progress, Request, Unavailable
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.node.following.rebuild import rebuild_live
from mnemolog.services.node.kafka.logs import with_its_log
from mnemolog.services.node.node import Node
from mnemolog.services.node.sharing.entitled import entitled_call, entitled_follow
from mnemolog.services.node.sharing.wire import (
    MAX_ASK,
    Ask,
    Peer,
    Told,
    ask_decoder,
    listen,
    peer,
    read_frame,
    socket_path,
    write_frame,
)

if TYPE_CHECKING:
    from mnemolog.services.node.kafka.projecting import ProjectorNode

MAX_CALLS = 1024
"""Of one guest at a time: what comes after that waits in its socket. Its followers are counted by
the feed."""

_log = structlog.get_logger("mnemolog.holder")


class DirectoryLock:
    """An advisory lock on a file of the data directory; the system lets go of it when the process
    ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> bool:
        own_directory(self.path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        os.truncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        self._file = file
        return True

    @property
    def taken(self) -> bool:
        return self._file is not None

    def holder(self) -> str:
        """The process id that the holder left in the file."""
        with contextlib.suppress(OSError):
            return self.path.read_text().strip() or "unknown"
        return "unknown"

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


async def _open(settings: Settings, catalogue: Catalogue) -> Node | ProjectorNode:
    settings = with_its_log(settings)
    if settings.brokers is None:
        from mnemolog.services.node.embedded.node import EmbeddedNode

        return await asyncio.to_thread(EmbeddedNode, settings, catalogue)
    if settings.roles == {"projector"}:
        from mnemolog.services.node.kafka.projecting import ProjectorNode

        return await ProjectorNode.open(settings, catalogue)
    from mnemolog.services.node.kafka.node import KafkaNode

    return await KafkaNode.open(settings, catalogue)


class Holder:
    """The store, opened in this process, and the socket for the others. Needs the lock."""

    def __init__(self, settings: Settings, node: Node | ProjectorNode) -> None:
        self.node = node
        self._path = socket_path(settings.data_dir)
        self._server: asyncio.Server | None = None
        self._guests: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, settings: Settings, catalogue: Catalogue) -> Holder:
        holder = cls(settings, await _open(settings, catalogue))
        holder._path.unlink(missing_ok=True)
        holder._server = await listen(holder._path, holder._serve)
        return holder

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        return await self.node.call(request, progress)

    async def health(self) -> dict[str, Any]:
        return await self.node.health()

    def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        return self.node.events(follow)

    async def close(self) -> None:
        """Calls that were taken are decided; guests find another holder."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)
        for guest in list(self._guests):
            guest.cancel()
        await asyncio.gather(*self._guests, return_exceptions=True)
        await self.node.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._guests.add(task)
        asks: dict[int, asyncio.Task[None]] = {}
        calls: set[asyncio.Task[None]] = set()
        guest = peer(writer)
        if not guest.is_this_user:
            _log.warning("a process of another user was turned away", uid=guest.uid)
        try:
            while guest.is_this_user:
                ask = ask_decoder.decode(await read_frame(reader, MAX_ASK))
                if ask.op == "stop":
                    if ask.id in asks:
                        asks[ask.id].cancel()
                    continue
                if ask.id in asks:
                    raise ConnectionError(f"two questions have the number {ask.id}")
                if len(calls) >= MAX_CALLS:
                    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                work = asyncio.create_task(self._answer(ask, guest, writer))
                asks[ask.id] = work
                work.add_done_callback(partial(asks.pop, ask.id))
                if ask.op != "events":
                    calls.add(work)
                    work.add_done_callback(calls.discard)
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
            pass
        except asyncio.CancelledError:
            pass  # by `close`; asyncio would write a traceback for a handler that was cancelled
        finally:
            self._guests.discard(task)
            for work in list(asks.values()):
                work.cancel()
            writer.close()

    async def _answer(self, ask: Ask, guest: Peer, writer: asyncio.StreamWriter) -> None:
        told = Told(id=ask.id)
        try:
            if ask.op == "call" and ask.request is not None:
                request = self._entitled(ask.request, guest)
                told.answer = await self.call(request, _teller(ask, writer))
            elif ask.op == "health":
                told.result = await self.health()
            elif ask.op == "events" and ask.follow is not None:
                await self._tell(ask.id, entitled_follow(ask.follow), writer)
            elif ask.op == "rebuild":
                told.result = await self._rebuild(ask, writer)
            else:
                told.unavailable = f"This version does not know {ask.op[:40]!r}"
        except Unavailable as error:
            told.unavailable = str(error)
        except Refused as refused:
            told.refused = refused.sentence
        except ConnectionError:
            return
        except Exception as error:
            _log.error("a call from another process failed", error=str(error), exc_info=True)
            told.unavailable = "The call failed inside the service; its log tells why"
        with contextlib.suppress(ConnectionError):
            write_frame(writer, told)
            await writer.drain()

    def _entitled(self, request: Request, guest: Peer) -> Request:
        node = self.node
        if not isinstance(node, Node):
            return request
        return entitled_call(request, guest, node.catalogue, node.clock())

    async def _tell(self, number: int, follow: Follow, writer: asyncio.StreamWriter) -> None:
        async with contextlib.aclosing(self.events(follow)) as events:
            async for event in events:
                write_frame(writer, Told(id=number, event=event))
                await writer.drain()

    async def _rebuild(self, ask: Ask, writer: asyncio.StreamWriter) -> dict[str, Any]:
        loop, tell = asyncio.get_running_loop(), _teller(ask, writer)

        def progress(done: int, total: int) -> None:
            loop.call_soon_threadsafe(tell, done, total)

        if not isinstance(self.node, Node):
            raise Unavailable("A projector has nothing of its own to rebuild; ask another node")
        try:
            report = await asyncio.to_thread(rebuild_live, self.node, ask.verify, progress)
        except IndexDamaged as error:
            raise Unavailable(str(error)) from error
        return msgspec.to_builtins(report)  # type: ignore[no-any-return]


def _teller(ask: Ask, writer: asyncio.StreamWriter) -> Progress:
    return lambda done, total: write_frame(writer, Told(id=ask.id, progress=(done, total)))
