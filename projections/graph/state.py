"""The knowledge graph's part of the state: what deciding and answering may ask."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.events.ids import space_of
from mnemolog.projections.ranking.limbic import DEGREE_CAP, Together, Use
from mnemolog.projections.state.view import LAST, View, marks

ENTITIES = "entity"
RELATIONS = "relation"
MAX_ANSWER_CHARACTERS = 8_000_000
"""What entities say, in an answer that has no pages."""


class Entity(msgspec.Struct, frozen=True):
    id: int
    name: str
    type: str
    version: int = 1


class Used(msgspec.Struct, frozen=True):
    """An entity, and how it has been used."""

    entity: Entity
    use: Use


class Relation(msgspec.Struct, frozen=True):
    id: int
    source_id: int
    target_id: int
    source: str
    target: str
    type: str
    created_at_us: int
    ended_at_us: int | None


def graph_space(tenant: str) -> str:
    """The space that holds a tenant's knowledge graph."""
    return space_of(tenant, "graph")


def named(space: str, name: str) -> str:
    """The audit index's subject for a name: it leads to every entity that ever had it."""
    return f"name:{space}:{name}"


# --- questions ---------------------------------------------------------------------------------


def entity_named(view: View, space: int | None, name: str) -> Entity | None:
    if space is None:
        return None
    row = view.one(
        "SELECT id, name, type, version FROM entity WHERE space = ? AND name = ?", space, name
    )
    return None if row is None else Entity(*row)


def entity_names(view: View, tenant: str, start: str, limit: int) -> list[str]:
    """The first so many names that begin with `start`."""
    rows = view.all(
        "SELECT name FROM entity WHERE space = ? AND name >= ? AND name < ? ORDER BY name LIMIT ?",
        view.space_id(graph_space(tenant)),
        start,
        start + LAST,
        limit,
    )
    return [name for (name,) in rows]


def existing(view: View, space: int | None, ids: Collection[int]) -> set[int]:
    """Those of `ids` that are entities of the space."""
    return {
        number
        for number in ids
        if view.one("SELECT 1 FROM entity WHERE id = ? AND space = ?", number, space) is not None
    }


def entities(view: View, ids: Collection[int]) -> list[Entity]:
    sql = f"SELECT id, name, type, version FROM entity WHERE id IN ({marks(ids)}) ORDER BY id"
    return [Entity(*row) for row in view.all(sql, *ids)]


def observations(view: View, entity: int) -> list[str]:
    """In the order they were added."""
    rows = view.all("SELECT content FROM observation WHERE entity = ? ORDER BY place", entity)
    return [row[0] for row in rows]


def observation_count(view: View, entity: int) -> int:
    return int(view.one("SELECT count(*) FROM observation WHERE entity = ?", entity)[0])


