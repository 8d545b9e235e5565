"""What of a family has been described for a search by meaning, by which model, and how.

Things are embedded after the reply, so the state knows what waits for it: for each model that ever
described something here (`describer`), what it has not yet (`undescribed`, newest change first) and
the vectors it made (`meaning`). A model that is not a describer yet has everything before it. So no
question here looks through all things.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
import numpy as np

from mnemolog.events.envelope import Decision
from mnemolog.projections.ports import (
    PutVector,
    Remove,
    Vector,
    VectorChange,
    Waiting,
    vector_of,
)
from mnemolog.projections.state.view import Moment, View, Writable, marks


def index_space(space: str, kind: str) -> str:
    """Where the search indexes keep things of a kind: the ids of two kinds never meet."""
    return f"{space}#{kind}"


def put_described(
    decision: Decision, space: str, number: int, version: int, embedding: int | None
) -> VectorChange:
    """What a description changes in an index of vectors: what has none is taken out."""
    if embedding is None:
        return Remove(space, number)
    return PutVector(space, number, version, vector_of(decision.inputs[embedding]))


class Described(msgspec.Struct, frozen=True):
    """Of one family, whose tables are called by the `prefix`. `kinds` are the things that are
    described, each with the table that has their `id` and `space`."""

    prefix: str
    kinds: Mapping[str, str]

    @property
    def tables(self) -> str:
        own = self.prefix
        return f"""
