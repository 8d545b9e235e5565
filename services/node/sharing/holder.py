"""The process that holds a data directory: opens the store and serves the others on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from mnemolog.events.arguments import Refused
from mnemolog.infra.descriptors import raise_limit
from mnemolog.infra.settings import Settings
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
)
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.node.failing import ENDING, Complaints, told
from mnemolog.services.node.following.rebuild import rebuild_live
from mnemolog.services.node.kafka.logs import with_its_log
from mnemolog.services.node.node import Node
from mnemolog.services.node.sharing.entitled import (
    entitled_call,
    entitled_follow,
    entitled_names,
)
from mnemolog.services.node.sharing.lock import DirectoryLock
from mnemolog.services.node.sharing.wire import (
    EVERYTHING,
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

BEAT_S = 1.0
"""How often a guest that waits is told that it is not forgotten."""
LOOK_S = 1.0
"""How often it is looked whether others still find the socket."""
MAX_CALLS = 1024
"""Of one guest at a time: what comes after that waits in its socket. Its followers are counted by
the feed."""
MAX_ALL_CALLS = 4096
"""Of all guests together."""
MAX_GUESTS = 256
"""Connections of other processes; fewer where descriptors are few, which the store needs too."""
MAX_TURNED_AWAY = 16
"""Of those above that, as many are waited for until they have heard why."""
TURNED_AWAY_S = 1.0

_log = structlog.get_logger("mnemolog.holder")


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

    def __init__(self, settings: Settings, node: Node | ProjectorNode, lock: DirectoryLock) -> None:
        self.node = node
        self._data_dir = settings.data_dir
        self._lock = lock
        self._path = socket_path(settings.data_dir)
        self._server: asyncio.Server | None = None
        self._socket: os.stat_result | None = None
        self._unreachable: str | None = None
        self._looking: asyncio.Task[None] | None = None
        self._guests: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[None]] = set()
        self._most = min(MAX_GUESTS, max(8, raise_limit() // 8))
        self._turned_away = 0

    @classmethod
    async def open(cls, settings: Settings, catalogue: Catalogue, lock: DirectoryLock) -> Holder:
        holder = cls(settings, await _open(settings, catalogue), lock)
        try:
            await holder._listen()
        except BaseException:
            await holder.node.aclose()
            raise
        holder._looking = asyncio.create_task(holder._keep_listening())
        return holder

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        return await self.node.call(request, progress)

    async def health(self) -> dict[str, Any]:
        found = await self.node.health()
        if self._unreachable is None:
            return found
        reasons = [*found["reasons"], self._unreachable]
        return {**found, "status": "degraded", "reasons": reasons}

    async def figures(self) -> dict[str, Any]:
        return {**await self.node.figures(), "guests": len(self._guests)}

    def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        return self.node.events(follow)

    async def names(self, begun: Begun) -> list[str]:
        return await self.node.names(begun)

    async def close(self) -> None:
        """Calls that were taken are decided; guests find another holder."""
        if self._looking is not None:
            self._looking.cancel()
        if self._server is not None:
            self._server.close()
        if self._is_found():
            self._path.unlink(missing_ok=True)
        for guest in list(self._guests):
            guest.cancel()
        await asyncio.gather(*self._guests, return_exceptions=True)
        await self.node.aclose()

    async def _listen(self) -> None:
        """At the path, in place of whatever is there; those who are connected already stay so."""
        self._path.unlink(missing_ok=True)
        server = await listen(self._path, self._serve)
        self._path.chmod(0o600)
        self._socket = self._path.stat()
        if self._server is not None:
            self._server.close()
        self._server = server

    def _is_found(self) -> bool:
        """Whether what others find at the path is this process's socket."""
        with contextlib.suppress(OSError):
            return self._socket is not None and os.path.samestat(self._socket, self._path.stat())
        return False

    async def _keep_listening(self) -> None:
        """A socket that was deleted, or has something else in its place, is made again: others
        could neither hold the directory nor get through."""
        complaints = Complaints(_log)
        while True:
            await asyncio.sleep(LOOK_S)
            with complaints.about("other processes cannot get through"):
                try:
                    await self._look()
                    self._unreachable = None
                except OSError as error:
                    self._unreachable = f"Other processes cannot get through: {error}"
                    raise

    async def _look(self) -> None:
        if self._lock.still_taken:
            if not self._is_found():
                _log.warning("the socket was gone, and is made again", path=str(self._path))
                await self._listen()
            return
        # Whoever comes next would lock another file, and open the store a second time.
        if not self._data_dir.is_dir():
            raise FileNotFoundError(f"{self._data_dir} was moved or deleted while it was in use")
        if not self._lock.path.exists() and self._lock.take():
            _log.warning("the lock was deleted, and is taken again", path=str(self._lock.path))
            return
        raise FileExistsError(
            f"{self._lock.path} was replaced while it was in use, so another process may have "
            "opened the store; end one of them"
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._guests) >= self._most:
            await self._turn_away(reader, writer)
            return
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
                while len(self._calls) >= MAX_ALL_CALLS:
                    await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
                work = asyncio.create_task(self._answer(ask, guest, writer))
                asks[ask.id] = work
                work.add_done_callback(partial(asks.pop, ask.id))
                if ask.op != "events":
                    for under_way in (calls, self._calls):
                        under_way.add(work)
                        work.add_done_callback(under_way.discard)
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):
            pass
        except asyncio.CancelledError:
            pass  # by `close`; asyncio would write a traceback for a handler that was cancelled
        finally:
            self._guests.discard(task)
            for work in list(asks.values()):
                work.cancel()
            writer.close()

    async def _turn_away(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say that there is no room. Who hears it hangs up; at once closed, a question that is on
        its way would keep them from hearing."""
        self._turned_away += 1
        try:
            if self._turned_away <= MAX_TURNED_AWAY and peer(writer).is_this_user:
                full = (
                    f"{self._most} processes work through process {os.getpid()}, which holds "
                    f"{self._data_dir}, and it takes no more; end some of them"
                )
                write_frame(writer, Told(id=EVERYTHING, unavailable=full))
                with contextlib.suppress(TimeoutError, OSError):
                    async with asyncio.timeout(TURNED_AWAY_S):
                        while await reader.read(65536):
                            pass
        finally:
            self._turned_away -= 1
            writer.close()

    async def _answer(self, ask: Ask, guest: Peer, writer: asyncio.StreamWriter) -> None:
        """Whatever happens, whoever asked is told."""
        answer = Told(id=ask.id)
        try:
            if ask.op == "events" and ask.follow is not None:
                with contextlib.suppress(ConnectionError):
                    await self._tell(ask.id, entitled_follow(ask.follow), writer)
            else:
                with _beating(ask, writer):
                    await self._carry_out(ask, guest, writer, answer)
        except Unavailable as error:
            answer.unavailable, answer.timed_out = str(error), isinstance(error, TimedOut)
            answer.busy_s = error.retry_after_s if isinstance(error, Busy) else None
        except Refused as refused:
            answer.refused = refused.sentence
        except ENDING:
            raise
        except BaseException as error:
            _log.error("what another process asked failed", op=ask.op, exc_info=True)
            answer.unavailable = f"Failed inside the service: {told(error, self._data_dir)}"
        with contextlib.suppress(ConnectionError):
            write_frame(writer, answer)
            await writer.drain()

    async def _carry_out(
        self, ask: Ask, guest: Peer, writer: asyncio.StreamWriter, answer: Told
    ) -> None:
        if ask.op == "call" and ask.request is not None:
            request = self._entitled(ask.request, guest)
            answer.answer = await self.call(request, _teller(ask, writer))
        elif ask.op == "health":
            answer.result = await self.health()
        elif ask.op == "names" and ask.begun is not None:
            answer.names = await self.names(entitled_names(ask.begun))
        elif ask.op == "figures":
            answer.result = await self.figures()
        elif ask.op == "rebuild":
            answer.result = await self._rebuild(ask, writer)
        else:
            answer.unavailable = f"This version does not know {ask.op[:40]!r}"

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
        except (Unavailable, *ENDING):
            raise
        except BaseException as error:
            _log.error("a rebuild failed", exc_info=True)
            raise Unavailable(f"The rebuild failed: {told(error, self._data_dir)}") from error
        return msgspec.to_builtins(report)  # type: ignore[no-any-return]


def _teller(ask: Ask, writer: asyncio.StreamWriter) -> Progress:
    return lambda done, total: write_frame(writer, Told(id=ask.id, progress=(done, total)))


@contextlib.contextmanager
def _beating(ask: Ask, writer: asyncio.StreamWriter) -> Iterator[None]:
    """A sign of life every second: some things take as long as they take."""
    loop = asyncio.get_running_loop()
    due: asyncio.TimerHandle | None = None

    def beat() -> None:
        nonlocal due
        if due is not None:
            write_frame(writer, Told(id=-ask.id))
        due = loop.call_later(BEAT_S, beat)

    beat()
    try:
        yield
    finally:
        if due is not None:
            due.cancel()
