"""What the points of a vector index should be, by the changes that made them.

Vectors are stored rounded, codes as the engine makes them, numbers but for their last digit: none
of that can be worked out here. But it is the same in every shard, so each point goes through a
small one beside, and what comes out of that is what should be in the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import qdrant_edge as qe

from mnemolog.projections.files import drop
from mnemolog.projections.ports import PutVector, VectorChange, VectorsAway, is_want
from mnemolog.projections.vectors import shard as engine
from mnemolog.projections.vectors.findable import scored
from mnemolog.projections.vectors.points import checked_put, payload_of, point_id, row_of
from mnemolog.projections.vectors.room import Room

BATCH = 16
"""Points in the shard beside, each of which is replaced by the next."""
MOST = 300_000
"""Points after which it is made anew, since it keeps their numbers: some 40 MB."""


class Expected:
    """`rows` has each point's hash, as `findable.rows` gives it. `VectorsAway` when there is no
    room on the disk for the shard beside."""

    def __init__(self, directory: Path, dims: int) -> None:
        self.rows: dict[UUID, bytes | None] = {}
        self._dims = dims
        self._waiting: dict[UUID, PutVector] = {}
        self._room = Room(directory)
        self._path = directory / "beside"
        self._shard = self._made()
        self._settled = 0

    def take(self, change: VectorChange) -> bool:
        """The next change, of a point that may have had others. Whether to settle now."""
        key = point_id(change.space, change.id)
        if not isinstance(change, PutVector):
            self._waiting.pop(key, None)
            self.rows.pop(key, None)
            return False
        self._waiting[key] = change
        return len(self._waiting) >= BATCH

    def settle(self) -> None:
        """Have everything that was taken in `rows`."""
        puts = {UUID(int=slot): put for slot, put in enumerate(self._waiting.values(), 1)}
        if not puts:
            return
        if self._settled >= MOST:
            self.close()
            self._shard, self._settled = self._made(), 0
        points = [
            qe.Point(slot, checked_put(put, self._dims), {"confidence": float(put.confidence)})
            for slot, put in puts.items()
        ]
        self.rows |= dict.fromkeys(self._waiting)
        with self._wanting():
            self._shard.update(qe.UpdateOperation.upsert_points(points))
            page, _ = self._shard.scroll(
                qe.ScrollRequest(limit=len(puts), with_payload=True, with_vector=True)
            )
            for record, code in scored(self._shard, page):
                put = puts[cast("UUID", record.id)]
                payload = payload_of(put) | cast("dict[str, Any]", record.payload)
                row = row_of(payload, cast("list[float]", record.vector), code)
                self.rows[point_id(put.space, put.id)] = row
        self._settled += len(puts)
        self._waiting.clear()

    def close(self) -> None:
        drop(self._path)  # First: what is gone need not be written.
        try:
            self._shard.close()
        except BaseException as error:
            if not engine.is_engines(error):
                raise

    def _made(self) -> qe.EdgeShard:
        drop(self._path)
        with self._wanting():
            return engine.bare(self._path, self._dims)

    @contextmanager
    def _wanting(self) -> Iterator[None]:
        self._room.check()
        try:
            yield
        except Exception as error:
            if is_want(error):
                raise VectorsAway(f"The shard in {self._path}: {error}") from error
            raise
