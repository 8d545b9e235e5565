"""Searching a Qdrant server that another process writes, without waiting for that process.

A gateway node follows the log like everybody else, but puts into memory what the server does not
have yet: the tail, seconds of it as a rule. A search asks the server, scores the tail exactly, and
merges the two, so that what was written through this node is found at once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemolog.projections.ports import Hit, PutVector, Vector, VectorChange, VectorsAway
from mnemolog.projections.vectors.breaker import Breaker
from mnemolog.projections.vectors.points import (
    MAX_LIMIT,
    PREFIX,
    SpaceDigests,
    checked_limit,
    checked_put,
    checked_vector,
    payload_of,
    ranked,
)

if TYPE_CHECKING:
    from mnemolog.projections.vectors.client import Server

MOST = 50_000
"""Changes that are kept: some 80 MB with 384 dimensions."""
MARGIN = 100
"""Hits that the server is asked for at first beyond those wanted, in place of what the tail hides;
more if they do not do."""

_Rows = NDArray[np.float32]


class _Change(msgspec.Struct, frozen=True):
    """The last change of an id; `put` None: it was removed."""

    partition: int
    offset: int
    put: PutVector | None


class _Space:
    """The changes of one space; the vectors among them in one block, to be scored at once."""

    def __init__(self, dims: int) -> None:
        self.changes: dict[int, _Change] = {}
        self._rows: _Rows = np.empty((1, dims), np.float32)
        self._ids: NDArray[np.int64] = np.empty(1, np.int64)
        self._row: dict[int, int] = {}

    def put(self, id: int, change: _Change, vector: _Rows | None) -> None:
        self.drop(id)
        self.changes[id] = change
        if vector is None:
            return
        row = len(self._row)
        if row == len(self._rows):
            self._resize(2 * row)
        self._rows[row], self._ids[row], self._row[id] = vector, id, row

    def drop(self, id: int) -> None:
        self.changes.pop(id, None)
        row = self._row.pop(id, None)
        if row is None:
            return
        last = len(self._row)
        if row != last:
            self._rows[row], self._ids[row] = self._rows[last], self._ids[last]
            self._row[int(self._ids[row])] = row
        if 4 <= 4 * last < len(self._rows):
            self._resize(len(self._rows) // 2)

    def _resize(self, capacity: int) -> None:
        rows, ids, kept = self._rows, self._ids, len(self._row)
        self._rows = np.empty((capacity, rows.shape[1]), np.float32)
        self._ids = np.empty(capacity, np.int64)
        self._rows[:kept], self._ids[:kept] = rows[:kept], ids[:kept]

    def vector(self, id: int) -> _Rows:
        row: _Rows = self._rows[self._row[id]]
        return row

    def nearest(
        self, query: _Rows, limit: int, session: str | None, min_confidence: float | None
    ) -> list[Hit]:
        """The best `limit` that fit; of the rest only as many are looked at as it takes."""
        count = len(self._row)
        scores = self._rows[:count] @ query
        look_at = limit
        while True:
            rows = np.arange(count)
            if look_at < count:
                least = np.partition(scores, count - look_at)[count - look_at]
                rows = np.flatnonzero(scores >= least)
            hits: list[Hit] = []
            for row in rows[np.lexsort((-self._ids[rows], -scores[rows]))]:
                put = self.changes[int(self._ids[row])].put
                assert put is not None
                if session is not None and put.session != session:
                    continue
                if min_confidence is not None and put.confidence < min_confidence:
                    continue
                hits.append(Hit(put.id, float(scores[row]), put.version))
            if len(hits) >= limit or look_at >= count:
                return hits[:limit]
            look_at *= 8


class Tail:
    """The newest changes, of all spaces, at most `most`: past that the oldest are dropped.

    Not for several threads at once.
    """

    def __init__(self, dims: int, most: int = MOST) -> None:
        self.dropped = 0
        """Changes that had to go before the server had them."""
        self._dims = dims
        self._most = most
        self._spaces: dict[str, _Space] = {}
        self._ages: OrderedDict[tuple[str, int], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ages)

    def take(self, partition: int, offset: int, changes: Sequence[VectorChange]) -> None:
        vectors = [
            _direction(checked_put(change, self._dims)) if isinstance(change, PutVector) else None
            for change in changes
        ]
        for change, vector in zip(changes, vectors, strict=True):
            put = change if isinstance(change, PutVector) else None
            space = self._spaces.setdefault(change.space, _Space(self._dims))
            space.put(change.id, _Change(partition, offset, put), vector)
            self._ages[change.space, change.id] = None
            self._ages.move_to_end((change.space, change.id))
        while len(self._ages) > self._most:
            (name, id), _ = self._ages.popitem(last=False)
            self._forget(name, id)
            self.dropped += 1

    def trim(self, checkpoints: dict[int, int]) -> None:
        """Let go of what is at or below its partition's checkpoint."""
        for name, id in list(self._ages):
            change = self._spaces[name].changes[id]
            if change.offset <= checkpoints.get(change.partition, -1):
                del self._ages[name, id]
                self._forget(name, id)

    def nearest(
        self,
        space: str,
        query: list[float],
        limit: int,
        session: str | None,
        min_confidence: float | None,
    ) -> tuple[list[Hit], frozenset[int]]:
        """The best of the tail, and every id of the space that it knows better than the server."""
        there = self._spaces.get(space)
        if there is None:
            return [], frozenset()
        hits = there.nearest(_direction(query), limit, session, min_confidence)
        return hits, frozenset(there.changes)

    def known(self) -> dict[str, frozenset[int]]:
        return {name: frozenset(space.changes) for name, space in self._spaces.items()}

    def points(self) -> list[tuple[dict[str, Any], list[float]]]:
        return [
            (payload_of(change.put), space.vector(id).tolist())
            for space in self._spaces.values()
            for id, change in space.changes.items()
            if change.put is not None
        ]

    def _forget(self, name: str, id: int) -> None:
        space = self._spaces[name]
        space.drop(id)
        if not space.changes:
            del self._spaces[name]


