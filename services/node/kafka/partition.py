"""One partition on one node: its decisions are followed, and its calls decided while it is ours.

One task does both, in turn, so nothing else touches the partition's state. Deciding happens in an
open transaction, the overlay; the decisions are appended to the log; where Kafka put them tells
whether somebody else wrote in between. If not, they are the next decisions of the chain and
count, and the transaction is committed. If so, or if nobody knows, it is rolled back and the log
is followed: which decisions count is the chain's matter alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from typing import Final, TypeVar

import structlog

from mnemolog.events.codec import NewerVersion, Undecodable, decode_decision
from mnemolog.events.envelope import Trace
from mnemolog.events.log import Log, LogDamaged, LogError, Stored
from mnemolog.projections.ports import IndexDamaged
from mnemolog.projections.state.store import PartitionState
from mnemolog.services import tracing
from mnemolog.services.counted import Counted
from mnemolog.services.decider.clock import DecisionTime
from mnemolog.services.decider.decide import Deciding, Inputs
from mnemolog.services.decider.partition import Made, PartitionDecider
from mnemolog.services.decider.tool import Asked
from mnemolog.services.node.failing import ENDING
from mnemolog.services.node.following.follow import (
    ReadableLog,
    counted_after,
    counts,
    last_counting,
)
from mnemolog.services.node.kafka.arrivals import Arrivals

FOLLOW_BATCH: Final = 500
DECIDE_BATCH: Final = 64
LIGHT_BYTES: Final = 64 * 1024
LIGHT_CALL_BYTES: Final = 4 * 1024
"""Calls that are no larger together, and each for itself, are decided at once, in the event loop,
unless one is heavy. On a thread, every step waits for the interpreter's lock, which takes longer
than deciding."""
STOP_S: Final = 5.0
"""How long a batch under way may take to finish at the end."""
RETRY_S: Final = 0.2
RETRY_MOST_S: Final = 5.0

_T = TypeVar("_T")
_log = structlog.get_logger("mnemolog.worker")


class _Unreadable(Exception):
    """A decision cannot be read by this version; those before it can."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


