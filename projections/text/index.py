"""The text index on Tantivy: one index per space, committed in the background."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

from mnemolog.projections.language import tokens
from mnemolog.projections.ports import Hit, PutText, TextChange
from mnemolog.projections.text import manifest, whole
from mnemolog.projections.text.manifest import TextIndexError
from mnemolog.projections.text.space import Space
from mnemolog.projections.text.store import Document, Store, stems

COMMIT_AT = 256
"""A space with this many uncommitted changes is committed in the background."""
MAX_WAITING = 32_768
"""With this many uncommitted changes in all, `apply` waits until half of them are committed."""
MAX_OPEN = 32
"""Spaces whose files stay open. Each has a thread that looks at them twice a second."""
MAX_QUERY_TERMS = 64
"""Further distinct terms of a query are ignored."""
MAX_ID = 2**63 - 1

_log = logging.getLogger(__name__)


class TantivyText:
    """BM25 search in a directory of its own, which one process at a time may use.

    One thread applies; any number may search, and one may commit, at the same time. A search sees
    what was applied before it, committed or not, and scores it as if it were committed. Writers
    are open only during a commit (opening one costs 0.4 ms of a commit's 15, keeping one open 5 MB
    and six threads).
    """

    def __init__(self, root: Path, *, commit_at: int = COMMIT_AT) -> None:
        self._root = root
        self._commit_at = commit_at
        opened = manifest.open_root(root)
        self._durable = opened.checkpoints
        self._applied = dict(self._durable)
        self._marks = _marks(root, opened)
        """By the names of their directories: spaces that were committed."""
        self._damaged: dict[str, str] = {}
        """By name: spaces whose files cannot be used. They take nothing and find nothing, and from
        then on no checkpoint is written: the index is to be made anew."""
        self._spaces: dict[str, Space] = {}
        self._open: OrderedDict[str, Space] = OrderedDict()
        self._dirty: dict[str, Space] = {}
        self._waiting = 0
        self._lock = Lock()
        """Guards the fields above. Nothing slow is done under it, no other lock is taken."""
        self._flushing = Lock()
        """Held by whoever writes to disk."""
        self._queue: SimpleQueue[Space | None] = SimpleQueue()
        self._queued: set[str] = set()
        self._thread: Thread | None = None
        self._closed = False
        self._until_s = math.inf

    @property
    def damaged(self) -> str | None:
        """What is wrong with files that an operation stumbled over; None when nothing is."""
        return next(iter(self._damaged.values()), None)

    def checkpoint(self, partition: int) -> int:
        return self._durable.get(partition, -1)

    def apply(self, partition: int, offset: int, changes: Sequence[TextChange]) -> None:
        """Applied or, when it raises, not applied: the same call may be made again. A space whose
        files turn out to be damaged takes nothing any more."""
        if self._closed:
            raise RuntimeError("The text index is closed")
        if offset <= self._applied.get(partition, -1):
            return
        by_space: dict[str, dict[int, Document | None]] = {}
        for change in changes:
            by_space.setdefault(change.space, {})[change.id] = _document(change)
        if self._waiting >= MAX_WAITING:
            self._make_room()
        for name, documents in by_space.items():
            space = self._space(name)
            try:
                grown = space.apply(partition, offset, documents)
            except TextIndexError as error:
                if not error.damaged:
                    raise
                self._give_up(space, error)
                continue
            with self._lock:
                self._dirty[name] = space
                self._waiting += grown
            if space.is_open:
                self._keep_open(space)
            if space.waiting >= self._commit_at:
                self._flush_soon(space)
        with self._lock:
            self._applied[partition] = offset

    def search(
        self,
        space: str,
        query: str,
        limit: int,
        *,
        session: str | None = None,
        min_confidence: float | None = None,
    ) -> list[Hit]:
        """Scores have five significant digits; of a query, the first 64 distinct terms count."""
        wanted = list(dict.fromkeys(stems(_storable(" ".join(tokens(query))))))[:MAX_QUERY_TERMS]
        if not wanted or limit < 1:
            return []
        found = self._space(space)
        of_session = None if session is None else _storable(session)
        try:
            hits = found.search(wanted, limit, of_session, min_confidence)
        except TextIndexError as error:
            if error.damaged:
                self._give_up(found, error)
            raise
        self._keep_open(found)
        return hits

    def commit(self) -> None:
        """About 15 ms for each space that changed; searches and `apply` go on meanwhile."""
        with self._flushing:
            with self._lock:
                reached = dict(self._applied)
                dirty = list(self._dirty.values())
            for space in dirty:
                if time.monotonic() > self._until_s:
                    return
                self._flush(space)
            if reached != self._durable and not self._damaged:
                marks = dict(self._marks)
                manifest.write(self._root, manifest.Manifest(manifest.FORMAT, reached, marks))
                self._durable = reached

    def hurry(self, within_s: float) -> None:
        self._until_s = time.monotonic() + within_s

    def digest(self) -> dict[str, str]:
        """Commits first, then reads the files anew, as the next process will.

        A space without documents is left out. A directory that cannot be read, or that no search
        looks at, is there under its own name, so that it equals no other.
        """
        self.commit()
        found: dict[str, str] = {}
        for path in sorted((self._root / "spaces").iterdir()):
            try:
                whole.check(path, self._marks.get(path.name))
                if not Store.exists(path):
                    continue
                store = Store.open(path)
                digest = store.digest()
            except TextIndexError as error:
                _log.error("%s", error)
                found[f"(unreadable: {path.name})"] = str(error)
                continue
            if store.checkpoint is not None and digest is not None:
                space = store.checkpoint.space
                found[space if path == self._path(space) else f"(stray: {path.name})"] = digest
        return found

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        self.commit()
        for space in self._spaces.values():
            space.release()
        self._open.clear()

    def _path(self, space: str) -> Path:
        return self._root / "spaces" / hashlib.sha256(space.encode()).hexdigest()[:32]

    def _space(self, name: str) -> Space:
        with self._lock:
            space = self._spaces.get(name)
            if space is None:
                path = self._path(name)
                space = self._spaces[name] = Space(name, path, path.name in self._marks)
            return space

    def _keep_open(self, space: Space) -> None:
        """Remember the use, and let go of the files that were longest not used."""
        with self._lock:
            self._open[space.name] = space
            self._open.move_to_end(space.name)
            oldest = self._open.popitem(last=False)[1] if len(self._open) > MAX_OPEN else None
        if oldest is not None:
            oldest.release()

    def _flush(self, space: Space) -> None:
        """Commit one space. The caller holds `_flushing`."""
        with self._lock:
            # Before the flush: a change that comes during it makes the space dirty again.
            self._dirty.pop(space.name, None)
        try:
            flushed = space.flush()
            mark = whole.mark_of(self._path(space.name))
        except BaseException:
            with self._lock:
                self._dirty[space.name] = space
                self._waiting = sum(each.waiting for each in self._dirty.values())
            raise
        with self._lock:
            self._waiting -= flushed
            if mark is not None:
                self._marks[self._path(space.name).name] = mark
        self._keep_open(space)

    def _give_up(self, space: Space, error: TextIndexError) -> None:
        """Its files are damaged: what it has is not to be relied on, and what comes cannot be
        added. The next opening makes it anew; it may be asked until then, and says why not."""
        space.give_up(error)
        with self._lock:
            known = space.name in self._damaged
            self._damaged[space.name] = str(error)
            self._dirty.pop(space.name, None)
            self._waiting = sum(each.waiting for each in self._dirty.values())
        if not known:
            _log.warning("A text index is damaged and will be made anew: %s", error)
            manifest.forget(self._root)

    def _make_room(self) -> None:
        with self._flushing:
            with self._lock:
                dirty = sorted(self._dirty.values(), key=lambda space: -space.waiting)
            for space in dirty:
                if self._waiting <= MAX_WAITING // 2:
                    break
                self._flush(space)

    def _flush_soon(self, space: Space) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._work, name="text-commit", daemon=True)
            self._thread.start()
        with self._lock:
            if space.name in self._queued:
                return
            self._queued.add(space.name)
        self._queue.put(space)

    def _work(self) -> None:
        while (space := self._queue.get()) is not None:
            with self._lock:
                self._queued.discard(space.name)
            try:
                with self._flushing:
                    if space.waiting >= self._commit_at and not self._closed:
                        self._flush(space)
            except Exception:
                # Nothing is lost: the changes wait, and the owner's next commit raises this.
                _log.exception("Committing the text index of space %r failed", space.name)


def _marks(root: Path, opened: manifest.Manifest) -> dict[str, manifest.Mark]:
    """Those of the manifest; where an earlier version wrote none, of what is there."""
    if opened.spaces is not None:
        return dict(opened.spaces)
    marks = ((path.name, whole.mark_of(path)) for path in (root / "spaces").iterdir())
    return {name: mark for name, mark in marks if mark is not None}


def _document(change: TextChange) -> Document | None:
    if not 0 <= change.id <= MAX_ID:
        raise ValueError(f"Document id {change.id} is outside 0..{MAX_ID}")
    if not isinstance(change, PutText):
        return None
    return Document(
        id=change.id,
        body=_storable(" ".join(tokens(change.text))),
        session=None if change.session is None else _storable(change.session),
        confidence=float(change.confidence),
    )


def _storable(text: str) -> str:
    """Half of a surrogate pair cannot be stored as UTF-8, and would fail a whole commit."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
