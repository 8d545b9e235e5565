"""create_relations, delete_relations, end_relation."""

from __future__ import annotations

import pytest

from mnemolog.events.graph import RelationCreated, RelationDeleted, RelationEnded, RelationKept
from tests.spec.given import days
from tests.spec.given_graph import (
    Graph,
    created,
    delete,
    end,
    open_nodes,
    read,
    relate,
    related,
    search,
    stated,
    triple,
    unrelate,
)

USES = triple("A", "uses", "B")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    """With the entities A, B and C, whose ids are 1, 2 and 3."""
    return graph.given(created(1, "A"), created(2, "B"), created(3, "C"))


# --- create_relations ----------------------------------------------------------------------------


def test_a_relation_has_a_direction_and_an_id(graph: Graph) -> None:
    graph.when(relate(USES, triple("B", "uses", "A"))).then(
        RelationCreated(relation_id=1, source_id=1, target_id=2, relation_type="uses"),
        RelationCreated(relation_id=2, source_id=2, target_id=1, relation_type="uses"),
    ).then_reply({"relations": [{"id": 1, **USES}, {"id": 2, **triple("B", "uses", "A")}]})


def test_each_relation_to_an_unknown_entity_is_reported(graph: Graph) -> None:
    graph.when(
        relate(triple("A", "uses", "X"), USES, triple("Y", "uses", "A"), triple("V", "uses", "W"))
    ).then(
        RelationCreated(relation_id=1, source_id=1, target_id=2, relation_type="uses")
    ).then_reply(
        {
            "relations": [
                {"error": "Entity not found: X"},
                {"id": 1, **USES},
                {"error": "Entity not found: Y"},
                {"error": "Entity not found: V"},
            ],
            "errors": ["Entity not found: X", "Entity not found: Y", "Entity not found: V"],
        }
    )


def test_a_relation_that_exists_is_reported(graph: Graph) -> None:
    known = {"id": 1, **USES, "error": "Relation already exists"}
    graph.given(related(1, 1, "uses", 2)).when(relate(USES)).then().then_reply(
        {"relations": [known]}
    )


def test_a_relation_twice_in_a_call_is_made_once(graph: Graph) -> None:
    likes = triple("A", "likes", "B")
    graph.when(relate(USES, USES, likes)).then_reply(
        {
            "relations": [
                {"id": 1, **USES},
                {"id": 1, **USES, "error": "Relation already exists"},
                {"id": 2, **likes},
            ]
        }
    )


def test_types_of_relations_are_told_apart_by_case(graph: Graph) -> None:
    graph.after(relate(USES)).when(relate(triple("A", "Uses", "B"))).then(
        RelationCreated(relation_id=2, source_id=1, target_id=2, relation_type="Uses")
    )


def test_an_entity_may_relate_to_itself(graph: Graph) -> None:
    own = triple("A", "calls", "A")
    graph.when(relate(own)).then_reply({"relations": [{"id": 1, **own}]})
    assert graph.told(open_nodes("A"))["relations"] == [{"id": 1, **own}]
    graph.when(unrelate(own)).then_reply({"deleted": [{"id": 1, **own}]})


# --- delete_relations ----------------------------------------------------------------------------


def test_a_relation_is_deleted_by_the_whole_triple(graph: Graph) -> None:
    graph.given(related(1, 1, "uses", 2), related(2, 1, "likes", 2)).when(unrelate(USES)).then(
        RelationDeleted(relation=RelationKept(1, "A", "B", "uses"))
    ).then_reply({"deleted": [{"id": 1, **USES}]})
    assert [one["id"] for one in graph.told(read(include_ended=True))["relations"]] == [2]


def test_what_cannot_be_deleted_is_reported_and_the_rest_deleted(graph: Graph) -> None:
    graph.after(relate(USES)).when(
        unrelate(
            triple("B", "uses", "A"), triple("A", "uses", "X"), USES, USES, triple("Y", "is", "Z")
        )
    ).then(RelationDeleted(relation=RelationKept(1, "A", "B", "uses"))).then_reply(
        {
            "deleted": [{"id": 1, **USES}],
            "errors": [
                "Relation not found: B -> A (uses)",
                "Entity not found: A or X",
                "Relation not found: A -> B (uses)",
                "Entity not found: Y or Z",
            ],
        }
    )


