"""What of the knowledge graph has been described for a search by meaning, by which model, and how.

Entities and reflections are embedded after the reply, so the state knows what waits for it: for
each model that ever described something here (`describer`), what it has not yet (`undescribed`,
newest change first) and the vectors it made (`meaning`). A model that is not a describer yet has
everything before it. So no question here looks through all entities.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import numpy as np

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.graph import (
    EntityCreated,
    EntityDescribed,
    EntityTypeChanged,
    ObservationsAdded,
    ObservationsRemoved,
    ReflectionAdded,
    ReflectionEmbedded,
)
from mnemolog.projections.ports import Vector, Waiting
from mnemolog.projections.projection import Evolve
from mnemolog.projections.state.view import Moment, View, Writable, marks

ENTITY = "entity"
REFLECTION = "reflection"
REFLECTIONS = "reflection"
"""The counter of reflections' ids."""

TO_DESCRIBE: tuple[type[Fact], ...] = (
    EntityCreated,
    EntityTypeChanged,
    ObservationsAdded,
    ObservationsRemoved,
    ReflectionAdded,
)
"""Facts that leave something to be described."""
DESCRIBES: tuple[type[Fact], ...] = (EntityDescribed, ReflectionEmbedded)


class Reflection(msgspec.Struct, frozen=True):
    id: int
    target_type: str
    target_id: int | None
    author: str
    content: str
    mood: str | None
    created_at_us: int


def index_space(space: str, kind: str) -> str:
    """Where the search indexes keep a graph's entities or reflections: their ids never meet."""
    return f"{space}#{kind}"


# --- questions ---------------------------------------------------------------------------------


def undescribed(view: View, model: str, limit: int) -> list[Waiting]:
    """What `model` has to describe, the newest change first."""
    if _describes(view, model):
        rows = view.all(
            "SELECT kind, number, space.name, since FROM undescribed"
            " JOIN space ON space.id = undescribed.space"
            " WHERE model = ? ORDER BY since DESC LIMIT ?",
            model,
            limit,
        )
        return [Waiting(*row) for row in rows]
    found: list[Waiting] = []
    for kind in (ENTITY, REFLECTION):
        rows = view.all(
            f"SELECT {kind}.id, space.name FROM {kind} JOIN space ON space.id = {kind}.space"
            f" ORDER BY {kind}.id DESC LIMIT ?",
            limit - len(found),
        )
        found += [Waiting(kind, number, space, 0) for number, space in rows]
    return found


def count_undescribed(view: View, model: str, space: str | None = None, kind: str = "") -> int:
    """How many wait for `model`: in all, or those of one kind in a space."""
    place = None if space is None else view.space_id(space)
    if space is not None and place is None:
        return 0
    if _describes(view, model):
        sql = "SELECT count(*) FROM undescribed WHERE model = ?"
        if space is None:
            return int(view.one(sql, model)[0])
        return int(view.one(f"{sql} AND space = ? AND kind = ?", model, place, kind)[0])
    kinds = (ENTITY, REFLECTION) if space is None else (kind,)
    where, given = ("", ()) if space is None else (" WHERE space = ?", (place,))
    return sum(view.one(f"SELECT count(*) FROM {one}{where}", *given)[0] for one in kinds)


def waits_since(view: View, model: str, one: Waiting) -> bool:
    """Whether it waits for `model` as it has been since then."""
    row = view.one(
        "SELECT 1 FROM undescribed JOIN space ON space.id = undescribed.space WHERE model = ?"
        " AND kind = ? AND number = ? AND since = ? AND space.name = ?",
        model,
        one.kind,
        one.number,
        one.since,
        one.space,
    )
    return row is not None


def last_described(view: View, model: str) -> int:
    """The call by which `model` described something last; -1: none yet."""
    row = view.one("SELECT last FROM describer WHERE model = ?", model)
    return -1 if row is None else int(row[0])


def is_described(view: View, model: str, kind: str, number: int) -> bool:
    """Whether `model` has described it as it is now."""
    return _describes(view, model) and (
        view.one(
            "SELECT 1 FROM undescribed WHERE model = ? AND kind = ? AND number = ?",
            model,
            kind,
            number,
        )
        is None
    )


def meanings(view: View, model: str, kind: str, numbers: Collection[int]) -> dict[int, Vector]:
    """The vectors there are of `numbers`."""
    rows = view.all(
        "SELECT number, vector FROM meaning"
        f" WHERE kind = ? AND number IN ({marks(numbers)}) AND model = ?",
        kind,
        *numbers,
        model,
    )
    return {number: np.frombuffer(vector, dtype=np.float16) for number, vector in rows}