class TailedVectors:
    """A `VectorIndex` that reads the collection of `model` on `server` and writes nothing there.

    Any number of threads may apply and search. `refresh`, every second or so, asks how far the
    server is and lets go of that much of the tail. The server closes with it.
    """

    def __init__(
        self,
        server: Server,
        dims: int,
        model: str,
        *,
        prefix: str = PREFIX,
        most: int = MOST,
        breaker: Breaker | None = None,
    ) -> None:
        from mnemolog.projections.vectors.collection import Collection, Names

        self._server = server
        self._dims = dims
        self._collection = Collection(server, Names(model, prefix).alias)
        self._breaker = breaker or Breaker()
        self._lock = threading.Lock()
        self._tail = Tail(dims, most)
        self._applied: dict[int, int] = {}
        self._stands: dict[int, int] = {}
        """Per partition the furthest checkpoint of the server that was seen."""
        self._behind: str | None = None
        self._closed = False

    def checkpoint(self, partition: int) -> int:
        """How far the server was when it was asked last; -1 if it never answered, and then
        everything has to be fed, of which the newest is kept."""
        with self._lock:
            known = self._stands.get(partition)
            self._applied.setdefault(partition, -1)
        if known is None:
            self.refresh()
        with self._lock:
            return self._stands.get(partition, -1)

    def apply(self, partition: int, offset: int, changes: Sequence[VectorChange]) -> None:
        """Keep one decision's changes, unless the server has them."""
        with self._lock:
            self._live()
            stands = self._stands.get(partition, -1)
            if offset <= max(stands, self._applied.get(partition, -1)):
                return
            self._tail.take(partition, offset, changes)
            self._applied[partition] = offset

    def refresh(self) -> bool:
        """Ask the server how far it is, and let go of what it has. Whether it answered."""
        with self._lock:
            self._live()
            partitions = list(self._applied)
        try:
            there = self._breaker.probe(lambda: self._checkpoints(partitions))
        except VectorsAway:
            return False
        with self._lock:
            behind = [p for p in partitions if there.get(p, -1) < self._stands.get(p, -1)]
            self._behind = (
                f"The vector store went back in partition {behind[0]}, from "
                f"{self._stands[behind[0]]} to {there.get(behind[0], -1)}; it is being fed again"
                if behind
                else None
            )
            for partition in partitions:
                stands = max(self._stands.get(partition, -1), there.get(partition, -1))
                self._stands[partition] = stands
            self._tail.trim(there)
        return True

    def search(
        self,
        space: str,
        vector: Vector,
        limit: int,
        *,
        session: str | None = None,
        min_confidence: float | None = None,
    ) -> list[Hit]:
        """The `limit` nearest points of `space`; for an id in the tail only the tail counts.

        The tail is looked at first: what is let go of after that, the server has by then.
        `VectorsAway` if it does not answer, or has lost what it had.
        """
        checked_limit(limit)
        query = checked_vector(vector, self._dims)
        with self._lock:
            self._live()
            if self._behind is not None:
                raise VectorsAway(self._behind)
            hits, known = self._tail.nearest(space, query, limit, session, min_confidence)

        def request() -> list[Hit]:
            return self._stored(space, query, limit, session, min_confidence, known)

        return ranked([*hits, *self._breaker.ask(request)])[:limit]

    def health(self) -> dict[str, Any]:
        """Whether the server answers, and how much it does not have yet."""
        reason = self._breaker.reason or self._behind
        with self._lock:
            return {
                "status": "ok" if reason is None else "away",
                "reason": reason,
                "tail": len(self._tail),
                "dropped": self._tail.dropped,
            }

    def commit(self) -> None:
        """Nothing to do: the process that feeds the server makes it durable."""

    def digest(self) -> dict[str, str]:
        """As the server would give it with the tail in it; nothing should be applied meanwhile."""
        with self._lock:
            self._live()
            known, newest = self._tail.known(), self._tail.points()
        digests = SpaceDigests()
        for payload, vector in self._everything():
            if payload["id"] not in known.get(payload["space"], ()):
                digests.add(payload, vector)
        for payload, vector in newest:
            digests.add(payload, vector)
        return digests.result()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._server.close()

    def _live(self) -> None:
        if self._closed:
            raise RuntimeError(f"The vector index {self._collection.name} is closed")

    def _stored(
        self,
        space: str,
        query: list[float],
        limit: int,
        session: str | None,
        min_confidence: float | None,
        known: frozenset[int],
    ) -> list[Hit]:
        """The server's nearest whose ids are not `known`."""
        fetch = min(limit + min(len(known), MARGIN), MAX_LIMIT)
        while True:
            try:
                found = self._collection.search(space, query, fetch, session, min_confidence)
            except VectorsAway as error:
                if self._nothing_yet(error):
                    return []
                raise
            kept = [hit for hit in found if hit.id not in known]
            if len(kept) >= limit or len(found) < fetch or fetch >= MAX_LIMIT:
                return kept
            fetch = min(fetch * 4, MAX_LIMIT)

    def _checkpoints(self, partitions: list[int]) -> dict[int, int]:
        try:
            return self._collection.checkpoints(partitions)
        except VectorsAway as error:
            if self._nothing_yet(error):
                return {}
            raise

    def _everything(self) -> list[tuple[Any, list[float]]]:
        try:
            return list(self._collection.points())
        except VectorsAway as error:
            if self._nothing_yet(error):
                return []
            raise

    def _nothing_yet(self, error: VectorsAway) -> bool:
        """Whether the collection is missing because nothing was ever written to it."""
        from mnemolog.projections.vectors.client import Gone

        return isinstance(error, Gone) and max(self._stands.values(), default=-1) == -1


def _direction(vector: list[float]) -> _Rows:
    values = np.asarray(vector, np.float32)
    return values / np.float32(np.linalg.norm(values))
