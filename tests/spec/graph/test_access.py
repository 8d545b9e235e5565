"""What counts as an access, and which entities co-occur."""

from __future__ import annotations

from itertools import combinations

import pytest

from mnemolog.events.envelope import Answered
from mnemolog.events.graph import MAX_TOGETHER, EntitiesAccessed, EntitiesCoOccurred
from tests.spec.given import NOW_US, Ask, ask, days
from tests.spec.given_graph import (
    Graph,
    add,
    create,
    end,
    entity,
    open_nodes,
    read,
    relate,
    search,
    triple,
    unrelate,
    unsay,
)


@pytest.fixture
def graph(graph: Graph) -> Graph:
    """With the entities A, B and C, whose ids are 1, 2 and 3."""
    return graph.after(create(entity("A", None, "x"), entity("B"), entity("C")))


def test_creating_counts_once(graph: Graph) -> None:
    assert [graph.access(n) for n in (1, 2, 3)] == [(1, 1, NOW_US)] * 3
    assert graph.pairs() == {}


def test_adding_observations_counts_once(graph: Graph) -> None:
    graph.after(add("A", "y", at_us=days(1)), add("A", "y", at_us=days(2)))
    assert graph.access(1) == (3, 3, days(2)), "also when nothing was new"
    said = [{"entityName": "B", "contents": ["x"]}, {"entityName": "B", "contents": ["y"]}]
    graph.after(ask("add_observations", observations=said, at_us=days(2)))
    assert graph.access(2) == (2, 2, days(2))


def test_opening_counts_once_for_each_that_is_there(graph: Graph) -> None:
    graph.when(open_nodes("C", "X", "A", "C", at_us=days(1))).then(
        EntitiesAccessed(entity_ids=[3, 1]), EntitiesCoOccurred(entity_ids=[3, 1])
    )
    assert [graph.access(n)[0] for n in (1, 2, 3)] == [2, 1, 2]
    assert graph.pairs() == {(1, 3): 1}


def test_days_of_access_are_counted_once(graph: Graph) -> None:
    for at in (0.1, 0.9, 1.0, 1.5, 7.2):
        graph.after(open_nodes("A", at_us=days(at)))
    assert graph.access(1) == (6, 3, days(7.2))


def test_each_pair_that_is_opened_together_co_occurs(graph: Graph) -> None:
    graph.after(open_nodes("A", "B", "C"), open_nodes("C", "B"), open_nodes("A"))
    assert graph.pairs() == {(1, 2): 1, (1, 3): 1, (2, 3): 2}


def test_one_alone_does_not_co_occur(graph: Graph) -> None:
    graph.when(open_nodes("A", "X")).then(EntitiesAccessed(entity_ids=[1]))


def test_opening_nothing_is_no_fact(graph: Graph) -> None:
    graph.when(open_nodes("X")).then().then_nothing_changed()
    graph.when(open_nodes()).then().then_nothing_changed()
    assert graph.answer == {"entities": [], "relations": []}


def test_of_many_the_first_co_occur_and_all_are_accessed(graph: Graph) -> None:
    names = [f"n{i}" for i in range(MAX_TOGETHER + 10)]
    graph.after(create(*map(entity, names[:40])), create(*map(entity, names[40:])))
    graph.after(open_nodes(*names))
    ids = range(4, 4 + len(names))
    assert [graph.access(n)[0] for n in ids] == [2] * len(names)
    assert set(graph.pairs()) == set(combinations(ids[:MAX_TOGETHER], 2))


@pytest.mark.parametrize(
    "asked",
    [
        search("x"),
        read(),
        create(entity("A", "Task", "z")),
        unsay("A", "x"),
        relate(triple("A", "likes", "B")),
        unrelate(triple("A", "uses", "B")),
        end(1),
    ],
    ids=lambda one: one.tool,
)
def test_nothing_else_counts(graph: Graph, asked: Ask) -> None:
    graph.after(relate(triple("A", "uses", "B")), asked)
    assert [graph.access(n) for n in (1, 2, 3)] == [(1, 1, NOW_US)] * 3
    assert graph.pairs() == {}


def test_the_record_says_what_a_look_returned(graph: Graph) -> None:
    graph.when(search("x")).then().then_reply({"ids": [1]}).then_nothing_changed()
    graph.when(read(limit=2)).then().then_reply({"ids": [1, 2]}).then_nothing_changed()


def test_only_what_is_still_there_counts(graph: Graph) -> None:
    """Between the answer and the decision an entity may have gone, and none is another's."""
    graph.after(create(entity("Z"), tenant="rival"))
    with_gone = [9, 2, 4, 1]
    graph.when(open_nodes("A", "B", answered=Answered(ids=with_gone))).then(
        EntitiesAccessed(entity_ids=[2, 1]), EntitiesCoOccurred(entity_ids=[2, 1])
    )
    assert graph.access(4) == (1, 1, NOW_US)


@pytest.mark.parametrize("asked", [search("x"), open_nodes("A"), read()], ids=lambda one: one.tool)
def test_a_read_nobody_answered_is_refused(graph: Graph, asked: Ask) -> None:
    graph.when_unanswered(asked).then_refused("A read is answered by a gateway; …")
