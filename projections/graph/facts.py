"""What the knowledge graph's facts do to its tables. What they do for the search by meaning is in
`meaning.py`."""

from __future__ import annotations

from itertools import combinations

from mnemolog.events.codec import Fact
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
from mnemolog.projections.graph.containing import index, unindex
from mnemolog.projections.graph.meaning import DESCRIBED, ENTITY
from mnemolog.projections.graph.state import ENTITIES, RELATIONS, named
from mnemolog.projections.projection import Evolve
from mnemolog.projections.state.view import Moment, Writable
from mnemolog.projections.times import DAY_US


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
    index(view, fact.entity_id, (fact.name, fact.entity_type))
    DESCRIBED.to_describe(view, ENTITY, fact.entity_id, space, moment)
    view.touched(f"entity:{fact.entity_id}", moment)
    view.touched(named(moment.space, fact.name), moment)


def _retyped(view: Writable, fact: EntityTypeChanged, moment: Moment, decision: Decision) -> None:
    (before,) = view.one("SELECT type FROM entity WHERE id = ?", fact.entity_id)
    unindex(view, fact.entity_id, (before,))
    index(view, fact.entity_id, (fact.entity_type,))
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
    index(view, fact.entity_id, fact.observations)
    _changed(view, fact.entity_id, moment)


def _unobserved(
    view: Writable, fact: ObservationsRemoved, moment: Moment, decision: Decision
) -> None:
    view.connection.executemany(
        "DELETE FROM observation WHERE entity = ? AND content = ?",
        [(fact.entity_id, content) for content in fact.observations],
    )
    unindex(view, fact.entity_id, fact.observations)
    _changed(view, fact.entity_id, moment)


def _split(view: Writable, fact: EntitySplit, moment: Moment, decision: Decision) -> None:
    """The facts beside it do the work; this one is part of each entity's life."""
    for number in (fact.entity_id, *(part.entity_id for part in fact.parts)):
        view.touched(f"entity:{number}", moment)


def _deleted(view: Writable, fact: EntityDeleted, moment: Moment, decision: Decision) -> None:
    unindex(view, fact.entity_id, (fact.name, fact.entity_type, *fact.observations))
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
    DESCRIBED.forget(view, ENTITY, number)
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
        f" access_days = access_days + (accessed_at_us / {DAY_US} < ? / {DAY_US}),"
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
    DESCRIBED.to_describe(view, ENTITY, number, space, moment)
    view.touched(f"entity:{number}", moment)


EVOLVE: dict[type[Fact], Evolve] = {
    EntityCreated: _created,
    EntityTypeChanged: _retyped,
    ObservationsAdded: _observed,
    ObservationsRemoved: _unobserved,
    EntitySplit: _split,
    EntityDeleted: _deleted,
    RelationCreated: _related,
    RelationEnded: _ended,
    RelationDeleted: _unrelated,
    EntitiesAccessed: _accessed,
    EntitiesCoOccurred: _together,
    GraphImported: _imported,
}