_REFLECTION = "SELECT id, target_type, target, author, content, mood, created_at_us FROM reflection"


def reflections(view: View, space: int, numbers: Collection[int]) -> list[Reflection]:
    """Those of `numbers` that are in the space, in no particular order."""
    sql = f"{_REFLECTION} WHERE id IN ({marks(numbers)}) AND space = ?"
    return [Reflection(*row) for row in view.all(sql, *numbers, space)]


def reflections_of(
    view: View,
    space: int,
    author: str | None,
    mood: str | None,
    target_type: str | None,
    limit: int,
) -> list[int]:
    """Ids of the space's reflections that a filter lets pass, the newest first."""
    wanted = {"author": author, "mood": mood, "target_type": target_type}
    given = {name: value for name, value in wanted.items() if value is not None}
    where = "".join(f" AND {name} = ?" for name in given)
    rows = view.all(
        f"SELECT id FROM reflection WHERE space = ?{where} ORDER BY id DESC LIMIT ?",
        space,
        *given.values(),
        limit,
    )
    return [row[0] for row in rows]


def _describes(view: View, model: str) -> bool:
    return view.one("SELECT 1 FROM describer WHERE model = ?", model) is not None


# --- facts -------------------------------------------------------------------------------------


def to_describe(view: Writable, kind: str, number: int, space: int, moment: Moment) -> None:
    """Note that what every model said of it no longer holds."""
    view.run(
        "INSERT OR REPLACE INTO undescribed SELECT model, ?, ?, ?, ? FROM describer",
        kind,
        number,
        space,
        moment.call_offset,
    )


def forget_meaning(view: Writable, kind: str, number: int) -> None:
    view.run(
        "DELETE FROM undescribed WHERE model IN (SELECT model FROM describer)"
        " AND kind = ? AND number = ?",
        kind,
        number,
    )
    view.run("DELETE FROM meaning WHERE kind = ? AND number = ?", kind, number)


def _described(view: Writable, fact: EntityDescribed, moment: Moment, decision: Decision) -> None:
    _keep(view, ENTITY, fact.entity_id, fact.version, fact, decision, moment)


def _embedded(view: Writable, fact: ReflectionEmbedded, moment: Moment, decision: Decision) -> None:
    _keep(view, REFLECTION, fact.reflection_id, 1, fact, decision, moment)


def _reflected(view: Writable, fact: ReflectionAdded, moment: Moment, decision: Decision) -> None:
    view.take_id(REFLECTIONS)
    space = view.ensure_space(moment.space)
    view.run(
        "INSERT INTO reflection VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        fact.reflection_id,
        space,
        fact.target_type,
        fact.target_id,
        fact.author,
        fact.mood,
        fact.content,
        moment.at_us,
    )
    to_describe(view, REFLECTION, fact.reflection_id, space, moment)
    view.touched(f"reflection:{fact.reflection_id}", moment)
    if fact.target_id is not None:
        view.touched(f"{fact.target_type}:{fact.target_id}", moment)


def _keep(
    view: Writable,
    kind: str,
    number: int,
    version: int,
    fact: EntityDescribed | ReflectionEmbedded,
    decision: Decision,
    moment: Moment,
) -> None:
    known = _describes(view, fact.model)
    view.run("INSERT OR REPLACE INTO describer VALUES (?, ?)", fact.model, moment.call_offset)
    if not known:
        for each in (ENTITY, REFLECTION):
            view.run(
                f"INSERT INTO undescribed SELECT ?, ?, id, space, 0 FROM {each}", fact.model, each
            )
    view.run(
        "DELETE FROM undescribed WHERE model = ? AND kind = ? AND number = ?",
        fact.model,
        kind,
        number,
    )
    if fact.embedding is None:
        view.run(
            "DELETE FROM meaning WHERE kind = ? AND number = ? AND model = ?",
            kind,
            number,
            fact.model,
        )
    else:
        vector = decision.inputs[fact.embedding].vector
        view.run(
            "INSERT OR REPLACE INTO meaning VALUES (?, ?, ?, ?, ?)",
            kind,
            number,
            fact.model,
            version,
            vector,
        )


EVOLVE: dict[type[Fact], Evolve] = {
    EntityDescribed: _described,
    ReflectionAdded: _reflected,
    ReflectionEmbedded: _embedded,
}
