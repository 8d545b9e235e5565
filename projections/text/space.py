"""One space: what is committed, what is applied and not yet committed, and the search over both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

from tantivy import DocAddress, Query

from mnemolog.projections.ports import Hit
from mnemolog.projections.text.bm25 import Statistics, comparable, idfs, score
from mnemolog.projections.text.manifest import TextIndexError
from mnemolog.projections.text.store import (
    EMPTY,
    Checkpoint,
    Document,
    Store,
    query,
    readable,
    stems,
)

SPARE = 8
"""Hits fetched beyond the limit, to see whether the last one ties with the next."""
MAX_TIES = 4096
"""A tie among more committed documents than this is cut in Tantivy's order."""
MAX_DRIFT = 0.02
"""How far uncommitted documents may move the average length before committed hits are rescored."""


class Draft:
    """An applied document that is not committed yet. It is analysed when a search first asks."""

    __slots__ = ("_terms", "document", "length")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.length = document.body.count(" ") + 1 if document.body else 0
        self._terms: Counter[str] | None = None

    @property
    def terms(self) -> Counter[str]:
        if self._terms is None:
            self._terms = Counter(stems(self.document.body))
        return self._terms

    def passes(self, session: str | None, min_confidence: float | None) -> bool:
        return (session is None or self.document.session == session) and (
            min_confidence is None or self.document.confidence >= min_confidence
        )


