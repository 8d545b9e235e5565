"""Vectors of a space whose model was chosen with configure_embeddings: which model, what it has not
embedded yet, and what it made.

A space has one such model at a time, and its vectors go when another is chosen: so those of two
models never meet in a search. Searching compares with all of them, exactly.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemolog.events.envelope import Decision
from mnemolog.events.episodes import EmbeddingsConfigured, MeaningProvided
from mnemolog.projections.episodes.state import DESCRIBED
from mnemolog.projections.ports import Choice, Vector, Waiting
from mnemolog.projections.state.view import Moment, View, Writable

TABLES = """
CREATE TABLE episodes_model (
  space INTEGER PRIMARY KEY, name TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
  api_key_env TEXT NOT NULL, base_url TEXT NOT NULL, batch_size INTEGER NOT NULL,
  similarity_threshold REAL, dims INTEGER NOT NULL, since INTEGER NOT NULL, removed INTEGER NOT NULL
);
CREATE TABLE episodes_unprovided (
  space INTEGER NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL, since INTEGER NOT NULL,
  PRIMARY KEY (space, kind, number)
) WITHOUT ROWID;
CREATE INDEX episodes_unprovided_newest ON episodes_unprovided (space, since);
CREATE TABLE episodes_provided (
  space INTEGER NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL, version INTEGER NOT NULL,
  at INTEGER NOT NULL, vector BLOB, PRIMARY KEY (space, kind, number)
) WITHOUT ROWID;
CREATE INDEX episodes_provided_newest ON episodes_provided (space, kind, at);
"""
CANONICAL = {
    "episodes_model": "SELECT * FROM episodes_model ORDER BY space",
    "episodes_unprovided": "SELECT * FROM episodes_unprovided ORDER BY space, kind, number",
    "episodes_provided": "SELECT * FROM episodes_provided ORDER BY space, kind, number",
}

BLOCK = 4096
MAX_KEPT_BYTES = 512 * 1024 * 1024
"""Of vectors in memory, of all spaces of a partition; the one asked for last stays in any case."""
SPENT = 1000
_HINT = "episodes.provided"


# --- questions -----------------------------------------------------------------------------------


def choice(view: View, space: str) -> Choice | None:
    """What was configured last for a space; None: nothing ever was."""
    row = view.one(f"{_CHOICES} WHERE space.name = ?", space)
    return None if row is None else Choice(*row)


def with_something_waiting(view: View) -> list[Choice]:
    """The choices of those spaces that are not embedded to the end."""
    sql = (
        f"{_CHOICES} WHERE chosen.name <> '' AND EXISTS"
        " (SELECT 1 FROM episodes_unprovided AS waiting WHERE waiting.space = chosen.space)"
        " ORDER BY chosen.space"
    )
    return [Choice(*row) for row in view.all(sql)]


_CHOICES = (
    "SELECT space.name, chosen.name, provider, model, api_key_env, base_url, batch_size,"
    " similarity_threshold, dims, since, removed"
    " FROM episodes_model AS chosen JOIN space ON space.id = chosen.space"
)


def waiting(view: View, space: str, limit: int) -> list[Waiting]:
    """What is not embedded as it is now, the newest change first."""
    rows = view.all(
        "SELECT kind, number, since FROM episodes_unprovided WHERE space = ?"
        " ORDER BY since DESC, kind, number DESC LIMIT ?",
        view.space_id(space),
        limit,
    )
    return [Waiting(kind, number, space, since) for kind, number, since in rows]


class Progress(msgspec.Struct, frozen=True):
    embedded: int
    total: int


def progress(view: View, space: str, own: str | None) -> Progress:
    """How much of a space is embedded as it is now, by the model it is configured for; `own` is
    the service's."""
    place = view.space_id(space)
    if place is None:
        return Progress(0, 0)
    tables = DESCRIBED.kinds
    total = sum(
        view.one(f"SELECT count(*) FROM {table} WHERE space = ?", place)[0]
        for table in tables.values()
    )
    chosen = choice(view, space)
    if chosen is not None and chosen.name not in ("", own):
        sql = "SELECT count(*) FROM episodes_unprovided WHERE space = ?"
        left = view.one(sql, place)[0]
    elif own is not None:
        left = sum(DESCRIBED.count(view, own, space, kind) for kind in tables)
    else:
        left = total
    return Progress(total - left, total)


def waits(view: View, space: int, kind: str, number: int) -> bool:
    sql = "SELECT 1 FROM episodes_unprovided WHERE space = ? AND kind = ? AND number = ?"
    return view.one(sql, space, kind, number) is not None


# --- what facts do -------------------------------------------------------------------------------


def configured(
    view: Writable, fact: EmbeddingsConfigured, moment: Moment, decision: Decision
) -> None:
    space = view.ensure_space(moment.space)
    before = choice(view, moment.space)
    same = before is not None and (before.name, before.dims) == (fact.name, fact.dims)
    view.run(
        "INSERT OR REPLACE INTO episodes_model VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        space,
        fact.name,
        fact.provider,
        fact.model,
        fact.api_key_env,
        fact.base_url,
        fact.batch_size,
        fact.similarity_threshold,
        fact.dims,
        before.since if same and before is not None else moment.call_offset,
        before.removed if same and before is not None else 0,
    )
    if same:
        return
    view.run("DELETE FROM episodes_provided WHERE space = ?", space)
    view.run("DELETE FROM episodes_unprovided WHERE space = ?", space)
    if fact.name:
        for kind, table in DESCRIBED.kinds.items():
            view.run(
                f"INSERT INTO episodes_unprovided SELECT space, ?, id, 0 FROM {table}"
                " WHERE space = ?",
                kind,
                space,
            )


