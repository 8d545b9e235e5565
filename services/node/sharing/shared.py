"""One data directory, many processes: one holds the store, the others work through it.

Whoever gets the directory's lock opens the store and listens on a socket beside it. When the
holder ends, or is killed, the others race for the lock; the winner opens the store, the rest
connect to it. A call that was under way is sent again under its own id, and is carried out once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import structlog

from mnemolog.events.log import LogError
from mnemolog.infra.settings import Settings, SettingsError
from mnemolog.projections.state.store import StateError
from mnemolog.services.api import Answer, Begun, Event, Follow, Progress, Request, Unavailable
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.node.failing import ENDING, Complaints, disk_is_full, told
from mnemolog.services.node.sharing.guest import Guest, HolderLost
from mnemolog.services.node.sharing.holder import Holder
from mnemolog.services.node.sharing.lock import DirectoryLock

RETRY_S = 0.02

_log = structlog.get_logger("mnemolog.shared")
_T = TypeVar("_T")


class SharedService:
    """The service on `settings.data_dir`, in this process or another.

    `exclusive`: there may be only one such process on the directory (`mnemolog serve`).
    """

    def __init__(
        self, settings: Settings, catalogue: Catalogue, *, exclusive: bool = False
    ) -> None:
        self.settings = settings
        self._catalogue = catalogue
        self._exclusive = exclusive
        self._store = DirectoryLock(settings.data_dir / "lock")
        self._serving = DirectoryLock(settings.data_dir / "serve.lock")
        self._way: Holder | Guest | None = None
        self._attaching: asyncio.Task[Holder | Guest] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._told_failure = False

    async def start(self) -> None:
        """Begin to attach, in the background; `ready` tells when it is done."""
        self._begin()
        self._watching = asyncio.create_task(self._watch())

    async def ready(self) -> None:
        await self._attached()

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        return await self._through(lambda way: way.call(request, progress))

    async def health(self) -> dict[str, Any]:
        if self._way is None and self._attaching is not None and not self._attaching.done():
            return {"status": "starting", "data": str(self.settings.data_dir)}
        found = await self._through(lambda way: way.health())
        holds = isinstance(self._way, Holder)
        return {**found, "data": str(self.settings.data_dir), "holds_store": holds}

    async def figures(self) -> dict[str, Any]:
        if self._way is None:
            return {}
        return await self._through(lambda way: way.figures())

    async def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        """Goes on, from where it was, with the next holder when one is lost."""
        told: set[str] = set()
        while True:
            way = await self._attached()
            try:
                async with contextlib.aclosing(way.events(follow)) as events:
                    async for event in events:
                        follow = msgspec.structs.replace(follow, after=event.position, last=None)
                        if event.kind == "decided" or event.kind not in told:
                            told.add(event.kind)
                            yield event
                return
            except HolderLost:
                self._lose(way)

    async def names(self, begun: Begun) -> list[str]:
        return await self._through(lambda way: way.names(begun))

    @property
    def holder(self) -> Holder | None:
        return self._way if isinstance(self._way, Holder) else None

    @property
    def guest(self) -> Guest | None:
        return self._way if isinstance(self._way, Guest) else None

    async def close(self) -> None:
        for task in (self._watching, self._attaching):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
        if self._way is not None:
            await self._way.close()
        self._store.release()
        self._serving.release()

    async def _through(self, ask: Callable[[Holder | Guest], Awaitable[_T]]) -> _T:
        """Ask whoever holds the store; when it is lost on the way, ask the next one again."""
        deadline = time.monotonic() + self.settings.call_timeout_s
        while True:
            way = await self._attached()
            try:
                return await ask(way)
            except HolderLost:
                self._lose(way)
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "The process that holds the data directory keeps going away; the call may "
                        "have been carried out"
                    ) from None

    def _lose(self, way: Holder | Guest) -> None:
        if self._way is way:
            self._way = None
            self._begin()

    async def _watch(self) -> None:
        """Notice the holder's end without waiting for a call: somebody must hold the store."""
        complaints = Complaints(_log)
        while True:
            with complaints.about("the holder is not watched"), contextlib.suppress(Unavailable):
                way = await self._attached()
                if isinstance(way, Guest):
                    await way.ended()
                    if way.turned_away is not None:
                        await asyncio.sleep(1.0)  # Till then calls are told why.
                    self._lose(way)
                    continue
            await asyncio.sleep(1.0)

    async def _attached(self) -> Holder | Guest:
        if self._way is not None:
            return self._way
        if self._attaching is None:
            raise Unavailable("The service has not been started")
        if self._attaching.done() and self._told_failure:
            # Whatever stood in the way may be gone.
            self._begin()
        try:
            return await asyncio.shield(self._attaching)
        except Unavailable:
            self._told_failure = True
            raise

    def _begin(self) -> None:
        self._told_failure = False
        self._attaching = asyncio.create_task(self._attach())
        # Nobody may be waiting for it when it fails; the next call tells.
        self._attaching.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _attach(self) -> Holder | Guest:
        try:
            return await self._hold_or_join()
        except (Unavailable, *ENDING):
            raise
        except SettingsError as error:
            raise Unavailable(str(error)) from error
        except BaseException as error:
            words = told(error, self.settings.data_dir)
            if isinstance(error, OSError) and not disk_is_full(error, self.settings.data_dir):
                words = error.strerror or words
                words = f"{self.settings.data_dir} cannot be used as the data directory: {words}"
            elif not isinstance(error, (LogError, StateError)):
                _log.error("the store could not be opened", exc_info=True)
                words = f"The store could not be opened: {words}"
            raise Unavailable(words) from error

    async def _hold_or_join(self) -> Holder | Guest:
        if self._exclusive and not self._serving_taken():
            raise Unavailable(
                f"Another `mnemolog serve` (process {self._serving.holder()}) runs on "
                f"{self.settings.data_dir}. Connect to that one, or give this one another "
                "directory with --data"
            )
        deadline = time.monotonic() + self.settings.call_timeout_s
        while True:
            if self._store.take():
                try:
                    self._way = await self._open()
                except BaseException:
                    self._store.release()
                    raise
                return self._way
            guest = await Guest.connect(self.settings.data_dir, self.settings.call_timeout_s)
            if guest is not None:
                self._way = guest
                return guest
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{self.settings.data_dir} is held by process {self._store.holder()}, which "
                    "does not answer; end that process and try again"
                )
            await asyncio.sleep(RETRY_S)

    async def _open(self) -> Holder:
        """Opening cannot be called back half-way: when cancelled, this returns (and the lock can
        be let go of) only once what was opened is closed again."""
        opening = asyncio.create_task(Holder.open(self.settings, self._catalogue, self._store))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with contextlib.suppress(BaseException):
                await (await opening).close()
            raise

    def _serving_taken(self) -> bool:
        return self._serving.taken or self._serving.take()
