"""Following along: the changes of a space, first those on the log, then those that are decided.

The deciders' threads publish what they have shown; each follower has a bounded buffer for that. A
follower begins on the log, where it may take its time. Close to the end it gets its buffer, which
begins with a known decision, and reads the log up to just before that one: so nothing is left out
and nothing comes twice, whatever is written meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.events.codec import Fact, decode_call, decode_decision
from mnemolog.events.envelope import Decision
from mnemolog.events.log import Log, LogError
from mnemolog.services.api import Busy, Event, Follow, Unavailable, last_event
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.counted import Counted
from mnemolog.services.news import news
from mnemolog.services.node.following.positions import (
    Positions,
    partitions_of,
    place_after,
    reached,
)
from mnemolog.services.shares import Shares

PAGE: Final = 100
"""Decisions that are read from the log at a time."""
READS: Final = 4
"""Pages that are being read at the same time, for all followers."""
CALLS: Final = 32
"""Calls that are looked up together."""
MAX_SCAN: Final = 10_000
"""How many decisions of a partition are looked through for the newest changes."""
MAX_LAST: Final = 1000
MAX_BUFFER_BYTES: Final = 8 * 1024 * 1024
ACTORS_KEPT: Final = 4096
CLOSING: Final = "The service is closing"

Voids = Callable[[int, int, int], Awaitable[frozenset[int]]]
"""The offsets of a partition's void decisions from one offset up to before another."""

_T = TypeVar("_T")


class Buffer(Generic[_T]):
    """What a reader has yet to take, filled from any thread. Past its limits everything in it is
    dropped and the reader is told: it is `lost`, and has to begin anew from where it was."""

    def __init__(self, most: int) -> None:
        self.lost = False
        self._most = most
        self._items: deque[tuple[_T, int]] = deque()
        self._size = 0
        self._ended = False
        self._lock = threading.Lock()
        self._filled = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def put(self, item: _T, size: int) -> None:
        with self._lock:
            if self._ended or self.lost:
                return
            full = len(self._items) >= self._most
            if full or (self._items and self._size + size > MAX_BUFFER_BYTES):
                self.lost = True
                self._items.clear()
            else:
                self._items.append((item, size))
                self._size += size
        self._wake()

    def end(self) -> None:
        """Nothing more comes; what is there can still be taken."""
        with self._lock:
            self._ended = True
        self._wake()

    async def take(self) -> _T | None:
        """The next item; None when it is lost or at its end."""
        while True:
            with self._lock:
                if self._items:
                    item, size = self._items.popleft()
                    self._size -= size
                    return item
                if self._ended or self.lost:
                    return None
                self._filled.clear()
            await self._filled.wait()

    def _wake(self) -> None:
        if not self._filled.is_set():
            with contextlib.suppress(RuntimeError):  # the reader's loop has ended, and it with that
                self._loop.call_soon_threadsafe(self._filled.set)


