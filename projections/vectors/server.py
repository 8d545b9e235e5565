"""The vector index on a Qdrant server, for several processes to share.

Changes are gathered and written in bulk, before a search at the latest; `commit` writes the
checkpoints after the data. Two processes that both believe they feed a partition do no harm: they
follow the same log, so they write the same points; what one of them writes late does not go over
anything newer, nor does it move a checkpoint back (see `collection.py`). What it can do is bring a
removed point back: the state knows that its memory is gone, so no answer shows it, and the next
rebuild starts without it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from uuid import UUID

from qdrant_client import models

from mnemolog.projections.ports import Hit, PutVector, Vector, VectorChange, VectorsAway
from mnemolog.projections.vectors.breaker import Breaker
from mnemolog.projections.vectors.client import Gone, Server
from mnemolog.projections.vectors.collection import (
    VECTOR,
    Collection,
    Names,
    check,
    create,
    live,
    make_live,
    numbers,
)
from mnemolog.projections.vectors.points import (
    PREFIX,
    SpaceDigests,
    checked_limit,
    checked_put,
    checked_vector,
    payload_of,
    point_id,
    ranked,
)

BUFFER = 1_024
"""Changes that are gathered before they are written."""


class ServerVectors:
    """A `VectorIndex` on `server`, which closes with it, for vectors of one `model`.

    Any number of threads may apply and search. `VectorsAway` where the server does not answer: an
    `apply` that raises it took nothing in, a `commit` that raises it can be repeated. Also when
    another process has replaced the collection by a rebuilt one: then each partition has to
    `resume` and be fed from there. ValueError if the collection was made for another model.
    """

    def __init__(
        self,
        server: Server,
        dims: int,
        model: str,
        *,
        prefix: str = PREFIX,
        breaker: Breaker | None = None,
    ) -> None:
        self._server = server
        self._dims = dims
        self._model = model
        self._prefix = prefix
        self._names = Names(model, prefix)
        self._breaker = breaker or Breaker()
        self._lock = threading.RLock()
        self._pending: dict[int, dict[UUID, models.PointStruct | None]] = {}
        self._applied: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._lost: set[int] = set()  # fed to a collection that is gone
        self._replaced = False
        server.check_version()
        self._collection: Collection | None = self._open()

    @property
    def collection(self) -> str:
        """The name of the collection that this index writes to."""
        return self._live().name

    def checkpoint(self, partition: int) -> int:
        """The offset up to which `partition` is durable there as far as this index knows."""
        with self._lock, self._noticing():
            self._live()
            self._start(partition)
            return self._committed[partition]

    def resume(self, partition: int) -> int:
        """Forget what was applied to `partition` and not committed, and ask the server how far it
        stands: whoever takes a partition over feeds it from the next offset."""
        with self._lock, self._noticing():
            self._live()
            if self._replaced:
                self._collection = self._open()
                self._replaced = False
            self._pending.pop(partition, None)
            self._applied.pop(partition, None)
            self._start(partition)
            self._lost.discard(partition)
            return self._committed[partition]

    def apply(self, partition: int, offset: int, changes: Sequence[VectorChange]) -> None:
        """Apply one decision's changes, all or (ValueError, VectorsAway) none."""
        points = {
            point_id(change.space, change.id): self._point(change, offset) for change in changes
        }
        with self._lock, self._noticing():
            self._live()
            if partition in self._lost:
                raise VectorsAway(
                    f"The collection of partition {partition} was replaced; ask for its checkpoint "
                    "and feed on from there",
                    again=False,
                )
            self._start(partition)
            if offset <= self._applied[partition]:
                return
            if sum(len(waiting) for waiting in self._pending.values()) >= BUFFER:
                self._drain()
            self._pending.setdefault(partition, {}).update(points)
            self._applied[partition] = offset

    def commit(self) -> None:
        """Write everything applied, then the checkpoints; the server has them when this returns."""
        with self._lock, self._noticing():
            collection = self._live()
            self._drain()
            for partition, offset in self._applied.items():
                if offset > self._committed[partition]:
                    collection.set_checkpoint(partition, offset)
                    self._committed[partition] = offset

    def search(
        self,
        space: str,
        vector: Vector,
        limit: int,
        *,
        session: str | None = None,
        min_confidence: float | None = None,
    ) -> list[Hit]:
        """The `limit` nearest points of `space` by cosine similarity, at most 10,000."""
        checked_limit(limit)
        query = checked_vector(vector, self._dims)

        def request() -> list[Hit]:
            with self._noticing():
                collection = self._drained()
                return ranked(collection.search(space, query, limit, session, min_confidence))

        return self._breaker.ask(request)

    def digest(self) -> dict[str, str]:
        """Per space a hash over ids, versions, sessions, confidences and stored vectors. Reads
        every point; nothing should be applied meanwhile."""
        with self._noticing():
            digests = SpaceDigests()
            for payload, vector in self._drained().points():
                digests.add(payload, vector)
            return digests.result()

    def fresh(self) -> ServerVectors:
        """An empty index beside this one, for a rebuild: feed it, then `switch_to` it, or close it
        and it is gone. One at a time: what another rebuild has built so far is dropped."""
        with self._lock:
            name = self._live().name
            there = numbers(self._server, self._names)
            for number in there:
                if self._names.collection(number) != name:
                    Collection(self._server, self._names.collection(number)).drop()
            new = self._names.collection(max(there, default=0) + 1)
            create(self._server, new, self._dims, self._model)
            return _Beside(self, new)

    def switch_to(self, fresh: ServerVectors) -> None:
        """Put `fresh` in this one's place, for everybody, and drop what was there. This index goes
        on with it, and `fresh` is closed. ValueError if it is not as far as this one."""
        with self._lock, fresh._lock, self._noticing():
            old = self._live()
            fresh.commit()
            partitions = self._applied.keys() | fresh._applied.keys()
            there = old.checkpoints(partitions)
            for partition in sorted(partitions):
                stands = max(self._applied.get(partition, -1), there.get(partition, -1))
                if fresh._applied.get(partition, -1) < stands:
                    raise ValueError(
                        f"The new index stands at {fresh._applied.get(partition, -1)} in partition "
                        f"{partition}, the one it is to replace at {stands}; feed it first"
                    )
            if live(self._server, self._names) != old.name:
                raise Gone(f"{old.name} is not the live collection any more", again=False)
            make_live(self._server, self._names, fresh.collection)
            self._collection, fresh._collection = fresh._collection, None
            self._pending, self._lost = {}, set()
            self._applied, self._committed = fresh._applied, fresh._committed
            with contextlib.suppress(VectorsAway):  # the next rebuild drops it then
                old.drop()

    def close(self) -> None:
        """Commit and let go of the server. What a server that is away did not take is fed again
        from the log. Closing again does nothing."""
        with self._lock:
            if self._collection is None:
                return
            try:
                with contextlib.suppress(VectorsAway):
                    self.commit()
            finally:
                self._collection = None
                self._server.close()

    def _open(self) -> Collection:
        """The live collection, made if there is none yet."""
        name = live(self._server, self._names)
        if name is None:
            name = self._names.collection(max(numbers(self._server, self._names), default=1))
            create(self._server, name, self._dims, self._model)
            make_live(self._server, self._names, name)
        check(self._server, name, self._dims, self._model)
        return Collection(self._server, name)

    def _live(self) -> Collection:
        if self._collection is None:
            raise RuntimeError(f"The vector index {self._names.alias} is closed")
        return self._collection

    def _start(self, partition: int) -> None:
        """Find out where a partition stands that was not asked about before; under the lock."""
        if partition not in self._applied:
            stands = self._live().checkpoints([partition]).get(partition, -1)
            self._applied[partition] = self._committed[partition] = stands

    def _point(self, change: VectorChange, offset: int) -> models.PointStruct | None:
        if not isinstance(change, PutVector):
            return None
        return models.PointStruct(
            id=str(point_id(change.space, change.id)),
            vector={VECTOR: checked_put(change, self._dims)},
            payload={**payload_of(change), "at": offset},
        )

    def _drained(self) -> Collection:
        with self._lock:
            self._drain()
            return self._live()

    def _drain(self) -> None:
        """Write what is gathered; under the lock. What fails stays, to be written again."""
        collection = self._live()
        for partition, points in self._pending.items():
            puts = [point for point in points.values() if point is not None]
            removed = [key for key, point in points.items() if point is None]
            collection.write(puts, removed, self._applied[partition])
            points.clear()

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        """Once the collection is gone, nothing that was fed to it counts any more."""
        try:
            yield
        except Gone:
            with self._lock:
                self._lost |= self._applied.keys()
                self._pending, self._applied, self._committed = {}, {}, {}
                self._replaced = True
            raise


class _Beside(ServerVectors):
    """An index that is being built. It shares the server of the one it will replace."""

    def __init__(self, replaces: ServerVectors, name: str) -> None:
        self._new = name
        super().__init__(replaces._server, replaces._dims, replaces._model, prefix=replaces._prefix)

    def _open(self) -> Collection:
        if self._replaced:
            raise Gone(f"{self._new} was dropped by another rebuild", again=False)
        return Collection(self._server, self._new)

    def close(self) -> None:
        """Drop what was built, unless it was switched to."""
        with self._lock:
            collection, self._collection = self._collection, None
        if collection is not None:
            with contextlib.suppress(VectorsAway):
                collection.drop()
