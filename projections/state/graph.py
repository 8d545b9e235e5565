"""The knowledge graph's part of the state: what its facts do, and what may be asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import combinations
from random import Random

import msgspec

from mnemolog.events.arguments import TooMuch
from mnemolog.events.envelope import Decision
from mnemolog.events.graph import (
    EntitiesAccessed,
    EntitiesCoOccurred,
    EntityCreated,
    EntityDeleted,
    EntitySplit,
    EntityTypeChanged,
    GraphImported,
    ObservationsAdded,
    ObservationsRemoved,
    RelationCreated,
    RelationDeleted,
    RelationEnded,
)
from mnemolog.projections.language.characters import fold, strip_accents
from mnemolog.projections.limbic import DEGREE_CAP, Together, Use
from mnemolog.projections.state.meaning import ENTITY, forget_meaning, to_describe
from mnemolog.projections.state.store import Moment, Sample, View, Writable, evolves, marks

ENTITIES = "entity"
RELATIONS = "relation"
MAX_ANSWER_CHARACTERS = 8_000_000
"""What entities say, in an answer that has no pages."""
_DAY_US = 86_400_000_000
_TRIGRAM = 3
_LOOKED_UP = 2
"""So many trigrams are looked up together: more of them narrow little and cost more."""
_SAMPLE = 500
"""So many texts, drawn at random, tell how common a trigram is."""
_COMMON = 10
"""What so many of those contain is common."""
_LOOKED_AT = 100


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
    return f"{tenant}/graph"


def named(space: str, name: str) -> str:
    """The audit index's subject for a name: it leads to every entity that ever had it."""
    return f"name:{space}:{name}"


def folded(text: str) -> str:
    """The form in which names and observations are searched: case and accents do not count."""
    # SQLite's text index ends a text at its first NUL.
    return strip_accents(fold(text)).replace("\0", "\ufffd")


# --- questions ---------------------------------------------------------------------------------