class _News:
    """A change of a partition; what followers get is made once for all of them."""

    __slots__ = ("data", "decision", "facts", "offset", "partition", "size")

    def __init__(
        self, partition: int, offset: int, decision: Decision, facts: list[Fact] | None = None
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.decision = decision
        self.facts = facts
        """None: as they are on the log; most that are looked through there are not told."""
        self.size = sum(len(bytes(fact)) for fact in decision.facts)
        self.data: bytes | None = None


class _Wish(msgspec.Struct, frozen=True):
    tenant: str
    space: str | None

    def matches(self, decision: Decision) -> bool:
        """Spaces begin with their tenant, but not every call got as far as a space."""
        return decision.tenant == self.tenant and self.space in (None, decision.space)


class _Follower:
    """Gets what is published from `begins` on."""

    def __init__(self, wish: _Wish, begins: Positions, most: int) -> None:
        self.wish = wish
        self.begins = begins
        self.buffer: Buffer[_News] = Buffer(most)

    def wants(self, partition: int, counted: Counted) -> bool:
        begin = self.begins.get(partition)
        return begin is not None and counted.offset >= begin and self.wish.matches(counted.decision)


class Feed:
    """The changes of one node. `shown` is how far each partition is shown at the start; everything
    before that is on the log, and counts unless `voids` names it."""

    def __init__(
        self,
        catalogue: Catalogue,
        log: Log,
        voids: Voids,
        shown: Sequence[int],
        *,
        buffer: int,
        streams: int,
        timeout_s: float,
    ) -> None:
        self._catalogue = catalogue
        self._log = log
        self._voids = voids
        self._shown = list(shown)
        self._most = buffer
        self._streams = Shares(streams)
        self._timeout_s = timeout_s
        self._closed = False
        self._lock = threading.Lock()
        self._followers: set[_Follower] = set()
        self._actors: OrderedDict[tuple[int, int], str] = OrderedDict()
        self._reads = asyncio.Semaphore(READS)

    def publish(self, partition: int, counted: Counted) -> None:
        """A decision counts, and the projections show it. In order within a partition, from its
        thread; one that comes again changes nothing."""
        with self._lock:
            if counted.offset < self._shown[partition]:
                return
            self._shown[partition] = counted.offset + 1
            if not self._followers or not self._catalogue.is_news(counted.decision):
                return
            wanting = [one for one in self._followers if one.wants(partition, counted)]
        if wanting:
            change = _News(partition, counted.offset, counted.decision, counted.facts)
            for one in wanting:
                one.buffer.put(change, change.size)

    @property
    def open(self) -> int:
        """How many follow."""
        return self._streams.taken

    def close(self) -> None:
        """Every follower is told that this is the end."""
        with self._lock:
            self._closed = True
            followers = list(self._followers)
        for one in followers:
            one.buffer.end()

    async def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        """See `services.api.Service.events`."""
        space = follow.space
        if space is not None:
            space = self._catalogue.space_named(follow.tenant, space)
        wish = _Wish(follow.tenant, space)
        if self._closed:
            raise Unavailable(CLOSING)
        if not self._streams.has_room(follow.tenant):
            raise Busy(
                f"{self._streams.taken} streams are open, which is the limit; close one, or try "
                "later"
            )
        self._streams.take(follow.tenant)
        follower = None
        try:
            place = await self._begin(follow, wish)
            yield Event(kind="opened", position=str(place))
            ends = self._ends(place)
            if follow.live:
                while place.behind(ends) > PAGE:
                    async for event in self._read(wish, place, ends):
                        yield event
                    ends = self._ends(place)
                follower = self._attach(wish, ends)
                ends = follower.begins
            async for event in self._read(wish, place, ends):
                yield event
            yield Event(kind="present", position=str(place))
            while follower is not None and (change := await follower.buffer.take()) is not None:
                yield await self._event(change, place)
            if follower is not None and follower.buffer.lost:
                reason = f"This reader fell more than {self._most} events behind"
                yield last_event("cut_off", str(place), reason)
            elif follower is not None:
                yield last_event("closing", str(place), CLOSING)
        except (LogError, RuntimeError) as error:
            # Threads that are shut down take no work: that is how reading ends when closing.
            if isinstance(error, RuntimeError) and not self._closed:
                raise
            raise Unavailable(CLOSING if self._closed else str(error)) from None
        finally:
            self._streams.leave(follow.tenant)
            if follower is not None:
                with self._lock:
                    self._followers.discard(follower)

    def _ends(self, partitions: Iterable[int]) -> Positions:
        return Positions({p: self._shown[p] for p in partitions})

    def _attach(self, wish: _Wish, partitions: Iterable[int]) -> _Follower:
        with self._lock:
            follower = _Follower(wish, self._ends(partitions), self._most)
            if self._closed:
                follower.buffer.end()
            self._followers.add(follower)
        return follower

    async def _begin(self, follow: Follow, wish: _Wish) -> Positions:
        count = len(self._shown)
        partitions = partitions_of(wish.space, count)
        if follow.after is not None:
            place = place_after(follow.after, partitions, count)
            await reached(place, self._shown.__getitem__, self._newest_on_log, self._timeout_s)
            return place
        place = self._ends(partitions)
        if follow.last is None:
            return place
        if not 0 < follow.last <= MAX_LAST:
            raise Refused(f"last must be from 1 to {MAX_LAST}, not {follow.last}")
        newest: list[_News] = []
        for partition in partitions:
            newest += await self._newest(wish, partition, place[partition], follow.last)
        newest.sort(key=lambda one: -one.decision.at_us)
        for one in newest[: follow.last]:
            place[one.partition] = min(place[one.partition], one.offset)
        return place

    async def _newest_on_log(self, partition: int) -> int:
        return (await self._log.ends(partition)).decisions

    async def _newest(self, wish: _Wish, partition: int, end: int, most: int) -> list[_News]:
        found: list[_News] = []
        lowest = max(0, end - MAX_SCAN)
        while end > lowest and len(found) < most:
            start = max(lowest, end - PAGE)
            found = await self._page(wish, partition, start, end) + found
            end = start
        return found[-most:]

    async def _read(
        self, wish: _Wish, place: Positions, ends: Positions
    ) -> AsyncGenerator[Event, None]:
        """The changes on the log from `place` up to before `ends`."""
        for partition in place:
            while (start := place[partition]) < (end := ends[partition]):
                end = min(end, start + PAGE)
                for change in await self._page(wish, partition, start, end):
                    yield await self._event(change, place)
                place[partition] = end

    async def _page(self, wish: _Wish, partition: int, start: int, end: int) -> list[_News]:
        void = await self._voids(partition, start, end)
        found = []
        while start < end:
            async with self._reads:
                batch = await self._log.read_decisions(partition, start, end - start)
            if not batch:
                raise Unavailable(f"Decision {partition}:{start} is missing from the log")
            for stored in batch:
                if stored.offset not in void:
                    decision = decode_decision(stored.data)
                    if wish.matches(decision) and self._catalogue.is_news(decision):
                        found.append(_News(partition, stored.offset, decision))
            start = batch[-1].offset + 1
        return found

    async def _event(self, change: _News, place: Positions) -> Event:
        if change.data is None:
            decision, facts = change.decision, change.facts
            actor = await self._actor(change.partition, decision.call_offset)
            if facts is None:
                facts = self._catalogue.projected.facts.decode(decision.facts)
            counted = Counted(change.offset, decision, facts)
            change.data = news(change.partition, counted, actor)
        place[change.partition] = change.offset + 1
        return Event(kind="decided", position=str(place), data=change.data)

    async def _actor(self, partition: int, call_offset: int) -> str:
        """Who made a call. Those after it are looked up with it: they are asked for next."""
        key = (partition, call_offset)
        if key not in self._actors:
            for stored in await self._log.read_calls(partition, call_offset, CALLS):
                with contextlib.suppress(Exception):  # an unreadable call came to nothing
                    self._actors[partition, stored.offset] = decode_call(stored.data).actor
            while len(self._actors) > ACTORS_KEPT:
                self._actors.popitem(last=False)
        return self._actors.get(key, "")