def provide(view: Writable, fact: MeaningProvided, moment: Moment, decision: Decision) -> None:
    space = view.ensure_space(moment.space)
    key = (space, fact.kind, fact.number)
    _drop(view, "episodes_unprovided", *key)
    view.run(
        "INSERT OR REPLACE INTO episodes_provided VALUES (?, ?, ?, ?, ?, ?)",
        *key,
        fact.version,
        moment.call_offset,
        fact.vector,
    )


def to_provide(view: Writable, kind: str, number: int, space: int, moment: Moment) -> None:
    """Note that there is no vector of it as it is now."""
    view.run(
        "INSERT OR REPLACE INTO episodes_unprovided"
        " SELECT space, ?, ?, ? FROM episodes_model WHERE space = ? AND name <> ''",
        kind,
        number,
        moment.call_offset,
        space,
    )


def forget(view: Writable, space: str, kind: str, number: int) -> None:
    place = view.ensure_space(space)
    for table in ("episodes_unprovided", "episodes_provided"):
        _drop(view, table, place, kind, number)
    view.run("UPDATE episodes_model SET removed = removed + 1 WHERE space = ?", place)


def _drop(view: Writable, table: str, space: int, kind: str, number: int) -> None:
    view.run(
        f"DELETE FROM {table} WHERE space = ? AND kind = ? AND number = ?", space, kind, number
    )


# --- searching -----------------------------------------------------------------------------------


def nearest(
    view: View, chosen: Choice, kind: str, query: Vector, limit: int
) -> list[tuple[int, float]]:
    """The nearest by cosine, the best first. Some may be gone meanwhile."""
    numbers, rows = _matrix(view, chosen, kind).as_of(view)
    there = np.flatnonzero(numbers >= 0)
    if not len(there):
        return []
    wanted = query.astype(np.float32)
    scores = np.concatenate(
        [
            rows[start : start + BLOCK].astype(np.float32) @ wanted
            for start in range(0, len(rows), BLOCK)
        ]
    )[there]
    if len(there) > limit:
        best = np.argpartition(-scores, limit - 1)[:limit]
        there, scores = there[best], scores[best]
    order = np.lexsort((-numbers[there], -scores))
    return [(int(numbers[there[one]]), float(scores[one])) for one in order]


class _Matrix:
    """The vectors of a space's things of one kind, as one choice made them. Rows are only added:
    one that no longer holds has the number -1. So whoever has got them may go on computing."""

    def __init__(self, space: int, kind: str, chosen: Choice) -> None:
        self.chosen = chosen
        self._space = space
        self._kind = kind
        self._lock = threading.Lock()
        self._last = -1
        self._count = 0
        self._spent = 0
        self._places: dict[int, int] = {}
        self._numbers = np.empty(0, dtype=np.int64)
        self._rows = np.empty((0, chosen.dims), dtype=np.float16)

    @property
    def size(self) -> int:
        return self._rows.nbytes

    def fits(self, chosen: Choice) -> bool:
        """Whether it is of this choice, and most of what it has still is there."""
        gone = self._spent + chosen.removed - self.chosen.removed
        mine = (self.chosen.name, self.chosen.dims, self.chosen.since)
        return mine == (chosen.name, chosen.dims, chosen.since) and gone <= SPENT + self._count // 2

    def as_of(self, view: View) -> tuple[NDArray[np.int64], NDArray[np.float16]]:
        with self._lock:
            rows = view.all(
                "SELECT number, at, vector FROM episodes_provided"
                " WHERE space = ? AND kind = ? AND at > ? ORDER BY at, number",
                self._space,
                self._kind,
                self._last,
            )
            self._make_room(len(rows))
            for number, at, vector in rows:
                earlier = self._places.get(number)
                if earlier is not None:
                    self._numbers[earlier] = -1
                    self._spent += 1
                self._last = at
                if vector is None:
                    self._places.pop(number, None)
                    continue
                self._places[number] = self._count
                self._numbers[self._count] = number
                self._rows[self._count] = np.frombuffer(vector, dtype=np.float16)
                self._count += 1
            return self._numbers[: self._count].copy(), self._rows[: self._count]

    def _make_room(self, more: int) -> None:
        needed = self._count + more
        if needed <= len(self._numbers):
            return
        size = max(needed, self._count * 5 // 4)
        numbers = np.full(size, -1, dtype=np.int64)
        rows = np.zeros((size, self.chosen.dims), dtype=np.float16)
        numbers[: self._count] = self._numbers[: self._count]
        rows[: self._count] = self._rows[: self._count]
        self._numbers, self._rows = numbers, rows


class _Kept:
    """By space and kind what is in memory, what was used last at the end."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.matrices: OrderedDict[tuple[int, str], _Matrix] = OrderedDict()


def _matrix(view: View, chosen: Choice, kind: str) -> _Matrix:
    kept: _Kept = view.hints.setdefault(_HINT, _Kept())
    space = view.space_id(chosen.space)
    assert space is not None, "a choice is of a space"
    with kept.lock:
        found = kept.matrices.get((space, kind))
        if found is None or not found.fits(chosen):
            found = kept.matrices[space, kind] = _Matrix(space, kind, chosen)
        kept.matrices.move_to_end((space, kind))
        while len(kept.matrices) > 1 and _bytes(kept) > MAX_KEPT_BYTES:
            kept.matrices.popitem(last=False)
        return found


def _bytes(kept: _Kept) -> int:
    return sum(one.size for one in kept.matrices.values())
