"""Whatever happens, in whatever order: the projections agree, however it is delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemolog.events.codec import Fact
from mnemolog.events.episodes import LANGUAGE as EPISODES
from mnemolog.events.graph import LANGUAGE as GRAPH
from mnemolog.events.graph import EntitySplit
from mnemolog.events.language import Language
from mnemolog.events.robot import LANGUAGE as ROBOT
from mnemolog.projections.described import index_space
from mnemolog.projections.episodes.state import DESCRIBED
from mnemolog.projections.graph import meaning
from mnemolog.projections.graph.meaning import ENTITY, REFLECTION
from mnemolog.projections.ports import PutText, PutVector, Remove
from mnemolog.projections.robot import state
from mnemolog.projections.state.store import PartitionState
from tests.families import PROJECTED
from tests.spec.given import MODEL, NORTH, Given, unit
from tests.spec.given_graph import searchable
from tests.spec.projections.fed import Log
from tests.spec.projections.sensible import (
    COLLECTIONS,
    EPISODE_STEPS,
    GRAPH_STEPS,
    MEMORY_STEPS,
    Step,
    episodes,
    graph,
    memories,
)

LIVES = st.one_of(MEMORY_STEPS.map(memories), GRAPH_STEPS.map(graph), EPISODE_STEPS.map(episodes))
DELIVERIES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30), st.booleans()), max_size=8)
"""So far back, so far on, and whether it is undone at the end."""


def fed(
    log: Log,
    steps: Sequence[tuple[int, int, bool]] = (),
    asked: Callable[[PartitionState], object] = lambda _: None,
) -> PartitionState:
    """A state that the log is delivered to in these steps, and then to the end; it is `asked` in
    each of them."""
    found = PartitionState(None, 0, 1, PROJECTED)
    for back, on, undone in [*steps, (0, len(log), False)]:
        reached = found.next_offset
        found.begin()
        for offset in range(max(0, reached - back), min(len(log), reached + on)):
            found.apply(offset, log.records[offset])
        asked(found)
        if undone:
            found.rollback()
        else:
            found.commit()
    return found


def texts(log: Log) -> dict[tuple[str, int], PutText]:
    """What an index of texts holds that was told everything."""
    held: dict[tuple[str, int], PutText] = {}
    for one in log.counted.values():
        for change in PROJECTED.text_changes(one.decision, one.facts):
            if isinstance(change, Remove):
                held.pop((change.space, change.id), None)
            else:
                held[change.space, change.id] = change
    return held


def vectors(log: Log, model: str = MODEL.name) -> dict[tuple[str, int], PutVector]:
    """As `texts`, for an index of a model's vectors."""
    held: dict[tuple[str, int], PutVector] = {}
    for one in log.counted.values():
        for change in PROJECTED.vector_changes(one.decision, one.facts, model):
            if isinstance(change, Remove):
                held.pop((change.space, change.id), None)
            else:
                held[change.space, change.id] = change
    return held


@settings(max_examples=150)
@given(LIVES, DELIVERIES)
def test_the_state_is_the_same_however_it_was_delivered(
    facts: list[Given], steps: list[tuple[int, int, bool]]
) -> None:
    log = Log().add(*facts)
    once, again = fed(log), fed(log, steps)
    assert again.digest() == once.digest()
    assert (again.head, again.next_offset) == (once.head, once.next_offset) == (log.head, len(log))


@settings(max_examples=100)
@given(MEMORY_STEPS, DELIVERIES)
def test_deciding_finds_the_same_memories_however_they_were_delivered(
    plan: list[Step], steps: list[tuple[int, int, bool]]
) -> None:
    """What a state keeps in memory of its vectors is what it has of them."""
    log = Log().add(*memories(plan))
    one_by_one = [(0, 1, False)] * len(log)
    found = [nearest(fed(log, way, nearest)) for way in ((), one_by_one, steps)]
    assert found[0] == found[1] == found[2]


@settings(max_examples=100)
@given(MEMORY_STEPS, st.integers(0, 30))
def test_deciding_does_not_find_what_was_undone(plan: list[Step], kept: int) -> None:
    facts = memories(plan)
    before, log = Log().add(*facts[:kept]), Log().add(*facts)
    found = fed(before)
    found.begin()
    for offset in range(len(before), len(log)):
        found.apply(offset, log.records[offset])
    nearest(found)
    found.rollback()
    assert nearest(found) == nearest(fed(before))


def nearest(found: PartitionState) -> list[list[int]]:
    """By collection the memories in two directions. Once asked, a state keeps them in memory."""
    spaces = [found.view.space_id(state.robot_space("default", one)) for one in COLLECTIONS]
    kept = state.nearest(found.view)
    return [
        [one.id for one in kept.above(space, MODEL.name, np.frombuffer(vector, np.float16), 0.8)]
        for space in spaces
        if space is not None
        for vector in (NORTH, unit(0, 1))
    ]


