"""What of the knowledge graph is described for a search by meaning, and its reflections."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

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
from mnemolog.projections.described import Described
from mnemolog.projections.projection import Evolve
from mnemolog.projections.state.view import Moment, View, Writable, marks

ENTITY = "entity"
REFLECTION = "reflection"
REFLECTIONS = "reflection"
"""The counter of reflections' ids."""

DESCRIBED = Described("", {ENTITY: "entity", REFLECTION: "reflection"})
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


# --- questions ---------------------------------------------------------------------------------


_REFLECTION = "SELECT id, target_type, target, author, content, mood, created_at_us FROM reflection"


def reflections(view: View, space: int, numbers: Collection[int]) -> list[Reflection]:
    """Those of `numbers` that are in the space, in no particular order."""
    # The plus keeps SQLite from going through an index of the space, all of it.
    sql = f"{_REFLECTION} WHERE id IN ({marks(numbers)}) AND +space = ?"
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


# --- facts -------------------------------------------------------------------------------------


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
    DESCRIBED.to_describe(view, REFLECTION, fact.reflection_id, space, moment)
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
    vector = None if fact.embedding is None else decision.inputs[fact.embedding].vector
    DESCRIBED.keep(view, kind, number, version, fact.model, vector, moment)


EVOLVE: dict[type[Fact], Evolve] = {
    EntityDescribed: _described,
    ReflectionAdded: _reflected,
    ReflectionEmbedded: _embedded,
}