def test_a_deleted_relation_can_be_made_again_under_a_new_id(graph: Graph) -> None:
    graph.after(relate(USES), unrelate(USES)).when(relate(USES)).then_reply(
        {"relations": [{"id": 2, **USES}]}
    )


# --- end_relation --------------------------------------------------------------------------------


def test_an_ended_relation_stays_in_the_history(graph: Graph) -> None:
    graph.given(related(1, 1, "uses", 2)).when(end(1, at_us=days(1))).then(
        RelationEnded(relation_id=1)
    ).then_reply({"result": "Relation 1 expired successfully"})
    for asked in (read, lambda **more: search("a", **more), lambda **more: open_nodes("A", **more)):
        assert graph.told(asked())["relations"] == []
        assert graph.told(asked(include_ended=True))["relations"] == [
            {"id": 1, **USES, "active": False, "ended_at": "2024-10-05T00:00:00"}
        ]


def test_what_still_holds_says_so_beside_what_has_ended(graph: Graph) -> None:
    graph.after(relate(USES))
    assert graph.told(read(include_ended=True))["relations"] == [
        {"id": 1, **USES, "active": True, "ended_at": None}
    ]


def test_ending_twice_is_no_fact(graph: Graph) -> None:
    ended = stated(RelationEnded(relation_id=1), at_us=days(1))
    graph.given(related(1, 1, "uses", 2), ended).when(end(1, at_us=days(3))).then().then_reply(
        {"result": "Relation 1 was already expired"}
    )


@pytest.mark.parametrize("number", [1, 7, 2**53 - 1])
def test_an_unknown_relation_is_refused(graph: Graph, number: int) -> None:
    graph.when(end(number)).then_refused(f"Relation {number} does not exist")


def test_a_deleted_relation_cannot_be_ended(graph: Graph) -> None:
    deleted = RelationDeleted(relation=RelationKept(1, "A", "B", "uses"))
    graph.given(related(1, 1, "uses", 2), stated(deleted))
    graph.when(end(1)).then_refused("Relation 1 does not exist")
    graph.after(relate(USES), delete("B")).when(end(2)).then_refused("Relation 2 does not exist")


@pytest.mark.parametrize(
    ("kind", "inverse"),
    [
        ("contiene", "parte_de"),
        ("parte_de", "contiene"),
        ("contains", "part_of"),
        ("part_of", "contains"),
    ],
)
def test_an_inverse_ends_with_it(graph: Graph, kind: str, inverse: str) -> None:
    graph.given(
        related(1, 1, kind, 2),
        related(2, 1, inverse, 2),
        related(3, 2, inverse, 1),
        related(4, 3, inverse, 1),
    ).when(end(1)).then(RelationEnded(relation_id=1), RelationEnded(relation_id=3)).then_reply(
        {"result": "Relation 1 expired successfully"}
    )
    graph.when(end(3)).then().then_reply({"result": "Relation 3 was already expired"})
    assert [one["id"] for one in graph.told(read())["relations"]] == [2, 4]


def test_without_an_inverse_it_ends_alone(graph: Graph) -> None:
    graph.after(relate(triple("A", "contiene", "B"), triple("B", "part_of", "A"))).when(
        end(1)
    ).then(RelationEnded(relation_id=1))
    graph.after(relate(USES, triple("B", "uses", "A"))).when(end(3)).then(
        RelationEnded(relation_id=3)
    )


def test_an_inverse_that_has_ended_is_not_ended_again(graph: Graph) -> None:
    graph.after(
        relate(triple("A", "contains", "B"), triple("B", "part_of", "A")),
        end(2),
        relate(triple("A", "contains", "B")),
    ).when(end(3)).then(RelationEnded(relation_id=3))


def test_an_ended_relation_can_be_made_again_under_a_new_id(graph: Graph) -> None:
    graph.after(relate(USES), end(1)).when(relate(USES)).then_reply(
        {"relations": [{"id": 2, **USES}]}
    )
    relations = graph.told(read(include_ended=True))["relations"]
    assert [(one["id"], one["active"]) for one in relations] == [(1, False), (2, True)]
    graph.after(end(2), relate(USES))
    assert [one["id"] for one in graph.told(read())["relations"]] == [3]


def test_an_ended_relation_is_not_there_to_delete(graph: Graph) -> None:
    graph.after(relate(USES), end(1)).when(unrelate(USES)).then().then_reply(
        {"deleted": [], "errors": ["Relation not found: A -> B (uses)"]}
    )