@settings(max_examples=150)
@given(MEMORY_STEPS)
def test_the_indexes_hold_what_can_be_recalled(plan: list[Step]) -> None:
    log = Log().add(*memories(plan))
    view = fed(log).view
    every = state.memories(view, range(1, len(log) + 1))
    active = {(one.space, one.id): one for one in every if one.status == "active"}
    by_words, by_meaning = texts(log), vectors(log)
    assert {key: (one.text, one.session) for key, one in by_words.items()} == {
        key: (one.content, one.session) for key, one in active.items()
    }
    missing = {number for number, *_ in state.without_vector(view, MODEL.name, 0, 100)}
    assert {key: (one.version, one.session) for key, one in by_meaning.items()} == {
        key: (one.version, one.session) for key, one in active.items() if one.id not in missing
    }
    for (space, number), put in by_meaning.items():
        (kept,) = state.vectors_of(view, MODEL.name, [number])
        assert put.vector.tobytes() == kept.tobytes()
        # A filter by the indexed confidence never loses what the state would let pass.
        assert put.confidence >= active[space, number].confidence
        assert by_words[space, number].confidence >= active[space, number].confidence


@settings(max_examples=150)
@given(GRAPH_STEPS)
def test_the_indexes_hold_what_has_been_described(plan: list[Step]) -> None:
    log = Log().add(*graph(plan))
    found = fed(log)
    view, numbers = found.view, range(1, len(log) + 1)
    searchable(found)
    there = {(ENTITY, row[0]) for row in view.all("SELECT id FROM entity")}
    there |= {(REFLECTION, row[0]) for row in view.all("SELECT id FROM reflection")}
    assert {(key[0].split("#")[1], key[1]) for key in texts(log)} <= there
    reflections = [number for space, number in texts(log) if space.endswith(REFLECTION)]
    assert {(REFLECTION, number) for number in reflections} == {
        one for one in there if one[0] == REFLECTION
    }
    for model in (MODEL.name, "other"):
        kept = {
            (index_space("default/graph", kind), number): vector.tobytes()
            for kind in (ENTITY, REFLECTION)
            for number, vector in meaning.DESCRIBED.meanings(view, model, kind, numbers).items()
        }
        held = {key: one.vector.tobytes() for key, one in vectors(log, model).items()}
        assert held == kept


@settings(max_examples=150)
@given(EPISODE_STEPS)
def test_the_indexes_hold_the_episodes_and_patterns_that_are_there(plan: list[Step]) -> None:
    log = Log().add(*episodes(plan))
    view, numbers = fed(log).view, range(1, len(log) + 1)
    there = {("episode", row[0]) for row in view.all("SELECT id FROM episode")}
    there |= {("pattern", row[0]) for row in view.all("SELECT id FROM pattern")}
    assert {(key[0].split("#")[1], key[1]) for key in texts(log)} == there
    # Nothing is left of what is gone, and a pattern has the evidence that it counts.
    for table in ("episode_step", "episode_tag", "evidence"):
        sql = f"SELECT count(*) FROM {table} WHERE episode NOT IN (SELECT id FROM episode)"
        assert view.one(sql) == (0,)
    for occurrences, number in view.all("SELECT occurrences, id FROM pattern"):
        assert view.one("SELECT count(*) FROM evidence WHERE pattern = ?", number) == (occurrences,)
        assert occurrences > 0
    for model in (MODEL.name, "other"):
        kept = {
            (index_space("default/episodes", kind), number): vector.tobytes()
            for kind in ("episode", "pattern")
            for number, vector in DESCRIBED.meanings(view, model, kind, numbers).items()
        }
        held = {key: one.vector.tobytes() for key, one in vectors(log, model).items()}
        assert held == kept


@pytest.mark.parametrize(
    ("language", "strategy", "life", "left_out"),
    [
        (ROBOT, MEMORY_STEPS, memories, set()),
        (GRAPH, GRAPH_STEPS, graph, {EntitySplit}),
        (EPISODES, EPISODE_STEPS, episodes, set()),
    ],
    ids=["robot", "graph", "episodes"],
)
def test_every_fact_may_happen(
    language: Language,
    strategy: st.SearchStrategy[list[Step]],
    life: Callable[[list[Step]], list[Given]],
    left_out: set[type[Fact]],
) -> None:
    """Or the lives above would say little. What a split does, the facts beside it do."""
    seen: set[type] = set()

    @settings(max_examples=200, database=None, derandomize=True)
    @given(strategy)
    def watch(plan: list[Step]) -> None:
        seen.update(type(one.fact) for one in life(plan))

    watch()
    assert seen == set(language.facts) - left_out