CREATE TABLE {own}describer (model TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE {own}undescribed (
  model TEXT NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL,
  space INTEGER NOT NULL, since INTEGER NOT NULL, PRIMARY KEY (model, kind, number)
) WITHOUT ROWID;
CREATE INDEX {own}undescribed_newest ON {own}undescribed (model, since);
CREATE INDEX {own}undescribed_space ON {own}undescribed (model, space, kind);
CREATE TABLE {own}meaning (
  kind TEXT NOT NULL, number INTEGER NOT NULL, model TEXT NOT NULL, version INTEGER NOT NULL,
  vector BLOB NOT NULL, PRIMARY KEY (kind, number, model)
) WITHOUT ROWID;
"""

    @property
    def canonical(self) -> dict[str, str]:
        own = self.prefix
        return {
            f"{own}describer": f"SELECT * FROM {own}describer ORDER BY model",
            f"{own}undescribed": f"SELECT * FROM {own}undescribed ORDER BY model, kind, number",
            f"{own}meaning": f"SELECT * FROM {own}meaning ORDER BY kind, number, model",
        }

    # --- questions -------------------------------------------------------------------------------

    def waiting(self, view: View, model: str, limit: int) -> list[Waiting]:
        """What `model` has to describe, the newest change first."""
        if self._describes(view, model):
            rows = view.all(
                f"SELECT kind, number, space.name, since FROM {self.prefix}undescribed AS waiting"
                " JOIN space ON space.id = waiting.space"
                " WHERE model = ? ORDER BY since DESC LIMIT ?",
                model,
                limit,
            )
            return [Waiting(*row) for row in rows]
        found: list[Waiting] = []
        for kind, table in self.kinds.items():
            rows = view.all(
                f"SELECT {table}.id, space.name FROM {table} JOIN space ON space.id = {table}.space"
                f" ORDER BY {table}.id DESC LIMIT ?",
                limit - len(found),
            )
            found += [Waiting(kind, number, space, 0) for number, space in rows]
        return found

    def count(self, view: View, model: str, space: str | None = None, kind: str = "") -> int:
        """How many wait for `model`: in all, or those of one kind in a space."""
        place = None if space is None else view.space_id(space)
        if space is not None and place is None:
            return 0
        if self._describes(view, model):
            sql = f"SELECT count(*) FROM {self.prefix}undescribed WHERE model = ?"
            if space is None:
                return int(view.one(sql, model)[0])
            return int(view.one(f"{sql} AND space = ? AND kind = ?", model, place, kind)[0])
        tables = self.kinds.values() if space is None else (self.kinds[kind],)
        where, given = ("", ()) if space is None else (" WHERE space = ?", (place,))
        return sum(view.one(f"SELECT count(*) FROM {one}{where}", *given)[0] for one in tables)

    def waits_since(self, view: View, model: str, one: Waiting) -> bool:
        """Whether it waits for `model` as it has been since then."""
        row = view.one(
            f"SELECT 1 FROM {self.prefix}undescribed AS waiting"
            " JOIN space ON space.id = waiting.space WHERE model = ?"
            " AND kind = ? AND number = ? AND since = ? AND space.name = ?",
            model,
            one.kind,
            one.number,
            one.since,
            one.space,
        )
        return row is not None

    def last(self, view: View, model: str) -> int:
        """The call by which `model` described something last; -1: none yet."""
        row = view.one(f"SELECT last FROM {self.prefix}describer WHERE model = ?", model)
        return -1 if row is None else int(row[0])

    def is_described(self, view: View, model: str, kind: str, number: int) -> bool:
        """Whether `model` has described it as it is now."""
        return self._describes(view, model) and (
            view.one(
                f"SELECT 1 FROM {self.prefix}undescribed"
                " WHERE model = ? AND kind = ? AND number = ?",
                model,
                kind,
                number,
            )
            is None
        )

    def meanings(
        self, view: View, model: str, kind: str, numbers: Collection[int]
    ) -> dict[int, Vector]:
        """The vectors there are of `numbers`."""
        rows = view.all(
            f"SELECT number, vector FROM {self.prefix}meaning"
            f" WHERE kind = ? AND number IN ({marks(numbers)}) AND model = ?",
            kind,
            *numbers,
            model,
        )
        return {number: np.frombuffer(vector, dtype=np.float16) for number, vector in rows}

    def _describes(self, view: View, model: str) -> bool:
        sql = f"SELECT 1 FROM {self.prefix}describer WHERE model = ?"
        return view.one(sql, model) is not None

    # --- what facts do ---------------------------------------------------------------------------

    def to_describe(
        self, view: Writable, kind: str, number: int, space: int, moment: Moment
    ) -> None:
        """Note that what every model said of it no longer holds."""
        view.run(
            f"INSERT OR REPLACE INTO {self.prefix}undescribed"
            f" SELECT model, ?, ?, ?, ? FROM {self.prefix}describer",
            kind,
            number,
            space,
            moment.call_offset,
        )

    def forget(self, view: Writable, kind: str, number: int) -> None:
        own = self.prefix
        view.run(
            f"DELETE FROM {own}undescribed WHERE model IN (SELECT model FROM {own}describer)"
            " AND kind = ? AND number = ?",
            kind,
            number,
        )
        view.run(f"DELETE FROM {own}meaning WHERE kind = ? AND number = ?", kind, number)

    def keep(
        self,
        view: Writable,
        kind: str,
        number: int,
        version: int,
        model: str,
        vector: bytes | None,
        moment: Moment,
    ) -> None:
        """A model has described it; without a vector when it does not cover what it says."""
        own = self.prefix
        known = self._describes(view, model)
        view.run(f"INSERT OR REPLACE INTO {own}describer VALUES (?, ?)", model, moment.call_offset)
        if not known:
            for each, table in self.kinds.items():
                view.run(
                    f"INSERT INTO {own}undescribed SELECT ?, ?, id, space, 0 FROM {table}",
                    model,
                    each,
                )
        view.run(
            f"DELETE FROM {own}undescribed WHERE model = ? AND kind = ? AND number = ?",
            model,
            kind,
            number,
        )
        if vector is None:
            view.run(
                f"DELETE FROM {own}meaning WHERE kind = ? AND number = ? AND model = ?",
                kind,
                number,
                model,
            )
        else:
            view.run(
                f"INSERT OR REPLACE INTO {own}meaning VALUES (?, ?, ?, ?, ?)",
                kind,
                number,
                model,
                version,
                vector,
            )