class Partition:
    """Made and used within one event loop; `work` runs what touches the state, and reads the log
    from its threads as `behind`.

    `inputs` gives what a call with some texts needs for deciding, `show` brings a counting decision
    into the indexes, on a thread; `told` hears of it afterwards, in the loop.
    """

    def __init__(
        self,
        log: Log,
        behind: ReadableLog,
        state: PartitionState,
        deciding: Deciding,
        time: DecisionTime,
        work: Executor,
        inputs: Callable[[list[str], Trace | None], Awaitable[Inputs]],
        show: Callable[[int, Counted], None],
        told: Callable[[int, Counted], None],
    ) -> None:
        self.number = state.partition
        self.decider = PartitionDecider(state, deciding, time)
        self.shown = state.next_offset
        """The offset after the last decision that the state and the indexes show."""
        self._last_shown = last_counting(state)
        self._untold: list[Counted] = []
        """Shown already, and not told."""
        self.ours = False
        self.failed: str | None = None
        self.trouble: str | None = None
        """What keeps it from going on at the moment, while it tries again."""
        self.calls = Arrivals()
        self.decisions = Arrivals()
        self.voids = 0
        """How often decisions of this node came too late to count."""
        self.busy = asyncio.Lock()
        """Whoever has it keeps the partition still."""
        self._log = log
        self._behind = behind
        self._read: dict[int, Asked] = {}
        """Calls of this node's own, by offset: they have been read already."""
        self._work = work
        self._inputs = inputs
        self._show = show
        self._told = told
        self._wake = asyncio.Event()
        self._stopping = False
        self._last_is_ours = False
        """The last decision on the log is this node's, as far as anybody who may decide knows.
        Otherwise the log is asked before deciding: calls can come round before their decisions."""
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> PartitionState:
        return self.decider.state

    def use(self, state: PartitionState) -> None:
        """Work on this state, which is up to its indexes, from now on; while it is kept still."""
        self.decider.state = state
        self.shown, self._last_shown = state.next_offset, last_counting(state)
        self.failed = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"partition-{self.number}")

    async def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            _, late = await asyncio.wait({self._task}, timeout=STOP_S)
            for task in late:
                task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def call_came(self, offset: int, data: bytes, asked: Asked | None = None) -> None:
        if self.ours:
            self.calls.put(offset, data)
            if asked is not None:
                self._read[offset] = asked
        else:
            self.calls.seen(offset + 1)
        self._wake.set()

    def decision_came(self, offset: int, data: bytes) -> None:
        self.decisions.put(offset, data)
        self._wake.set()

    def log_ends(self, calls: int, decisions: int) -> None:
        self.calls.seen(calls)
        self.decisions.seen(decisions)
        if self.behind:
            self._wake.set()

    def own(self, ours: bool) -> None:
        self.ours = ours
        self._read.clear()
        self._last_is_ours = False
        self._wake.set()

    @property
    def behind(self) -> bool:
        """Whether there is something on the log that this node has yet to do here."""
        return self._unfollowed or (self.ours and self._undecided)

    @property
    def late(self) -> bool:
        """As `behind`, with what another node has yet to decide."""
        return self._unfollowed or self._undecided

    @property
    def undecided(self) -> int:
        """Calls on the log that wait for a decision."""
        return max(0, self.calls.end - self.state.head.next_call)

    @property
    def _undecided(self) -> bool:
        return self.undecided > 0

    @property
    def _unfollowed(self) -> bool:
        return self.decisions.end > self.state.next_offset

    async def _run(self) -> None:
        wait_s = RETRY_S
        while not self._stopping:
            await self._wake.wait()
            self._wake.clear()
            if self.failed is not None or self._stopping:
                continue
            try:
                async with self.busy:
                    await self._go_on()
                self.trouble, wait_s = None, RETRY_S
            except _Unreadable as error:
                self._stop_visibly(f"decision {error.at} cannot be read: {error}")
            except LogError as error:
                await self._try_again("the log is away", str(error), wait_s)
                wait_s = min(wait_s * 2, RETRY_MOST_S)
            except (sqlite3.Error, OSError, IndexDamaged, MemoryError) as error:
                # The machine's trouble, such as a full disk: what is on the log is not lost.
                with contextlib.suppress(sqlite3.Error):
                    await self._on_thread(self.state.rollback)
                sentence = f"{error or type(error).__name__}"
                await self._try_again("a partition cannot go on", sentence, wait_s)
                wait_s = min(wait_s * 2, RETRY_MOST_S)
            except ENDING:
                raise
            except BaseException as error:
                _log.error("a partition cannot go on", partition=self.number, exc_info=True)
                self._stop_visibly(f"{type(error).__name__}: {error}")

    async def _try_again(self, event: str, reason: str, wait_s: float) -> None:
        if reason != self.trouble:
            _log.warning(event, partition=self.number, reason=reason)
        self.trouble = reason
        await asyncio.sleep(wait_s)
        self._wake.set()

    async def _go_on(self) -> None:
        if self.shown < self.state.next_offset:
            await self._on_thread(self._show_rest)
        self._tell()
        await self._follow()
        while self.ours and not self._stopping:
            if not self._last_is_ours:
                ends = await self._log.ends(self.number)
                self.log_ends(ends.calls, ends.decisions)
                await self._follow()
            if not self._undecided:
                return
            await self._decide()
            await self._follow()

    async def _follow(self) -> None:
        while not self._stopping and self.decisions.end > (start := self.state.next_offset):
            batch = self.decisions.take(start, FOLLOW_BATCH)
            if not batch:  # Not delivered, or not yet: the log has it.
                batch = await self._log.read_decisions(self.number, start, FOLLOW_BATCH)
            if not batch:
                raise LogError(f"decision {start} of partition {self.number} is not there yet")
            try:
                await self._on_thread(self._apply, batch)
            except _Unreadable as error:
                if error.at > start:
                    readable = [one for one in batch if one.offset < error.at]
                    await self._on_thread(self._apply, readable)
                    self._tell()
                raise
            self._tell()

    async def _decide(self) -> None:
        start = self.state.head.next_call
        batch = self.calls.take(start, DECIDE_BATCH)
        if not batch:
            batch = await self._log.read_calls(self.number, start, DECIDE_BATCH)
        if not batch:
            raise LogError(f"call {start} of partition {self.number} is not there yet")
        for offset in [one for one in self._read if one < start]:
            del self._read[offset]  # Somebody else decided it.
        asked = [self._read.pop(one.offset, None) or self.decider.read(one.data) for one in batch]
        inputs = await asyncio.gather(*map(self._given, asked))
        first = self.state.next_offset
        run = self._at_once if _light(batch, asked) else self._on_thread
        made = await run(self._decide_batch, batch, asked, inputs)
        self._last_is_ours = False
        calls = [one.call for one in asked if one is not None]
        try:
            with tracing.part("log.append", *calls, partition=self.number, of="decisions"):
                offsets = await self._log.append_decisions(self.number, [one.row for one in made])
        except BaseException:
            await self._on_thread(self.state.rollback)
            raise
        self.decisions.seen(offsets[-1] + 1)
        if offsets != list(range(first, first + len(made))):
            self.voids += 1
            _log.warning("somebody else decided meanwhile", partition=self.number, at=first)
            await self._on_thread(self.state.rollback)
            return
        self._last_is_ours = self.ours
        with tracing.part("project", *calls, partition=self.number):
            await run(self._commit, [one.counted for one in made])
        self.decisions.done(self.state.next_offset)
        self._tell()

    async def _given(self, asked: Asked | None) -> Inputs:
        if asked is None:
            return Inputs()
        return await self._inputs(asked.texts, asked.call.trace)

    def _decide_batch(
        self, batch: list[Stored], asked: list[Asked | None], inputs: list[Inputs]
    ) -> list[Made]:
        self.decider.state.begin()
        try:
            return [
                self.decider.decide(stored.data, one, given)
                for stored, one, given in zip(batch, asked, inputs, strict=True)
            ]
        except BaseException:
            self.decider.state.rollback()
            raise

    def _commit(self, counted: list[Counted]) -> None:
        self.state.commit()
        self._show_all(counted)

    def _show_rest(self) -> None:
        """What the state has and the indexes, for a reason that may have passed, have not."""
        projected = self.state.projected
        self._show_all(counted_after(self._behind, projected, self.number, self._last_shown))

    def _show_all(self, counted: Iterable[Counted]) -> None:
        for one in counted:
            self._show(self.number, one)
            self._last_shown = one.offset
            self._untold.append(one)
        self.shown = self.state.next_offset

    def _apply(self, batch: list[Stored]) -> None:
        counted = []
        self.state.begin()
        try:
            for stored in batch:
                try:
                    decision = decode_decision(stored.data)
                    if stored.offset == self.state.next_offset:
                        counts(self._behind, self.number, self.state.head, stored.offset, decision)
                    facts = self.state.apply(stored.offset, stored.data, decision)
                except (NewerVersion, Undecodable) as error:
                    raise _Unreadable(stored.offset, str(error)) from error
                except LogDamaged as error:
                    raise _Unreadable(stored.offset, str(error)) from error
                if facts is not None:
                    counted.append(Counted(stored.offset, decision, facts))
        except BaseException:
            self.state.rollback()
            raise
        self._commit(counted)

    def _tell(self) -> None:
        told, self._untold = self._untold, []
        for one in told:
            self._told(self.number, one)

    async def _on_thread(self, function: Callable[..., _T], *args: object) -> _T:
        """To its end: what was begun on the state is finished, whoever stops waiting."""
        work = asyncio.get_running_loop().run_in_executor(self._work, function, *args)
        return await asyncio.shield(work)

    async def _at_once(self, function: Callable[..., _T], *args: object) -> _T:
        return function(*args)

    def _stop_visibly(self, reason: str) -> None:
        self.failed = (
            f"Partition {self.number} has stopped on this node: {reason}. Upgrade or restart "
            "mnemolog; `mnemolog rebuild` makes the node's projections anew"
        )
        _log.error("a partition has stopped", partition=self.number, reason=reason)


def _light(batch: list[Stored], asked: list[Asked | None]) -> bool:
    sizes = [len(one.data) for one in batch]
    small = sum(sizes) <= LIGHT_BYTES and max(sizes, default=0) <= LIGHT_CALL_BYTES
    tools = (one.tool for one in asked if one is not None)
    return small and not any(tool is not None and tool.heavy for tool in tools)