class Space:
    """Safe for any number of searching threads beside one that applies and one that flushes.

    `_fresh` is what came since the last flush began, `_frozen` what the running flush is writing.
    Both are searched, and both hide what is committed under the same ids; `_frozen` goes in the
    same step in which the moment that contains it becomes the one that is searched.
    """

    def __init__(self, name: str, path: Path, made: bool = False) -> None:
        self.name = name
        self._path = path
        self._made = made
        """Whether it was committed before: then its files must be there."""
        self._damaged: TextIndexError | None = None
        self._lock = Lock()
        self._store: Store | None = None
        self._fresh: dict[int, Draft | None] = {}
        self._frozen: dict[int, Draft | None] = {}
        self._partition = -1
        self._offset: int | None = None

    @property
    def waiting(self) -> int:
        """How many changes no flush has taken yet."""
        return len(self._fresh)

    @property
    def is_open(self) -> bool:
        """Whether the space holds files open."""
        return self._store is not None

    def apply(self, partition: int, offset: int, changes: Mapping[int, Document | None]) -> int:
        """Take one decision's changes (None: remove), all visible at once.

        Gives by how many `waiting` grew. What the space already holds is skipped.
        """
        with self._lock:
            if self._offset is None or self._damaged is not None:
                self._open()
            if self._offset is not None and offset <= self._offset:
                return 0
            if self._partition not in (-1, partition):
                raise TextIndexError(
                    self._path,
                    f"space {self.name!r} was fed from partition {self._partition} "
                    f"and now comes from partition {partition}",
                    damaged=False,
                )
            before = len(self._fresh)
            for id, document in changes.items():
                self._fresh[id] = None if document is None else Draft(document)
            self._partition, self._offset = partition, offset
            return len(self._fresh) - before

    def flush(self) -> int:
        """Commit what is waiting and give its count. One caller at a time; searches go on.

        When it fails, everything is waiting as before.
        """
        with self._lock:
            if not self._fresh or self._offset is None:
                return 0
            self._frozen, self._fresh = self._fresh, {}
            partition, offset, store = self._partition, self._offset, self._open()
        frozen = self._frozen
        try:
            puts = [id for id, draft in frozen.items() if draft is not None]
            if store is None and not puts:
                with self._lock:
                    self._frozen = {}
                return len(frozen)
            store = store or Store.open(self._path)
            highest = store.checkpoint.highest if store.checkpoint else -1
            store, writer = store.write(
                Checkpoint(self.name, partition, offset, max(highest, *puts, -1)),
                {id: draft.document if draft else None for id, draft in frozen.items()},
            )
        except BaseException:
            with self._lock:
                self._fresh, self._frozen = {**frozen, **self._fresh}, {}
            raise
        with self._lock:
            self._store, self._frozen, self._made = store, {}, True
        writer.wait_merging_threads()
        return len(frozen)

    def give_up(self, error: TextIndexError) -> None:
        """Its files are damaged: from now on every use raises `error`."""
        with self._lock:
            self._damaged = self._damaged or error
            self._store, self._fresh, self._frozen = None, {}, {}

    def release(self) -> None:
        """Let go of the files until the next use."""
        with self._lock:
            self._store = None

    def search(
        self,
        wanted: Sequence[str],
        limit: int,
        session: str | None,
        min_confidence: float | None,
    ) -> list[Hit]:
        """The best `limit` documents for the distinct stems `wanted`."""
        with readable(self._path):
            return self._search(wanted, limit, session, min_confidence)

    def _search(
        self,
        wanted: Sequence[str],
        limit: int,
        session: str | None,
        min_confidence: float | None,
    ) -> list[Hit]:
        with self._lock:
            store = self._open()
            pending = {**self._frozen, **self._fresh} if self._frozen else self._fresh
            held = store.statistics if store else EMPTY
            drafts = [draft for draft in pending.values() if draft is not None]
            matching = [draft for draft in drafts if not draft.terms.keys().isdisjoint(wanted)]
            both = Statistics(
                docs=held.docs + len(drafts),
                tokens=held.tokens + sum(draft.length for draft in drafts),
            )
            drifted = abs(both.average / held.average - 1) > MAX_DRIFT
            average = both.average if drifted else held.average
            weights, boosts = _weights(wanted, store, matching, held.docs, both.docs)
            hits = [
                Hit(
                    draft.document.id,
                    comparable(score(draft.terms, draft.length, weights, average)),
                )
                for draft in matching
                if draft.passes(session, min_confidence)
            ]
            hidden = set(pending)
        if store is not None and store.checkpoint is not None:
            highest = store.checkpoint.highest
            extra = sum(id <= highest for id in hidden)
            ask = query(boosts, session, min_confidence)
            found = _fetch(store, ask, 2 * limit + extra if drifted else limit + extra)
            ids = store.ids([address for _, address in found])
            for id, (points, address) in zip(ids, found, strict=True):
                if id in hidden:
                    continue
                if drifted:
                    terms = stems(store.body(address))
                    points = score(Counter(terms), len(terms), weights, average)
                hits.append(Hit(id, comparable(points)))
        hits.sort(key=lambda hit: (-hit.score, -hit.id))
        return hits[:limit]

    def _open(self) -> Store | None:
        if self._damaged is not None:
            raise self._damaged
        if self._store is None and (self._made or Store.exists(self._path)):
            self._store = Store.open(self._path, made=self._made)
            mark = self._store.checkpoint
            if mark is not None:
                if mark.space != self.name:
                    raise TextIndexError(self._path, f"it belongs to space {mark.space!r}")
                if self._offset is None:
                    self._partition, self._offset = mark.partition, mark.offset
        return self._store


def _weights(
    wanted: Sequence[str], store: Store | None, matching: list[Draft], held: int, both: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Each term's idf over committed and uncommitted documents together, and the boost that makes
    Tantivy, which knows of the committed alone, weigh the term the same."""
    committed = store.having(wanted) if store and matching else {}
    weights = idfs(
        both,
        {
            stem: committed.get(stem, 0) + sum(stem in draft.terms for draft in matching)
            for stem in wanted
        },
    )
    known = idfs(held, committed)
    boosts = {stem: weights[stem] / known[stem] if stem in known else 1.0 for stem in wanted}
    return weights, boosts


def _fetch(store: Store, ask: Query, wanted: int) -> list[tuple[float, DocAddress]]:
    """The best `wanted` committed hits, and all that tie with the last of them."""
    limit = wanted + SPARE
    while True:
        found = store.top(ask, limit)
        full = len(found) == limit
        if not full or limit >= MAX_TIES or _below(found[-1][0], found[wanted - 1][0]):
            return found
        limit *= 8


def _below(score: float, other: float) -> bool:
    return comparable(score) < comparable(other)
