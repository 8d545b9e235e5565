"""What each fact about the knowledge graph does to the state, the text index and the vectors. Those
that are for the search by meaning are in `test_meaning.py`."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mnemolog.events.codec import Fact, tag_of
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
    RelationKept,
    SplitPart,
)
from mnemolog.projections.graph import meaning, state, upkeep
from mnemolog.projections.graph.containing import containing
from mnemolog.projections.graph.meaning import ENTITY
from mnemolog.projections.graph.state import ENTITIES, RELATIONS, Entity, Relation, Used
from mnemolog.projections.ranking.limbic import Together, Use
from tests.spec.given import MODEL, NORTH, NOW_US, days
from tests.spec.given_graph import created, observed, related, searchable, stated
from tests.spec.projections.fed import Fed
from tests.spec.projections.test_meaning import ENTITIES_INDEX, SPACE, about, waiting
from tests.spec.projections.words import deleted, described, unsaid


def named(fed: Fed, name: str) -> Entity | None:
    return state.entity_named(fed.view, fed.view.space_id(SPACE), name)


def saying(fed: Fed, text: str, space: str = SPACE) -> list[int]:
    """The entities in which search_nodes finds the text."""
    searchable(fed.stores.state)
    return containing(fed.view, fed.space(space), text, 0, 100)


def use(fed: Fed, number: int) -> Use:
    return state.used(fed.view, fed.space(SPACE), [number])[number].use


def active(fed: Fed, ids: Collection[int]) -> list[int]:
    return [one.id for one in state.relations_of(fed.view, ids)]


@pytest.mark.parametrize("fact", about.facts, ids=tag_of)
def test_every_fact_has_a_spec(fact: type[Fact]) -> None:
    about.check(fact)


# --- EntityCreated, EntityTypeChanged ------------------------------------------------------------


@about(EntityCreated)
def test_an_entity_is_there_with_its_first_use(fed: Fed) -> None:
    fed.given(created(1, "Astro", "Tool", at_us=days(1)))
    astro = Entity(1, "Astro", "Tool", 1)
    assert named(fed, "Astro") == astro
    assert state.used(fed.view, fed.space(SPACE), [1]) == {1: Used(astro, Use(1, 1, days(1), 0))}
    assert state.page(fed.view, fed.space(SPACE), 0, 10) == [1]
    assert state.existing(fed.view, fed.space(SPACE), [1, 2]) == {1}
    assert upkeep.totals(fed.view, fed.space(SPACE)) == (1, 0)
    assert fed.view.peek_id(ENTITIES) == 2
    assert fed.view.touching("entity:1") == {fed.last}
    assert fed.view.touching(state.named(SPACE, "Astro")) == {fed.last}


@about(EntityCreated)
def test_an_entity_is_found_by_name_and_type_in_its_own_graph(fed: Fed) -> None:
    fed.given(
        created(1, "Astro", "Tool"), created(2, "Hammer", "tool"), created(3, "Astro", tenant="b")
    )
    assert saying(fed, "astro") == [1]
    assert saying(fed, "TOOL") == [1, 2]
    assert saying(fed, "astro", "b/graph") == [3]
    # Until it is described, the index of words does not know it.
    assert fed.by_words("Astro", ENTITIES_INDEX) == []
    assert waiting(fed) == [(ENTITY, 3), (ENTITY, 2), (ENTITY, 1)]


@about(EntityTypeChanged)
def test_another_type_replaces_the_one_before(fed: Fed) -> None:
    fed.given(created(1, "Tool", "Tool"), described(1, "Tool (Tool)"))
    fed.given(stated(EntityTypeChanged(entity_id=1, entity_type="Framework"), at_us=days(1)))
    assert named(fed, "Tool") == Entity(1, "Tool", "Framework", 2)
    assert saying(fed, "framework") == [1]
    assert saying(fed, "tool") == [1]  # By its name, which is still that.
    assert [text for _, text in searchable(fed.stores.state)] == ["framework", "tool"]
    assert waiting(fed) == [(ENTITY, 1)]
    assert use(fed, 1) == Use(1, 1, NOW_US, 0)
    assert fed.view.touching("entity:1") == {0, fed.last}


# --- ObservationsAdded, ObservationsRemoved ------------------------------------------------------


@about(ObservationsAdded)
def test_observations_are_kept_in_their_order_and_found(fed: Fed) -> None:
    fed.given(created(1, "Astro"), described(1, "Astro"))
    fed.given(observed(1, "has islands", "is fast"), observed(1, "is quick", flagged=[0]))
    assert state.observations(fed.view, 1) == ["has islands", "is fast", "is quick"]
    assert state.observation_count(fed.view, 1) == 3
    assert state.observed_characters(fed.view, [1]) == {1: 26}
    assert upkeep.flagged(fed.view, fed.space(SPACE), 10) == (1, [("Astro", "is quick")])
    assert upkeep.totals(fed.view, fed.space(SPACE)) == (1, 3)
    assert named(fed, "Astro") == Entity(1, "Astro", "Generic", 3)
    assert saying(fed, "island") == saying(fed, "quick") == [1]
    assert waiting(fed) == [(ENTITY, 1)]
    assert fed.view.touching("entity:1") == {0, 2, 3}
    assert fed.by_words("islands", ENTITIES_INDEX) == []


@about(ObservationsAdded)
def test_an_entity_of_which_much_is_said_is_too_large(fed: Fed) -> None:
    fed.given(created(1, "Day", "Sesión"), observed(1, *(f"fact {n}" for n in range(15))))
    assert upkeep.too_large(fed.view, fed.space(SPACE)) == []
    fed.given(observed(1, "one more"))
    assert [one.id for one in upkeep.too_large(fed.view, fed.space(SPACE))] == [1]


@about(ObservationsRemoved)
def test_what_is_no_longer_said_is_not_found(fed: Fed) -> None:
    fed.given(
        created(1, "Astro"),
        observed(1, "has islands", "is fast", "is quick", flagged=[2]),
        described(1, "Astro: has islands, is fast"),
        unsaid(1, "has islands", "is quick", at_us=days(1)),
    )
    assert state.observations(fed.view, 1) == ["is fast"]
    assert saying(fed, "islands") == saying(fed, "quick") == []
    assert saying(fed, "fast") == [1]
    assert upkeep.flagged(fed.view, fed.space(SPACE), 10) == (0, [])
    assert named(fed, "Astro") == Entity(1, "Astro", "Generic", 3)
    assert waiting(fed) == [(ENTITY, 1)]
    assert fed.view.touching("entity:1") == {0, 1, fed.last}
    # How it was described is found until it is described anew.
    assert fed.by_words("islands", ENTITIES_INDEX) == [1]
    fed.given(observed(1, "has islands"))
    assert state.observations(fed.view, 1) == ["is fast", "has islands"]


# --- EntitySplit, GraphImported ------------------------------------------------------------------


@about(EntitySplit)
def test_a_split_is_part_of_every_life_and_does_no_more(fed: Fed) -> None:
    fed.given(created(1, "Astro"), created(2, "Speed"), created(3, "Islands"))
    parts = [SplitPart(2, "Speed", 1), SplitPart(3, "Islands", 2)]
    split = EntitySplit(entity_id=1, name="Astro", parts=parts, parent_id=1)
    assert fed.changed_by(stated(split)) == {"state/audit"}
    assert all(fed.view.touching(f"entity:{n}") == {n - 1, fed.last} for n in (1, 2, 3))


@about(EntitySplit)
def test_the_facts_beside_a_split_move_what_was_said(fed: Fed) -> None:
    split = EntitySplit(entity_id=1, name="Astro", parts=[SplitPart(2, "Speed", 1)], parent_id=1)
    fed.given(
        (created(1, "Astro"), observed(1, "is fast", "has islands")),
        (
            stated(split),
            created(2, "Speed"),
            unsaid(1, "is fast"),
            observed(2, "is fast"),
            related(1, 1, "contains", 2),
        ),
    )
    assert state.observations_of(fed.view, [1, 2]) == {1: ["has islands"], 2: ["is fast"]}
    assert saying(fed, "fast") == [2]
    assert active(fed, [2]) == [1]


@about(GraphImported)
def test_the_end_of_an_import_changes_nothing(fed: Fed) -> None:
    fact = GraphImported(sha256="3385dd26", source="memory.jsonl", entities=2, relations=1)
    assert fed.given(created(1, "Astro")).changed_by(stated(fact)) == set()


# --- EntityDeleted -------------------------------------------------------------------------------


@about(EntityDeleted)
def test_a_deleted_entity_takes_everything_with_it(fed: Fed) -> None:
    fed.given(
        created(1, "Astro", "Tool"),
        observed(1, "has islands"),
        created(2, "Vercel"),
        created(3, "Hugo", "Tool"),
        related(1, 1, "runs on", 2),
        related(2, 3, "replaces", 1),
        related(3, 3, "runs on", 2),
        described(1, "Astro (Tool): has islands", version=2),
        described(1, "Astro (Tool): has islands", version=2, model="other"),
        stated(EntitiesCoOccurred(entity_ids=[1, 2, 3])),
    )
    lost = RelationKept(1, "Astro", "Vercel", "runs on"), RelationKept(2, "Hugo", "Astro", "re…")
    fed.given(deleted(1, "Astro", "Tool", said=("has islands",), relations=lost))
    view = fed.view
    assert named(fed, "Astro") is None
    assert state.observations(view, 1) == []
    assert [one.id for one in state.relations_of(view, [1, 2, 3], ended=True)] == [3]
    assert [n for n in (1, 2, 3) if state.has_relation(view, fed.space(SPACE), n)] == [3]
    assert state.together(view, [1, 2, 3]) == [Together(2, 3, 1, NOW_US)]
    assert saying(fed, "astro") == saying(fed, "islands") == []
    assert saying(fed, "tool") == [3]
    assert fed.by_words("Astro", ENTITIES_INDEX) == []
    assert fed.by_meaning(NORTH, ENTITIES_INDEX) == []
    assert meaning.DESCRIBED.meanings(view, MODEL.name, ENTITY, [1]) == {}
    assert meaning.DESCRIBED.meanings(view, "other", ENTITY, [1]) == {}
    assert (view.peek_id(ENTITIES), view.peek_id(RELATIONS)) == (4, 4)
    assert fed.last in view.touching("entity:1") & view.touching("relation:2")
    assert fed.last in view.touching("relation:1") - view.touching("relation:3")


@about(EntityDeleted)
def test_what_is_deleted_does_not_wait_to_be_described(fed: Fed) -> None:
    fed.given(created(1, "Astro"), created(2, "Hugo"), described(2, "Hugo"))
    assert waiting(fed) == [(ENTITY, 1)]
    fed.given(deleted(1, "Astro"))
    assert waiting(fed) == []
    fed.given(created(3, "Astro"))
    assert named(fed, "Astro") == Entity(3, "Astro", "Generic", 1)


# --- RelationCreated, RelationEnded, RelationDeleted ---------------------------------------------


@about(RelationCreated)
def test_a_relation_holds_from_its_creation(fed: Fed) -> None:
    fed.given(created(1, "Astro"), created(2, "Vercel"), related(1, 1, "uses", 2, at_us=days(1)))
    uses = Relation(1, 1, 2, "Astro", "Vercel", "uses", days(1), None)
    assert state.relation(fed.view, 1) == (uses, SPACE)
    assert state.active_relation(fed.view, 1, 2, "uses") == uses
    assert state.active_relation(fed.view, 2, 1, "uses") is None
    assert state.relations_of(fed.view, [2]) == [uses]
    assert state.relations_page(fed.view, fed.space(SPACE), 0, 2, 10) == [uses]
    assert state.has_relation(fed.view, fed.space(SPACE), 1)
    assert (use(fed, 1).degree, use(fed, 2).degree) == (1, 1)
    assert fed.view.peek_id(RELATIONS) == 2
    for subject in ("relation:1", "entity:1", "entity:2"):
        assert fed.last in fed.view.touching(subject)
    assert named(fed, "Astro") == Entity(1, "Astro", "Generic", 1)
    assert waiting(fed) == [(ENTITY, 2), (ENTITY, 1)]


@about(RelationEnded)
def test_an_ended_relation_is_history(fed: Fed) -> None:
    fed.given(created(1, "Astro"), created(2, "Vercel"), related(1, 1, "uses", 2))
    end = stated(RelationEnded(relation_id=1), at_us=days(2))
    assert fed.changed_by(end) == {"state/relation", "state/audit"}
    ended = Relation(1, 1, 2, "Astro", "Vercel", "uses", NOW_US, days(2))
    assert state.relation(fed.view, 1) == (ended, SPACE)
    assert state.active_relation(fed.view, 1, 2, "uses") is None
    assert active(fed, [1]) == []
    assert state.relations_of(fed.view, [1], ended=True) == [ended]
    assert state.left_out(fed.view, fed.space(SPACE)) == (1, 0)
    assert use(fed, 1).degree == 0
    assert fed.view.touching("relation:1") == {2, fed.last}
    fed.given(related(2, 1, "uses", 2))
    assert active(fed, [1]) == [2]


@about(RelationDeleted)
def test_a_deleted_relation_was_never_right(fed: Fed) -> None:
    fed.given(
        created(1, "Astro"),
        created(2, "Vercel"),
        related(1, 1, "uses", 2),
        related(2, 1, "likes", 2),
    )
    fact = RelationDeleted(relation=RelationKept(1, "Astro", "Vercel", "uses"))
    assert fed.changed_by(stated(fact)) == {"state/relation", "state/audit"}
    assert state.relation(fed.view, 1) is None
    assert [one.id for one in state.relations_of(fed.view, [1], ended=True)] == [2]
    assert fed.view.peek_id(RELATIONS) == 3
    assert fed.view.touching("relation:1") == {2, fed.last}


# --- EntitiesAccessed, EntitiesCoOccurred --------------------------------------------------------


@about(EntitiesAccessed)
def test_an_access_is_counted_and_a_day_once(fed: Fed) -> None:
    fed.given(created(1, "Astro"), observed(1, "is fast"), created(2, "Hugo"), observed(2, "old"))
    access = [
        stated(EntitiesAccessed(entity_ids=[1]), at_us=at) for at in (days(1.1), days(1.6), days(2))
    ]
    assert fed.changed_by(*access) == {"state/entity"}
    assert use(fed, 1) == Use(4, 3, days(2), 0)
    assert use(fed, 2) == Use(1, 1, NOW_US, 0)
    count, idle = upkeep.stale(fed.view, fed.space(SPACE), days(10), 10)
    assert (count, [one.name for one in idle]) == (1, ["Hugo"])


@about(EntitiesCoOccurred)
def test_each_pair_was_together_once_more(fed: Fed) -> None:
    fed.given(*(created(n, f"E{n}") for n in (1, 2, 3)))
    pairs = [
        stated(EntitiesCoOccurred(entity_ids=[3, 1, 2])),
        stated(EntitiesCoOccurred(entity_ids=[2, 1]), at_us=days(1)),
    ]
    assert fed.changed_by(*pairs) == {"state/together"}
    assert state.together(fed.view, [1, 2, 3]) == [
        Together(1, 2, 2, days(1)),
        Together(1, 3, 1, NOW_US),
        Together(2, 3, 1, NOW_US),
    ]
