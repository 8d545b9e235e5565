"""The vector index in this process, on qdrant-edge: no server, one directory per model.

A search is a plain scan over 4-bit codes whose best candidates are scored again with the float16
originals. That finds what an exact search finds (recall@10 above 0.99), needs no building, and
takes 3 to 5 ms for a space of 100,000 points (as long for 30,000 that lie scattered in a shard of
200,000: memory is read in jumps then). A graph (HNSW) would be faster beyond that, but
`EdgeShard.optimize()` holds the interpreter lock for as long as it builds, minutes at that size.

The engine's own write-ahead log is off: the decisions are the log, and what was applied after the
last `commit` is fed again from there.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import qdrant_edge as qe
from msgspec.structs import replace

from mnemolog.projections.files import drop
from mnemolog.projections.ports import Hit, PutVector, Vector, VectorChange, VectorsAway, is_want
from mnemolog.projections.vectors import shard as engine
from mnemolog.projections.vectors import whole
from mnemolog.projections.vectors.findable import findable, rows
from mnemolog.projections.vectors.manifest import (
    Manifest,
    VectorIndexError,
    check_is_of,
    forget,
    only_opener,
    read_manifest,
    write_manifest,
)
from mnemolog.projections.vectors.points import (
    SpaceDigests,
    checked_limit,
    checked_put,
    checked_vector,
    payload_of,
    point_id,
)
from mnemolog.projections.vectors.room import Room

BATCH = 256
"""Changes that are handed to the engine at once: large enough for a fast bulk feed, small enough
that a search which comes meanwhile waits a few milliseconds at most."""

MOST_WAITING = 20_000
"""Changes that are kept while there is no room on the disk: some 60 MB with 384 dimensions."""

AGAIN_S = 1.0
"""How long nobody tries again to open a shard that could not be opened for want of room."""

UNREADABLE = "(unreadable)"
"""The name that the contents have in a digest when they cannot be read."""

_log = logging.getLogger(__name__)


class EdgeVectors:
    """A `VectorIndex` in `directory`, for vectors of one `model` with `dims` dimensions.

    One thread applies and commits; any number may search at the same time. A directory has one
    opener at a time, in whatever process; a second one gets a BlockingIOError. ValueError if the
    directory belongs to another model.

    While the disk is full it is away: changes wait here, and the next search tries again. Once it
    stumbles over damaged files it is `damaged`: it takes nothing and finds nothing any more, and
    the next opening begins anew.
    """

    def __init__(self, directory: Path, dims: int, model: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.dims = dims
        self._model = model
        self._buffer: dict[UUID, qe.Point | None] = {}
        self._unflushed = False  # the engine holds changes that may not be on disk
        self._lock = threading.Lock()  # for the buffer, and for what is applied
        self._commit_lock = threading.Lock()  # for the disk: one flush and manifest at a time
        self._shard: qe.EdgeShard | None = None
        self._closed = False
        self._away: str | None = None
        self._again_at = 0.0
        self._room = Room(directory)
        self._drained = 0  # changes since the files were given their room
        self._changed: set[UUID] | None = None  # see `watched`
        self.damaged: str | None = None
        """What is wrong with files that an operation stumbled over; None when nothing is."""
        with contextlib.ExitStack() as undo:
            undo.enter_context(only_opener(directory))
            self._manifest = read_manifest(directory) or Manifest(model, dims, {}, points=0)
            check_is_of(self._manifest, directory, dims, model)
            with contextlib.suppress(VectorsAway):
                self._open()
            self._held = undo.pop_all()
        self._applied = dict(self._manifest.checkpoints)

    def checkpoint(self, partition: int) -> int:
        """The offset up to which `partition` is durable here; -1 if none. Feed from the next."""
        return self._manifest.checkpoints.get(partition, -1)

    def check(self) -> None:
        """`VectorIndexError` when the shard, just opened, holds less than was committed, or points
        that no search finds. 30 ms for 100,000 points; what is away is not looked at."""
        shard = self._shard
        if shard is None:
            return
        with self._readable():
            held, lost = shard.info().points_count, engine.unfindable(shard)
        if held < (self._manifest.points or 0):
            had = self._manifest.points
            raise VectorIndexError(self.directory, f"holds {held} points of {had}")
        if lost:
            raise VectorIndexError(self.directory, f"does not find {lost} of {held} points")

    def health(self) -> dict[str, Any]:
        """Whether it can be searched, and if not, why."""
        reason = self.damaged or self._away
        return {"status": "own"} if reason is None else {"status": "away", "reason": reason}

    def apply(self, partition: int, offset: int, changes: Sequence[VectorChange]) -> None:
        """Apply one decision's changes, all or (ValueError) none; the next search sees them."""
        if offset <= self._applied.get(partition, -1):
            return
        points: dict[UUID, qe.Point | None] = {}
        for change in changes:
            key = point_id(change.space, change.id)
            points[key] = (
                qe.Point(key, checked_put(change, self.dims), payload_of(change))
                if isinstance(change, PutVector)
                else None
            )
        with self._lock:
            if self._closed:
                raise self._is_closed()
            if self.damaged is not None:
                return
            if self._changed is not None:
                self._changed.update(points)
            self._buffer.update(points)
            self._applied[partition] = offset
            if len(self._buffer) >= BATCH:
                with contextlib.suppress(VectorsAway):
                    self._drain()
            if len(self._buffer) >= MOST_WAITING:
                waiting = len(self._buffer)
                self._give_up(f"could not take {waiting} changes: {self._away}", keep=True)

    def commit(self) -> None:
        """Make everything applied durable, then the checkpoints. `VectorsAway` on a full disk.

        Costs some fifty syncs, 10 to 20 ms on a quiet disk and ten times that on a busy one, and
        the engine lets no other Python thread run meanwhile: call it every few thousand changes
        or when idle, not after each write. What is not committed is fed again after a crash.
        """
        with self._commit_lock:
            with self._lock:
                shard = self._live()
                self._drain()
                applied = dict(self._applied)
                unflushed, self._unflushed = self._unflushed, False
            if unflushed:
                self._flush(shard)
            if applied == self._manifest.checkpoints:
                return
            self._note(
                replace(
                    self._manifest,
                    checkpoints=applied,
                    points=shard.info().points_count,
                    files=whole.sizes_of(self.directory / "shard"),
                )
            )

    def search(
        self,
        space: str,
        vector: Vector,
        limit: int,
        *,
        session: str | None = None,
        min_confidence: float | None = None,
    ) -> list[Hit]:
        """The `limit` nearest points of `space` by cosine similarity, at most 10,000.

        The engine checks a condition point by point, which costs as much as scoring them when
        nearly all pass, as they do if the space is most of the shard or few points are doubtful.
        So such a condition is left out at first: of the nearest points those that fit are the
        nearest that fit. Only if too few of them do, the engine is asked with every condition.
        """
        checked_limit(limit)
        query = qe.Query.Nearest(checked_vector(vector, self.dims))
        with self._lock:
            shard = self._live()
            self._drain()
        with self._stumbling():
            return engine.nearest(shard, query, limit, space, session, min_confidence)

    def digest(self) -> dict[str, str]:
        """Per space a hash over ids, versions, sessions, confidences, stored vectors and codes.

        Reads every point as a search does, five seconds per 100,000; nothing should be applied
        meanwhile. What a search would not find is left out, as if it were not there.
        """
        with self._lock:
            shard = self._live()
            self._drain()
        digests = SpaceDigests()
        try:
            with self._readable():
                for point in findable(shard):
                    digests.add(*point)
        except VectorIndexError as error:
            _log.error("%s", error)
            return {UNREADABLE: str(error)}
        return digests.result()

    @contextlib.contextmanager
    def watched(self) -> Iterator[tuple[dict[int, int], set[UUID]]]:
        """Up to which decision of each partition everything is in it; and the points that were
        changed since, within the block: a point is among them before a change of it shows."""
        with self._lock:
            self._live()
            self._drain()
            applied, changed = dict(self._applied), set[UUID]()
            self._changed = changed
        try:
            yield applied, changed
        finally:
            with self._lock:
                self._changed = None

    def rows(self, after: UUID | None, limit: int) -> tuple[dict[UUID, bytes | None], UUID | None]:
        """Some of the points as they are read by a search, see `findable.rows`."""
        with self._lock:
            shard = self._live()
        with self._stumbling():
            return rows(shard, after, limit)

    def give_up(self, why: str) -> None:
        """It was found to be damaged: have it made anew."""
        with self._lock:
            self._give_up(why)

    def close(self) -> None:
        """Commit, and let go of the directory. Closing again does nothing. What a full disk does
        not take is fed again from the log at the next opening."""
        if self._closed:
            return
        try:
            self.commit()
        except VectorsAway as error:
            _log.warning("The last changes are not in the vector index's files: %s", error)
        finally:
            with self._lock:
                self._closed = True
                shard, self._shard = self._shard, None
                at_rest = not self._buffer and not self._unflushed
            with self._held, contextlib.suppress(VectorIndexError, VectorsAway, OSError):
                if shard is not None:
                    with self._readable():
                        shard.close()
                    if at_rest:
                        self._note_sums()

    def forget(self) -> None:
        """Have it made anew at the next opening; once it is closed."""
        forget(self.directory)

    # --- the shard, and what may be wrong with it -----------------------------------------------

    def _is_closed(self) -> RuntimeError:
        return RuntimeError(f"The vector index in {self.directory} is closed")

    def _live(self) -> qe.EdgeShard:
        """The shard, opened if it was away; under the lock."""
        if self._closed:
            raise self._is_closed()
        if self.damaged is not None:
            raise VectorsAway(self.damaged, again=False)
        if self._shard is None:
            if time.monotonic() < self._again_at:
                raise VectorsAway(self._away or "")
            try:
                return self._open()
            except VectorIndexError as error:
                self._give_up(str(error))
                raise VectorsAway(str(error), again=False) from error
        return self._shard

    def _open(self) -> qe.EdgeShard:
        path = self.directory / "shard"
        with self._wanting():
            self._room.check()
            if self._manifest.files is None and read_manifest(self.directory) is None:
                # Whatever is there was left by a creation that did not end.
                drop(path)
                shard = engine.create(path, self.dims)
                self._take_room()
                self._note(replace(self._manifest, files=whole.sizes_of(path)))
            elif not path.is_dir():
                raise VectorIndexError(self.directory, "has lost its shard")
            else:
                self._take_room()
                self._note(replace(self._manifest, sums=None))
                shard = engine.load(path)
                self._take_room()
            self._shard = shard
        return shard

    def _take_room(self) -> None:
        self._room.take(self.directory / "shard")
        self._drained = 0

    def _note(self, manifest: Manifest) -> None:
        write_manifest(self.directory, manifest)
        self._manifest = manifest

    def _note_sums(self) -> None:
        path = self.directory / "shard"
        sizes = {name: stat.st_size for name, stat in whole.files_of(path)}
        self._note(replace(self._manifest, files=sizes, sums=whole.sums_of(path)))

    def _flush(self, shard: qe.EdgeShard) -> None:
        try:
            with self._stumbling():
                self._room.check()
                shard.flush()
                self._take_room()
        except BaseException:
            self._unflushed = True
            raise

    def _drain(self) -> None:
        """Hand the buffered changes to the engine; under the lock. An id is in the buffer once,
        with its last change, so the order of the two operations does not matter."""
        while self._buffer:
            shard = self._live()
            piece = list(itertools.islice(self._buffer.items(), BATCH))
            puts = [point for _, point in piece if point is not None]
            removed: list[UUID | int | str] = [key for key, point in piece if point is None]
            with self._wanting(), self._stumbling():
                self._room.check()
                if self._drained >= BATCH:
                    self._take_room()
                self._drained += len(piece)
                self._unflushed = True
                if puts:
                    shard.update(qe.UpdateOperation.upsert_points(puts))
                if removed:
                    shard.update(qe.UpdateOperation.delete_points(removed))
            for key, _ in piece:
                del self._buffer[key]

    @contextlib.contextmanager
    def _wanting(self) -> Iterator[None]:
        """What fails for want of room on the disk is away for a while; it is told once."""
        try:
            yield
        except (VectorsAway, OSError) as error:
            if not isinstance(error, VectorsAway) and not is_want(error):
                raise
            if self._away is None:
                _log.warning("The vectors are away, searches go by words alone: %s", error)
            self._away, self._again_at = str(error), time.monotonic() + AGAIN_S
            raise VectorsAway(str(error)) from error
        if self._away is not None:
            _log.warning("The vectors are there again")
            self._away = None

    @contextlib.contextmanager
    def _stumbling(self) -> Iterator[None]:
        """An error of the engine is damage, unless it was for want of something."""
        try:
            with self._readable():
                yield
        except VectorIndexError as error:
            self._give_up(str(error))
            raise VectorsAway(str(error), again=False) from error

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except VectorsAway:
            raise
        except BaseException as error:
            if not engine.is_engines(error):
                raise
            if is_want(error):
                raise VectorsAway(f"The vector index in {self.directory}: {error}") from error
            raise VectorIndexError(self.directory, f"cannot be read ({error!r})") from error

    def _give_up(self, why: str, *, keep: bool = False) -> None:
        """Take nothing and find nothing from now on. `keep`: the files are whole, and the next
        opening goes on from them."""
        if self.damaged is None:
            self.damaged = why
            _log.warning("The vector index is given up and will be made anew: %s", why)
            if not keep:
                forget(self.directory)
        self._buffer.clear()
        self._shard = None
