"""Feeding a vector store that several processes share: the part of it that is not Faust."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import structlog

from mnemolog.projections.ports import VectorIndex, VectorsAway
from mnemolog.projections.projection import Projected
from mnemolog.services.counted import Counted
from mnemolog.services.node.following.follow import feed_vectors

TRIES = 5
PAUSE_S = 0.2
"""Before the second try; twice as long before each one after that."""

T = TypeVar("T")

_log = structlog.get_logger("mnemolog.projector")


class SharedIndex(VectorIndex, Protocol):
    """A vector index that another process may have fed meanwhile."""

    def resume(self, partition: int) -> int: ...


class OutOfOrder(Exception):
    """What was to be fed does not follow what was fed before."""


class Projector:
    """Feeds counting decisions to `index`, vectors of `model` alone.

    For a partition that it has just been given: ask for its `checkpoint`, then `feed` everything
    after that, in order. Whenever `feed` raises, begin again with `checkpoint`.
    """

    def __init__(
        self,
        index: SharedIndex,
        projected: Projected,
        model: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._index = index
        self._projected = projected
        self._model = model
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next_call: dict[int, int] = {}

    def checkpoint(self, partition: int) -> int:
        """The offset of the last decision that is durably in the index; feed from the next."""
        with self._lock:
            self._next_call.pop(partition, None)
            return self._tried(partition, lambda: self._index.resume(partition))

    def feed(self, partition: int, decisions: Sequence[Counted]) -> None:
        """Have `decisions` in the index, durably, when this returns. What is there already is
        skipped. `VectorsAway` when it cannot be done, after a few tries; `OutOfOrder` when a
        decision is missing, in front of these or among them."""
        if not decisions:
            return
        with self._lock:
            self._check_order(partition, decisions)
            self._tried(partition, lambda: self._feed(partition, decisions))
            self._next_call[partition] = decisions[-1].decision.call_offset + 1

    def _check_order(self, partition: int, decisions: Sequence[Counted]) -> None:
        """Counting decisions are those of the calls, one after another, none left out."""
        first = decisions[0].decision.call_offset
        expected = min(self._next_call.get(partition, first), first)
        for counted in decisions:
            if counted.decision.call_offset != expected:
                raise OutOfOrder(
                    f"Partition {partition}, decision {counted.offset}: it decides call "
                    f"{counted.decision.call_offset}, the next one to be fed is that of {expected}"
                )
            expected += 1

    def _feed(self, partition: int, decisions: Sequence[Counted]) -> None:
        for counted in decisions:
            feed_vectors(self._index, self._projected, self._model, partition, counted)
        self._index.commit()

    def _tried(self, partition: int, work: Callable[[], T]) -> T:
        pause_s = PAUSE_S
        for left in range(TRIES - 1, -1, -1):
            try:
                return work()
            except VectorsAway as error:
                if not error.again or left == 0:
                    raise
                _log.warning("the vector store is away", partition=partition, reason=str(error))
            self._sleep(pause_s)
            pause_s *= 2
        raise AssertionError("not reached")
