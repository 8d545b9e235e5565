"""Following the log: which decisions count, and bringing projections up to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from mnemolog.events.chain import Head, extend, void_reason
from mnemolog.events.codec import decode_decision
from mnemolog.events.log import Ends, LogError, Stored
from mnemolog.projections.ports import TextIndex, VectorIndex
from mnemolog.projections.projection import Projected
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.counted import Counted

BATCH = 500

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


def follow_state(
    log: ReadableLog,
    state: PartitionState,
    *,
    until: int | None = None,
    progress: Advance | None = None,
) -> None:
    """Bring a partition's state up to the decision before `until`, or to the end of the log."""
    while until is None or state.next_offset < until:
        limit = BATCH if until is None else min(BATCH, until - state.next_offset)
        batch = log.decisions(state.partition, state.next_offset, limit)
        if not batch:
            return
        state.begin()
        try:
            for stored in batch:
                state.apply(stored.offset, stored.data)
        except BaseException:
            state.rollback()
            raise
        state.commit()
        if progress is not None:
            progress(len(batch))


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
        head = extend(head, decode_decision(there[0].data), there[0].data)
    start = checkpoint + 1
    while batch := log.decisions(partition, start, BATCH):
        for stored in batch:
            decision = decode_decision(stored.data)
            if void_reason(head, decision) is None:
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
