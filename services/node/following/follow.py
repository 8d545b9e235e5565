"""Following the log: which decisions count, and bringing projections up to them.

Not every decision counts. Who decides a partition may be displaced without knowing it yet, and goes
on from where it stood: what it decides extends a record that is on the log before it, and is void.
A decision that extends no record of the log was not made on this log as it is: what it extends was
changed, or is missing. Nothing is decided past that place, or all that follows the damage would be
decided anew, and the damage would no longer show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from mnemolog.events.chain import Head, extend, void_reason
from mnemolog.events.codec import NewerVersion, Undecodable, decode_decision
from mnemolog.events.envelope import GENESIS, Decision, sha256
from mnemolog.events.log import Ends, LogDamaged, LogError, Stored
from mnemolog.projections.ports import TextIndex, VectorIndex
from mnemolog.projections.projection import Projected
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.counted import Counted

BATCH = 500

DAMAGED = (
    "Nothing is decided past that place. Put the log back from a backup; if that is older than the "
    "projections, `mnemolog rebuild --accept-log` makes them anew from it, and keeps those that "
    "are there"
)

Advance = Callable[[int], None]
"""Called with the number of decisions that were gone through since the last call."""


class ReadableLog(Protocol):
    """The part of a log that following needs, from the thread that follows."""

    @property
    def partitions(self) -> int: ...
    def calls(self, partition: int, start: int, limit: int) -> list[Stored]: ...
    def decisions(self, partition: int, start: int, limit: int) -> list[Stored]: ...
    def end(self, partition: int) -> Ends: ...


class BatchLog(ReadableLog, Protocol):
    """A log in this process, where calls and their decisions become durable together."""

    def append(
        self,
        partition: int,
        calls: Sequence[tuple[str, bytes]],
        decisions: Sequence[tuple[str, bytes]],
    ) -> tuple[int, int]: ...
    def check_in_place(self) -> None: ...


def counts(log: ReadableLog, partition: int, head: Head, offset: int, decision: Decision) -> bool:
    """Whether the decision at `offset` is the next one after `head`. `LogDamaged` when it is
    neither that nor what somebody decided who was displaced."""
    if void_reason(head, decision) is None:
        return True
    if decision.previous == head.hash:
        raise LogDamaged(
            f"Decision {offset} of partition {partition} is about call {decision.call_offset}, and "
            f"the next one to decide was {head.next_call}: it was changed. {DAMAGED}"
        )
    if decision.previous == GENESIS:
        return False
    end = offset
    while end > 0:
        start = max(0, end - BATCH)
        earlier = log.decisions(partition, start, end - start)
        if any(sha256(one.data) == decision.previous for one in earlier):
            return False
        end = start
    raise LogDamaged(
        f"Decision {offset} of partition {partition} extends no record of the log: the one before "
        f"it was changed, or is missing. {DAMAGED}"
    )


def decoded(partition: int, stored: Stored) -> Decision:
    try:
        return decode_decision(stored.data)
    except Undecodable as error:
        raise LogDamaged(
            f"Decision {stored.offset} of partition {partition} cannot be read: {error}. {DAMAGED}"
        ) from error
    except NewerVersion as error:
        raise LogError(
            f"Decision {stored.offset} of partition {partition} cannot be read: {error}"
        ) from error


def follow_state(
    log: ReadableLog,
    state: PartitionState,
    *,
    until: int | None = None,
    progress: Advance | None = None,
) -> None:
    """Bring a partition's state up to the decision before `until`, or to the end of the log.
    `LogDamaged` where the log is not what was written, decisions or calls."""
    while until is None or state.next_offset < until:
        limit = BATCH if until is None else min(BATCH, until - state.next_offset)
        batch = log.decisions(state.partition, state.next_offset, limit)
        if not batch:
            return
        calls = log.calls(state.partition, state.head.next_call, len(batch))
        state.begin()
        try:
            _apply(log, state, batch, {one.offset: one.data for one in calls})
        except BaseException:
            state.rollback()
            raise
        state.commit()
        if state.wal_has_grown:
            state.shorten_wal()
        if progress is not None:
            progress(len(batch))


def _apply(
    log: ReadableLog, state: PartitionState, batch: list[Stored], calls: dict[int, bytes]
) -> None:
    partition = state.partition
    for stored in batch:
        if stored.offset != state.next_offset:
            raise LogDamaged(
                f"Decision {state.next_offset} of partition {partition} is missing from the log. "
                f"{DAMAGED}"
            )
        decision = decoded(partition, stored)
        if counts(log, partition, state.head, stored.offset, decision):
            call = calls.get(decision.call_offset)
            if call is None or sha256(call) != decision.call_hash:
                wrong = "is missing from the log" if call is None else "was changed"
                raise LogDamaged(
                    f"Call {decision.call_offset} of partition {partition}, which decision "
                    f"{stored.offset} was made for, {wrong}. {DAMAGED}"
                )
        state.apply(stored.offset, stored.data, decision)


def last_counting(state: PartitionState) -> int:
    """The offset of the last counting decision that a state was made from; -1: there is none."""
    last, void = state.next_offset - 1, state.view.voids()
    while last in void:
        last -= 1
    return last


def counted_after(
    log: ReadableLog,
    projected: Projected,
    partition: int,
    checkpoint: int,
    progress: Advance | None = None,
) -> Iterator[Counted]:
    """The counting decisions past `checkpoint`, which is the offset of one itself (-1: none).

    Where the chain stands at the checkpoint follows from the decision there.
    """
    head = Head()
    if checkpoint >= 0:
        there = log.decisions(partition, checkpoint, 1)
        if not there:
            raise LogError(
                f"An index stands at decision {checkpoint} of partition {partition}, which the log "
                "does not have: the index was fed from another log"
            )
        head = extend(head, decoded(partition, there[0]), there[0].data)
    start = checkpoint + 1
    while batch := log.decisions(partition, start, BATCH):
        for stored in batch:
            decision = decoded(partition, stored)
            if counts(log, partition, head, stored.offset, decision):
                head = extend(head, decision, stored.data)
                yield Counted(stored.offset, decision, projected.facts.decode(decision.facts))
        start = batch[-1].offset + 1
        if progress is not None:
            progress(len(batch))


def feed_text(index: TextIndex, projected: Projected, partition: int, counted: Counted) -> None:
    changes = projected.text_changes(counted.decision, counted.facts)
    index.apply(partition, counted.offset, changes)


def feed_vectors(
    index: VectorIndex, projected: Projected, model: str, partition: int, counted: Counted
) -> None:
    changes = projected.vector_changes(counted.decision, counted.facts, model)
    index.apply(partition, counted.offset, changes)


def follow_text(
    log: ReadableLog, index: TextIndex, projected: Projected, progress: Advance | None = None
) -> None:
    for partition in range(log.partitions):
        after = index.checkpoint(partition)
        for counted in counted_after(log, projected, partition, after, progress):
            feed_text(index, projected, partition, counted)


def follow_vectors(
    log: ReadableLog,
    index: VectorIndex,
    projected: Projected,
    model: str,
    progress: Advance | None = None,
) -> None:
    for partition in range(log.partitions):
        after = index.checkpoint(partition)
        for counted in counted_after(log, projected, partition, after, progress):
            feed_vectors(index, projected, model, partition, counted)