def entity_named(view: View, space: int | None, name: str) -> Entity | None:
    if space is None:
        return None
    row = view.one(
        "SELECT id, name, type, version FROM entity WHERE space = ? AND name = ?", space, name
    )
    return None if row is None else Entity(*row)


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
    """`TooMuch` when the entities say more than an answer may hold."""
    said = sum(observed_characters(view, ids).values())
    if said > MAX_ANSWER_CHARACTERS:
        raise TooMuch(
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
        f" WHERE id IN ({marks(ids)}) AND space = ?",
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


def containing(view: View, space: int, text: str, after: int, limit: int) -> list[int]:
    """Ids past `after` of entities whose name, type or an observation contains `text`.

    An index of trigrams tells which texts may contain it: those that have its most telling ones.
    What many texts contain, and what is shorter than three characters, is looked for in one entity
    after the other until there are enough.
    """
    if not text.strip():
        return page(view, space, after, limit)
    wanted = folded(text)
    if not wanted:  # Nothing but what cannot be seen: it is in every text, and says nothing.
        return []
    sample = _sampled(view)
    telling = _telling(sample, wanted)
    if not telling or _is_common(sample, wanted, telling[0]):
        rows = view.all(
            "SELECT id FROM entity WHERE space = ? AND id > ? AND EXISTS (SELECT 1 FROM node"
            " WHERE node.entity = entity.id AND instr(content, ?)) ORDER BY id LIMIT ?",
            space,
            after,
            wanted,
            limit,
        )
    else:
        # CROSS: the hits come first. Left to choose, SQLite goes through every entity.
        rows = view.all(
            "SELECT DISTINCT entity.id FROM node_text CROSS JOIN node ON node.id = node_text.rowid"
            " CROSS JOIN entity ON entity.id = node.entity WHERE node_text MATCH ?"
            " AND instr(node.content, ?) AND entity.space = ? AND entity.id > ?"
            " ORDER BY entity.id LIMIT ?",
            " AND ".join(map(_quoted, telling)),
            wanted,
            space,
            after,
            limit,
        )
    return [row[0] for row in rows]


def _is_common(sample: Sample, wanted: str, rarest: str) -> bool:
    """Whether so many texts should contain it that its index would bring too many of them."""
    if sample.seen[rarest] < _COMMON:
        return False
    return sum(wanted in text for text in sample.texts) >= _COMMON


def _telling(sample: Sample, wanted: str) -> list[str]:
    """The trigrams of a text that the fewest others should have, the rarest first; none overlaps
    another."""
    seen = sample.seen
    places = range(min(len(wanted) - _TRIGRAM + 1, _LOOKED_AT))
    chosen: list[int] = []
    for place in sorted(places, key=lambda i: seen[wanted[i : i + _TRIGRAM]]):
        if all(abs(place - other) >= _TRIGRAM for other in chosen):
            chosen.append(place)
            if len(chosen) == _LOOKED_UP:
                break
    return [wanted[i : i + _TRIGRAM] for i in chosen]


def _sampled(view: View) -> Sample:
    """Some of the texts, and how many of them have a trigram; drawn anew when the graph has
    doubled.

    Counting in the index would be exact, and takes longer than the search itself.
    """
    sample = view.sample
    last = view.one("SELECT max(id) FROM node")[0] or 0
    if last > 2 * sample.drawn_from:
        drawn = Random(last).sample(range(1, last + 1), min(_SAMPLE, last))
        rows = view.all(f"SELECT content FROM node WHERE id IN ({marks(drawn)})", *drawn)
        seen: Counter[str] = Counter()
        for (text,) in rows:
            seen.update({text[i : i + _TRIGRAM] for i in range(len(text) - _TRIGRAM + 1)})
        sample.drawn_from, sample.seen, sample.texts = last, seen, [row[0] for row in rows]
    return sample


def _quoted(gram: str) -> str:
    return '"' + gram.replace('"', '""') + '"'


# --- facts -------------------------------------------------------------------------------------


def _created(view: Writable, fact: EntityCreated, moment: Moment, decision: Decision) -> None:
    view.take_id(ENTITIES)
    space = view.ensure_space(moment.space)
    view.run(
        "INSERT INTO entity VALUES (?, ?, ?, ?, 1, ?, ?, ?, 1, 1)",
        fact.entity_id,
        space,
        fact.name,
        fact.entity_type,
        moment.at_us,
        moment.at_us,
        moment.at_us,
    )
    _index(view, fact.entity_id, (fact.name, fact.entity_type))
    to_describe(view, ENTITY, fact.entity_id, space, moment)
    view.touched(f"entity:{fact.entity_id}", moment)
    view.touched(named(moment.space, fact.name), moment)


def _retyped(view: Writable, fact: EntityTypeChanged, moment: Moment, decision: Decision) -> None:
    (before,) = view.one("SELECT type FROM entity WHERE id = ?", fact.entity_id)
    _unindex(view, fact.entity_id, (before,))
    _index(view, fact.entity_id, (fact.entity_type,))
    view.run("UPDATE entity SET type = ? WHERE id = ?", fact.entity_type, fact.entity_id)
    _changed(view, fact.entity_id, moment)


def _observed(view: Writable, fact: ObservationsAdded, moment: Moment, decision: Decision) -> None:
    (last,) = view.one("SELECT max(place) FROM observation WHERE entity = ?", fact.entity_id)
    view.connection.executemany(
        "INSERT INTO observation VALUES (?, ?, ?, ?, ?)",
        [
            (fact.entity_id, (last or 0) + 1 + i, content, moment.at_us, i in fact.flagged)
            for i, content in enumerate(fact.observations)
        ],
    )
    _index(view, fact.entity_id, fact.observations)
    _changed(view, fact.entity_id, moment)


def _unobserved(
    view: Writable, fact: ObservationsRemoved, moment: Moment, decision: Decision
) -> None:
    view.connection.executemany(
        "DELETE FROM observation WHERE entity = ? AND content = ?",
        [(fact.entity_id, content) for content in fact.observations],
    )
    _unindex(view, fact.entity_id, fact.observations)
    _changed(view, fact.entity_id, moment)


def _split(view: Writable, fact: EntitySplit, moment: Moment, decision: Decision) -> None:
    """The facts beside it do the work; this one is part of each entity's life."""
    for number in (fact.entity_id, *(part.entity_id for part in fact.parts)):
        view.touched(f"entity:{number}", moment)


def _deleted(view: Writable, fact: EntityDeleted, moment: Moment, decision: Decision) -> None:
    _unindex(view, fact.entity_id, (fact.name, fact.entity_type, *fact.observations))
    number = fact.entity_id
    for sql in (
        "DELETE FROM observation WHERE entity = ?",
        "DELETE FROM relation WHERE source = ?",
        "DELETE FROM relation WHERE target = ?",
        "DELETE FROM together WHERE first = ?",
        "DELETE FROM together WHERE second = ?",
        "DELETE FROM entity WHERE id = ?",
    ):
        view.run(sql, number)
    forget_meaning(view, ENTITY, number)
    view.touched(f"entity:{number}", moment)
    for one in fact.relations:
        view.touched(f"relation:{one.relation_id}", moment)


def _related(view: Writable, fact: RelationCreated, moment: Moment, decision: Decision) -> None:
    view.take_id(RELATIONS)
    view.run(
        "INSERT INTO relation VALUES (?, ?, ?, ?, ?, ?, NULL)",
        fact.relation_id,
        view.ensure_space(moment.space),
        fact.source_id,
        fact.target_id,
        fact.relation_type,
        moment.at_us,
    )
    for subject in (f"relation:{fact.relation_id}", f"entity:{fact.source_id}"):
        view.touched(subject, moment)
    view.touched(f"entity:{fact.target_id}", moment)


def _ended(view: Writable, fact: RelationEnded, moment: Moment, decision: Decision) -> None:
    view.run("UPDATE relation SET ended_at_us = ? WHERE id = ?", moment.at_us, fact.relation_id)
    view.touched(f"relation:{fact.relation_id}", moment)


def _unrelated(view: Writable, fact: RelationDeleted, moment: Moment, decision: Decision) -> None:
    view.run("DELETE FROM relation WHERE id = ?", fact.relation.relation_id)
    view.touched(f"relation:{fact.relation.relation_id}", moment)


def _accessed(view: Writable, fact: EntitiesAccessed, moment: Moment, decision: Decision) -> None:
    view.connection.executemany(
        "UPDATE entity SET access_count = access_count + 1,"
        f" access_days = access_days + (accessed_at_us / {_DAY_US} < ? / {_DAY_US}),"
        " accessed_at_us = ? WHERE id = ?",
        [(moment.at_us, moment.at_us, number) for number in fact.entity_ids],
    )


def _together(view: Writable, fact: EntitiesCoOccurred, moment: Moment, decision: Decision) -> None:
    view.connection.executemany(
        "INSERT INTO together VALUES (?, ?, 1, ?)"
        " ON CONFLICT DO UPDATE SET times = times + 1, at_us = excluded.at_us",
        [(*pair, moment.at_us) for pair in combinations(sorted(fact.entity_ids), 2)],
    )


def _imported(view: Writable, fact: GraphImported, moment: Moment, decision: Decision) -> None:
    """Its chunks brought everything; this says that it was all."""


def _changed(view: Writable, number: int, moment: Moment) -> None:
    view.run(
        "UPDATE entity SET version = version + 1, updated_at_us = ? WHERE id = ?",
        moment.at_us,
        number,
    )
    (space,) = view.one("SELECT space FROM entity WHERE id = ?", number)
    to_describe(view, ENTITY, number, space, moment)
    view.touched(f"entity:{number}", moment)


def _index(view: Writable, number: int, texts: Iterable[str]) -> None:
    for text in texts:
        content = folded(text)
        row = view.run("INSERT INTO node (entity, content) VALUES (?, ?)", number, content)
        view.run("INSERT INTO node_text (rowid, content) VALUES (?, ?)", row.lastrowid, content)


def _unindex(view: Writable, number: int, texts: Iterable[str]) -> None:
    for text in texts:
        row = view.one(
            "SELECT id FROM node WHERE entity = ? AND content = ? LIMIT 1", number, folded(text)
        )
        if row is not None:
            view.run("DELETE FROM node WHERE id = ?", row[0])
            view.run("DELETE FROM node_text WHERE rowid = ?", row[0])


evolves(EntityCreated, _created)
evolves(EntityTypeChanged, _retyped)
evolves(ObservationsAdded, _observed)
evolves(ObservationsRemoved, _unobserved)
evolves(EntitySplit, _split)
evolves(EntityDeleted, _deleted)
evolves(RelationCreated, _related)
evolves(RelationEnded, _ended)
evolves(RelationDeleted, _unrelated)
evolves(EntitiesAccessed, _accessed)
evolves(EntitiesCoOccurred, _together)
evolves(GraphImported, _imported)