def observations_of(view: View, ids: Collection[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {number: [] for number in ids}
    sql = (
        f"SELECT entity, content FROM observation WHERE entity IN ({marks(ids)})"
        " ORDER BY entity, place"
    )
    for number, content in view.all(sql, *ids):
        found[number].append(content)
    return found


def observed_characters(view: View, ids: Collection[int]) -> dict[int, int]:
    """How long an entity's observations are together; what has none is left out."""
    sql = (
        "SELECT entity, sum(length(content)) FROM observation"
        f" WHERE entity IN ({marks(ids)}) GROUP BY entity"
    )
    return dict(view.all(sql, *ids))


def check_size(view: View, ids: Collection[int]) -> None:
    """`Refused` when the entities say more than an answer may hold."""
    said = sum(observed_characters(view, ids).values())
    if said > MAX_ANSWER_CHARACTERS:
        raise Refused(
            f"These {len(ids)} entities have {said:,} characters of observations; at most "
            f"{MAX_ANSWER_CHARACTERS:,} are given at a time: ask for fewer entities"
        )


_RELATION = (
    "SELECT relation.id, source, target, a.name, b.name, relation.type, relation.created_at_us,"
    " ended_at_us FROM relation JOIN entity a ON a.id = source JOIN entity b ON b.id = target"
)


def relation(view: View, number: int) -> tuple[Relation, str] | None:
    """The relation and the space it is in."""
    row = view.one(
        f"{_RELATION} WHERE relation.id = ?",
        number,
    )
    if row is None:
        return None
    space = view.one(
        "SELECT space.name FROM relation JOIN space ON space.id = relation.space"
        " WHERE relation.id = ?",
        number,
    )
    return Relation(*row), str(space[0])


def has_relation(view: View, space: int | None, number: int) -> bool:
    row = view.one("SELECT 1 FROM relation WHERE id = ? AND space = ?", number, space)
    return row is not None


def active_relation(view: View, source: int, target: int, kind: str) -> Relation | None:
    row = view.one(
        f"{_RELATION} WHERE source = ? AND target = ? AND relation.type = ?"
        " AND ended_at_us IS NULL",
        source,
        target,
        kind,
    )
    return None if row is None else Relation(*row)


def relations_of(view: View, ids: Collection[int], *, ended: bool = False) -> list[Relation]:
    """Those that touch one of `ids` at either end, oldest first."""
    either = marks(ids)
    active = "" if ended else " AND ended_at_us IS NULL"
    found = {
        row[0]: Relation(*row)
        for end in ("source", "target")
        for row in view.all(f"{_RELATION} WHERE {end} IN ({either}){active}", *ids)
    }
    return [found[number] for number in sorted(found)]


def relations_page(view: View, space: int, after: int, until: int, limit: int) -> list[Relation]:
    """Those that hold, past `after`, in order, between entities whose ids are at most `until`."""
    rows = view.all(
        f"{_RELATION} WHERE relation.id > ? AND relation.space = ? AND ended_at_us IS NULL"
        " AND source <= ? AND target <= ? ORDER BY relation.id LIMIT ?",
        after,
        space,
        until,
        until,
        limit,
    )
    return [Relation(*row) for row in rows]


def left_out(view: View, space: int) -> tuple[int, int]:
    """How many ended relations and reflections there are, which a memory file cannot hold."""
    ended = "SELECT count(*) FROM relation WHERE space = ? AND ended_at_us IS NOT NULL"
    reflections = "SELECT count(*) FROM reflection WHERE space = ?"
    return int(view.one(ended, space)[0]), int(view.one(reflections, space)[0])


def used(view: View, space: int, ids: Collection[int]) -> dict[int, Used]:
    """Those of `ids` that are in the space. Relations are counted as far as they matter."""
    rows = view.all(
        "SELECT id, name, type, version, access_count, access_days, accessed_at_us FROM entity"
        # The plus keeps SQLite from going through an index of the space, all of it.
        f" WHERE id IN ({marks(ids)}) AND +space = ?",
        *ids,
        space,
    )
    found = {}
    for number, name, kind, version, count, days, at_us in rows:
        use = Use(count, days, at_us, _degree(view, number))
        found[number] = Used(Entity(number, name, kind, version), use)
    return found


def _degree(view: View, number: int) -> int:
    """Active relations that touch the entity, counted up to the cap."""
    row = view.one(
        "SELECT count(*) FROM (SELECT 1 FROM relation WHERE source = ? AND ended_at_us IS NULL"
        " UNION ALL SELECT 1 FROM relation WHERE target = ? AND source <> target"
        f" AND ended_at_us IS NULL LIMIT {DEGREE_CAP})",
        number,
        number,
    )
    return int(row[0])


def together(view: View, ids: Collection[int]) -> list[Together]:
    """The pairs of `ids` that were returned together.

    Most entities have met few others: those are read and compared. For one that has met more than
    are asked about, each pair is looked up instead.
    """
    found: list[Together] = []
    wanted, sql = set(ids), "SELECT second, times, at_us FROM together WHERE first = ?"
    for number in sorted(wanted):
        met = view.all(f"{sql} LIMIT ?", number, len(wanted))
        if len(met) == len(wanted):
            met = view.all(f"{sql} AND second IN ({marks(wanted)})", number, *wanted)
        found += [Together(number, *row) for row in met if row[0] in wanted]
    return found


def page(view: View, space: int, after: int, limit: int) -> list[int]:
    """Ids of the space's entities past `after`, in order."""
    rows = view.all(
        "SELECT id FROM entity WHERE space = ? AND id > ? ORDER BY id LIMIT ?", space, after, limit
    )
    return [row[0] for row in rows]
