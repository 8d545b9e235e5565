"""One partition's thread: takes calls in order, decides them in batches, makes them durable.

A batch is what was waiting: its calls and decisions become durable in one transaction, then the
projections show them, then the callers get their replies. Records of reads wait a moment for
company, so that a recall does not cost a disk flush of its own, but never past a write of their
tenant's. When much is waiting tenants are taken in turns; each one's calls stay in their order.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

import msgspec
import structlog

from mnemolog.events.codec import encode_call
from mnemolog.events.log import LogDamaged, LogError
from mnemolog.projections.ports import IndexDamaged
from mnemolog.projections.state.store import PartitionState, StateError
from mnemolog.services import tracing
from mnemolog.services.api import Answer, Busy, Unavailable
from mnemolog.services.counted import Counted
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.decider.partition import Made, PartitionDecider
from mnemolog.services.decider.tool import Asked
from mnemolog.services.node.fair import Turns
from mnemolog.services.node.following.follow import (
    BATCH,
    BatchLog,
    counted_after,
    follow_state,
    last_counting,
)

MAX_BATCH: Final = 64
MAX_WAITING: Final = 1024
MAX_READS: Final = 512
"""Of those that wait: records of reads leave room for writes."""
READS_WAIT_S: Final = 0.05
RECORD_WAIT_S: Final = 10.0
RETRY_S: Final = 1.0
"""How often it is tried again, while nobody calls, to go on after a failure."""

Show = Callable[[int, Counted], None]
"""Brings a decision of a partition into the search indexes."""

_log = structlog.get_logger("mnemolog.worker")


class _Waiting(msgspec.Struct):
    asked: Asked
    inputs: Future[Inputs] | None
    answer: Future[Answer] | None

    @property
    def tenant(self) -> str:
        return self.asked.call.tenant

    @property
    def is_ready(self) -> bool:
        return self.inputs is None or self.inputs.done()


class PartitionWorker:
    def __init__(
        self, partition: int, log: BatchLog, decider: PartitionDecider, show: Show
    ) -> None:
        self.partition = partition
        self.decider = decider
        self.failed: str | None = None
        """Why it does not go on before somebody has mended the log."""
        self.trouble: str | None = None
        """What the last calls met; it is tried again and again."""
        self.shown = decider.state.next_offset
        """The offset after the last decision that the indexes show."""
        self._last_shown = last_counting(decider.state)
        self._log = log
        self._show = show
        self._stopping = False
        self._room_for_reads = threading.Semaphore(MAX_READS)
        self._turns: Turns[_Waiting | Callable[[], None]] = Turns(MAX_WAITING, "calls")
        self._thread = threading.Thread(target=self._run, name=f"decider-{partition}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def check(self, asked: Asked) -> None:
        """Raises what `submit` would, before anything is done for the call."""
        if self.failed is not None:
            raise Unavailable(self.failed)
        self._turns.check(asked.call.tenant)

    def submit(self, asked: Asked, inputs: Future[Inputs] | None) -> Future[Answer]:
        """Have a call decided; the future is done once the decision is durable and shown."""
        answer: Future[Answer] = Future()
        # A caller may stop waiting (it was killed, its time ran out); that takes nothing back.
        answer.set_running_or_notify_cancel()
        self._put(_Waiting(asked, inputs, answer))
        return answer

    def record(self, asked: Asked) -> None:
        """Put a read that was answered on the log, soon. Who reads faster than that can be done
        waits here, unless it is the end. A partition that has stopped records nothing, and reads go
        on."""
        if self._stopping or self.failed is not None:
            return
        if not self._room_for_reads.acquire(timeout=RECORD_WAIT_S):
            raise Busy(
                f"Too many records of reads are waiting ({MAX_READS}); nothing was recorded, "
                "try again"
            )
        try:
            self._put(_Waiting(asked, None, None))
        except Unavailable:
            self._room_for_reads.release()
            raise

    def between_batches(self, task: Callable[[], None]) -> Future[None]:
        """Run `task` on the partition's thread, when nothing is being decided."""
        done: Future[None] = Future()

        def run() -> None:
            try:
                task()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        self._turns.put_after(run)
        return done

    def use(self, state: PartitionState) -> None:
        """Work on another state, made anew from the log with its indexes; while paused."""
        self.decider.state = state
        self.shown, self._last_shown = state.next_offset, last_counting(state)
        self.failed = self.trouble = None

    def give_up(self, reason: str) -> None:
        """Decide nothing more on a log that is damaged. What was decided can be read."""
        self.failed = f"Partition {self.partition} has stopped: {reason}"
        _log.error("a partition has stopped", partition=self.partition, reason=reason)

    @property
    def waiting(self) -> int:
        return self._turns.waiting

    def stop(self) -> None:
        """Decide what is waiting, then end."""
        self._stopping = True
        self._turns.put_after(_END)
        self._thread.join()

    def _put(self, waiting: _Waiting) -> None:
        if self.failed is not None:
            raise Unavailable(self.failed)
        self._turns.put(waiting.tenant, waiting)

    def _run(self) -> None:
        while True:
            batch, then = self._collect()
            if batch:
                self._carry_out(batch)
            elif self.trouble is not None and then is None:
                self._recover()
            if then is None:
                continue
            if then is _END:
                return
            then()

    def _collect(self) -> tuple[list[_Waiting], Callable[[], None] | None]:
        """The next batch, and what to do after it, if anything."""
        batch: list[_Waiting] = []
        then: Callable[[], None] | None = None
        deadline = 0.0
        while len(batch) < MAX_BATCH:
            within_s: float | None = 0.0
            if not batch:
                within_s = None if self.trouble is None else RETRY_S
            elif all(one.answer is None for one in batch):
                within_s = max(0.0, deadline - time.monotonic())
            item = self._turns.take(within_s)
            if item is None:
                break
            if not isinstance(item, _Waiting):
                then = item
                break
            if not batch:
                deadline = time.monotonic() + READS_WAIT_S
            batch.append(item)
        if then is None:
            batch = self._without_late(batch)
        for one in batch:
            if one.answer is None:
                self._room_for_reads.release()
        return batch, then

    def _without_late(self, batch: list[_Waiting]) -> list[_Waiting]:
        """Who waits for a vector keeps only the calls of its own tenant waiting: the others go
        first."""
        late = {one.tenant for one in batch if not one.is_ready}
        if not late or late == {one.tenant for one in batch}:
            return batch
        self._turns.put_back((one.tenant, one) for one in batch if one.tenant in late)
        return [one for one in batch if one.tenant not in late]

    def _carry_out(self, batch: list[_Waiting]) -> None:
        try:
            if self.failed is None and self.trouble is not None:
                self._recover()
            if (reason := self.failed or self.trouble) is not None:
                raise Unavailable(reason)
            self._decide(batch)
        except BaseException as error:
            failure = error if isinstance(error, Unavailable) else _in_doubt(error)
            for one in batch:
                if one.answer is not None and not one.answer.done():
                    one.answer.set_exception(failure)
            if not isinstance(error, Unavailable):
                self._note(error)
                self._recover()

    def _decide(self, batch: list[_Waiting]) -> None:
        inputs = [Inputs() if one.inputs is None else one.inputs.result() for one in batch]
        self.decider.state.begin()
        calls: list[tuple[str, bytes]] = []
        made: list[Made] = []
        for one, given in zip(batch, inputs, strict=True):
            data = encode_call(one.asked.call)
            calls.append((one.asked.call.space, data))
            made.append(self.decider.decide(data, one.asked, given))
        traced = [one.asked.call for one in batch]
        with tracing.part("log.append", *traced, partition=self.partition):
            self._log.append(self.partition, calls, [one.row for one in made])
        with tracing.part("project", *traced, partition=self.partition):
            self.decider.state.commit()
            for decided in made:
                self._bring(decided.counted)
        for one, decided in zip(batch, made, strict=True):
            if one.answer is not None:
                one.answer.set_result(decided.counted.answer(self.partition))

    def _bring(self, counted: Counted) -> None:
        """Into the indexes, which must not see a decision before the one that they missed."""
        self._show(self.partition, counted)
        self._last_shown, self.shown = counted.offset, counted.offset + 1

    def decide_backlog(self, inputs: Callable[[list[str]], Inputs]) -> None:
        """Decide the calls that are on the log without a decision; before `start` only."""
        state = self.decider.state
        while calls := self._log.calls(self.partition, state.head.next_call, BATCH):
            for stored in calls:
                asked = self.decider.read(stored.data)
                given = Inputs() if asked is None else inputs(asked.texts)
                self.decider.state.begin()
                made = self.decider.decide(stored.data, asked, given)
                self._log.append(self.partition, (), [made.row])
                self.decider.state.commit()
                self._bring(made.counted)

    def _recover(self) -> None:
        """After a failure the log is the truth: drop the overlay, and bring state and indexes up to
        what became durable, in place. If that fails too it is tried again, before the next call or
        after a while; only a log that is damaged stops the partition."""
        state = self.decider.state
        try:
            state.rollback()
            self._log.check_in_place()
            follow_state(self._log, state)
            for counted in counted_after(
                self._log, state.projected, self.partition, self._last_shown
            ):
                self._bring(counted)
            self.shown = state.next_offset
        except LogDamaged as error:
            self.give_up(str(error))
        except BaseException as error:
            self._note(error)
        else:
            if self.trouble is not None:
                _log.warning("a partition goes on", partition=self.partition)
            self.trouble = None

    def _note(self, error: BaseException) -> None:
        """Once, however often it is met."""
        sentence = f"Partition {self.partition} cannot go on: {_said(error)}"
        if sentence != self.trouble:
            traced = None if isinstance(error, _KNOWN) else error
            _log.error(sentence, partition=self.partition, exc_info=traced)
        self.trouble = sentence


_KNOWN = (LogError, StateError, IndexDamaged, OSError, sqlite3.Error)
"""What a machine can do to a process; its own words say what it is."""


def _said(error: BaseException) -> str:
    return str(error).rstrip(".") if isinstance(error, _KNOWN) else type(error).__name__


def _in_doubt(error: BaseException) -> Unavailable:
    return Unavailable(
        f"The call could not be carried out: {_said(error)}. It may be on the log already; "
        "ask again under the same idempotency key"
    )


def _END() -> None:
    """Stands for the end of the queue."""
