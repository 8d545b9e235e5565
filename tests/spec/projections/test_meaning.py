"""What the facts do that are for the search by meaning: descriptions of entities, reflections.

They are the knowledge graph's, as those in `test_graph.py`, which has to know all of them.
"""

from __future__ import annotations

from mnemolog.events.graph import LANGUAGE, EntityDescribed, ReflectionAdded, ReflectionEmbedded
from mnemolog.projections.described import index_space
from mnemolog.projections.graph import meaning, state
from mnemolog.projections.graph.meaning import ENTITY, REFLECTION, Reflection
from mnemolog.projections.ports import Waiting
from tests.spec.given import MODEL, NORTH, days
from tests.spec.given_graph import created, observed
from tests.spec.projections.fed import Fed, Specs
from tests.spec.projections.words import EAST, described, reflected, reflection_embedded

SPACE = "default/graph"
ENTITIES_INDEX = index_space(SPACE, ENTITY)
REFLECTIONS_INDEX = index_space(SPACE, REFLECTION)
about = Specs(LANGUAGE)


def waiting(fed: Fed, model: str = MODEL.name) -> list[tuple[str, int]]:
    """What the model has to describe."""
    found = meaning.DESCRIBED.waiting(fed.view, model, 100)
    assert meaning.DESCRIBED.count(fed.view, model) == len(found)
    return [(one.kind, one.number) for one in found]


# --- EntityDescribed -----------------------------------------------------------------------------


@about(EntityDescribed)
def test_a_described_entity_is_found_by_words_and_meaning(fed: Fed) -> None:
    fed.given(created(1, "Astro"), created(2, "Hugo"))
    assert not meaning.DESCRIBED.is_described(fed.view, MODEL.name, ENTITY, 1)
    fed.given(described(1, "Astro has islands", version=7))
    assert fed.by_words("islands", ENTITIES_INDEX) == [1]
    assert fed.by_meaning(NORTH, ENTITIES_INDEX) == [(1, 7)]
    assert fed.by_words("islands", SPACE) == fed.by_words("islands", REFLECTIONS_INDEX) == []
    kept = meaning.DESCRIBED.meanings(fed.view, MODEL.name, ENTITY, [1, 2])
    assert {number: vector.tobytes() for number, vector in kept.items()} == {1: NORTH}
    assert meaning.DESCRIBED.is_described(fed.view, MODEL.name, ENTITY, 1)
    assert waiting(fed) == [(ENTITY, 2)]
    assert meaning.DESCRIBED.waits_since(fed.view, MODEL.name, Waiting(ENTITY, 2, SPACE, 0))
    assert meaning.DESCRIBED.count(fed.view, MODEL.name, SPACE, ENTITY) == 1
    assert meaning.DESCRIBED.last(fed.view, MODEL.name) == fed.last
    assert fed.view.touching("entity:1") == {0}


@about(EntityDescribed)
def test_a_new_description_takes_the_place_of_the_old_one(fed: Fed) -> None:
    fed.given(created(1, "Astro"), described(1, "has islands"), observed(1, "is fast"))
    fed.given(described(1, "is fast", version=2, vector=EAST))
    assert fed.by_words("islands", ENTITIES_INDEX) == []
    assert fed.by_words("fast", ENTITIES_INDEX) == [1]
    assert fed.by_meaning(NORTH, ENTITIES_INDEX) == []
    assert fed.by_meaning(EAST, ENTITIES_INDEX) == [(1, 2)]
    assert meaning.DESCRIBED.last(fed.view, MODEL.name) == fed.last
    assert waiting(fed) == []


@about(EntityDescribed)
def test_what_a_model_does_not_cover_is_found_by_words_alone(fed: Fed) -> None:
    fed.given(created(1, "Astro"), described(1, "has islands"))
    fed.given(described(1, "部署在 islands", version=2, vector=None))
    assert fed.by_words("islands", ENTITIES_INDEX) == [1]
    assert fed.by_meaning(NORTH, ENTITIES_INDEX) == []
    assert meaning.DESCRIBED.meanings(fed.view, MODEL.name, ENTITY, [1]) == {}
    assert waiting(fed) == []


@about(EntityDescribed)
def test_each_model_describes_for_itself(fed: Fed) -> None:
    fed.given(created(1, "Astro"), created(2, "Hugo"), described(1, "Astro"))
    fed.given(described(2, "Hugo", model="other", vector=EAST))
    assert (waiting(fed), waiting(fed, "other")) == ([(ENTITY, 2)], [(ENTITY, 1)])
    assert fed.by_meaning(EAST, ENTITIES_INDEX) == []
    assert list(meaning.DESCRIBED.meanings(fed.view, "other", ENTITY, [1, 2])) == [2]
    assert fed.by_words("Hugo", ENTITIES_INDEX) == [2]
    fed.given(observed(1, "is fast"))
    assert waiting(fed) == [(ENTITY, 1), (ENTITY, 2)]
    assert waiting(fed, "third") == [(ENTITY, 2), (ENTITY, 1)]
    assert waiting(fed, "other") == [(ENTITY, 1)]


# --- ReflectionAdded, ReflectionEmbedded ---------------------------------------------------------


@about(ReflectionAdded)
def test_a_reflection_is_found_by_words_at_once(fed: Fed) -> None:
    fed.given(created(1, "Astro"), described(1, "Astro"))
    fed.given(reflected(1, "all is flux", target=1, mood="insight", at_us=days(1)))
    fed.given(reflected(2, "so it is", author="ana"))
    kept = Reflection(1, "entity", 1, "nolan", "all is flux", "insight", days(1))
    place = fed.space(SPACE)
    assert meaning.reflections(fed.view, place, [1]) == [kept]
    assert meaning.reflections_of(fed.view, place, None, None, None, 10) == [2, 1]
    assert meaning.reflections_of(fed.view, place, "ana", None, "global", 10) == [2]
    assert meaning.reflections_of(fed.view, place, None, "insight", "entity", 10) == [1]
    assert state.left_out(fed.view, place) == (0, 2)
    assert fed.by_words("flux", REFLECTIONS_INDEX) == [1]
    assert fed.by_words("flux", ENTITIES_INDEX) == []
    assert waiting(fed) == [(REFLECTION, 2), (REFLECTION, 1)]
    assert fed.view.peek_id(meaning.REFLECTIONS) == 3
    assert fed.view.touching("reflection:1") == {2}
    assert fed.view.touching("entity:1") == {0, 2}


@about(ReflectionEmbedded)
def test_an_embedded_reflection_is_found_by_meaning(fed: Fed) -> None:
    fed.given(reflected(1, "all is flux"), reflected(2, "so it is"))
    assert fed.changed_by(reflection_embedded(1)) == {
        "state/describer",
        "state/meaning",
        "state/undescribed",
        f"vectors/{REFLECTIONS_INDEX}",
    }
    assert fed.by_meaning(NORTH, REFLECTIONS_INDEX) == [(1, 1)]
    assert list(meaning.DESCRIBED.meanings(fed.view, MODEL.name, REFLECTION, [1, 2])) == [1]
    assert meaning.DESCRIBED.is_described(fed.view, MODEL.name, REFLECTION, 1)
    assert waiting(fed) == [(REFLECTION, 2)]
    fed.given(reflection_embedded(2, vector=None), reflection_embedded(2, model="other"))
    assert fed.by_meaning(NORTH, REFLECTIONS_INDEX) == [(1, 1)]
    assert (waiting(fed), waiting(fed, "other")) == ([], [(REFLECTION, 1)])
