"""The lives of entities and relations: what became of a relation is told by both its ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemolog.events.codec import decode_decision
from mnemolog.projections.graph import state
from mnemolog.services.facts import facts_of
from mnemolog.services.families.graph.told import EntityLife, ReflectionLife, RelationLife, Said
from mnemolog.services.told import FactRow, Thing, life_of
from tests.spec.given import Ask
from tests.spec.given_graph import (
    Graph,
    create,
    delete,
    end,
    entity,
    part,
    reflect,
    relate,
    split,
    triple,
    unrelate,
)
from tests.spec.given_import import Store
from tests.spec.graph.test_replay import BEGINNING, CALLS


@pytest.fixture
def graph(graph: Graph) -> Graph:
    """With the entities A, B and C, and the relations 1 (A uses B) and 2 (A uses C)."""
    return graph.after(
        create(entity("A"), entity("B"), entity("C")),
        relate(triple("A", "uses", "B"), triple("A", "uses", "C")),
    )


class Life:
    """What is told of a thing: `calls` has for each call the facts, `changes` the sentences."""

    def __init__(self, graph: Graph, asked: Thing, tenant: str = "default") -> None:
        decisions = [decode_decision(data) for data in graph.log]
        facts = {one.call_offset: facts_of(graph.decode(one)) for one in decisions}
        self.subject, calls = life_of(graph.state.reader(), tenant, asked, facts.__getitem__)
        self.calls: list[list[FactRow]] = [
            [self.subject.explained(one) for one in facts[call] if self.subject.concerns(one)]
            for call in calls
        ]
        self.changes = [
            line
            for call in self.calls
            for one in call
            for line in self.subject.sentence(one).splitlines()
        ]


def of_entity(graph: Graph, name: str, tenant: str = "default") -> list[str]:
    """The changes of an entity, its creation aside."""
    changes = Life(graph, EntityLife(name=name), tenant).changes
    made = next(one for one in changes if one.startswith("created, a "))
    changes.remove(made)
    return changes


def of_relation(graph: Graph, number: int) -> list[str]:
    return Life(graph, RelationLife(number)).changes


# --- entities ------------------------------------------------------------------------------------


def test_both_ends_tell_that_a_relation_was_created_and_with_whom(graph: Graph) -> None:
    first, second = "relation 1: A uses B created", "relation 2: A uses C created"
    assert of_entity(graph, "A") == [first, second]
    assert of_entity(graph, "B") == [first]
    assert of_entity(graph, "C") == [second]


def test_both_ends_tell_that_a_relation_ended(graph: Graph) -> None:
    graph.after(end(1))
    for name in ("A", "B"):
        assert of_entity(graph, name)[-1] == "relation 1: A uses B ended"
    assert of_entity(graph, "C") == ["relation 2: A uses C created"]


def test_an_inverse_that_ended_too_is_told_by_both_ends(graph: Graph) -> None:
    graph.after(relate(triple("B", "contains", "C"), triple("C", "part_of", "B")), end(3))
    told = ["relation 3: B contains C ended", "relation 4: C part_of B ended"]
    assert of_entity(graph, "B")[-2:] == told
    assert of_entity(graph, "C")[-2:] == told
    assert of_relation(graph, 4) == ["relation 4: C part_of B created", told[1]]


def test_both_ends_tell_that_a_relation_was_deleted(graph: Graph) -> None:
    graph.after(unrelate(triple("A", "uses", "B")))
    for name in ("A", "B"):
        assert of_entity(graph, name)[-1] == "relation 1: A uses B deleted"


def test_the_other_end_tells_that_a_relation_went_with_a_deleted_entity(graph: Graph) -> None:
    graph.after(delete("A"))
    assert of_entity(graph, "A")[2:] == ["deleted; it said:", "- A uses B", "- A uses C"]
    assert of_entity(graph, "B")[-1] == "relation 1: A uses B deleted with entity A"
    assert of_entity(graph, "C")[-1] == "relation 2: A uses C deleted with entity A"


def test_the_source_tells_that_its_target_took_the_relation_along(graph: Graph) -> None:
    graph.after(delete("B"))
    assert of_entity(graph, "A")[-1] == "relation 1: A uses B deleted with entity B"


def test_what_had_ended_before_a_deletion_is_marked(graph: Graph) -> None:
    graph.after(end(1), delete("A"))
    assert of_entity(graph, "A")[-2:] == ["- A uses B (ended)", "- A uses C"]
    assert of_entity(graph, "B")[-1] == "relation 1: A uses B (ended) deleted with entity A"
    assert of_entity(graph, "C")[-1] == "relation 2: A uses C deleted with entity A"
    (deleted,) = Life(graph, EntityLife(name="A")).calls[-1]
    assert [one["ended"] for one in deleted["relations"]] == [True, False]


def test_two_ends_that_are_deleted_at_once_tell_it_once_each(graph: Graph) -> None:
    graph.after(delete("A", "B"))
    assert of_entity(graph, "A")[2:] == ["deleted; it said:", "- A uses B", "- A uses C"]
    assert of_entity(graph, "B")[1:] == [
        "relation 1: A uses B deleted with entity A",
        "deleted",
    ]


def test_what_said_nothing_was_deleted(graph: Graph) -> None:
    graph.after(create(entity("D")), delete("D"))
    assert of_entity(graph, "D") == ["deleted"]


def test_a_relation_to_itself_is_told_once(graph: Graph) -> None:
    graph.after(relate(triple("C", "calls", "C")), end(3), relate(triple("C", "calls", "C")))
    assert of_entity(graph, "C")[1:] == [
        "relation 3: C calls C created",
        "relation 3: C calls C ended",
        "relation 4: C calls C created",
    ]
    graph.after(delete("C"))
    assert of_entity(graph, "C")[-4:] == [
        "deleted; it said:",
        "- A uses C",
        "- C calls C (ended)",
        "- C calls C",
    ]


def test_the_same_triple_again_is_another_relation(graph: Graph) -> None:
    again = relate(triple("A", "uses", "B"))
    graph.after(end(1), again, unrelate(triple("A", "uses", "B")), again)
    told = [
        "relation 1: A uses B created",
        "relation 1: A uses B ended",
        "relation 3: A uses B created",
        "relation 3: A uses B deleted",
        "relation 4: A uses B created",
    ]
    assert of_entity(graph, "B") == told
    assert of_relation(graph, 1) == told[:2]
    assert of_relation(graph, 3) == told[2:4]
    assert of_relation(graph, 4) == told[4:]


def test_a_name_that_was_given_again_tells_of_both_who_had_it(graph: Graph) -> None:
    graph.after(delete("B"), create(entity("B")), relate(triple("C", "uses", "B")))
    assert of_entity(graph, "B") == [
        "relation 1: A uses B created",
        "deleted; it said:",
        "- A uses B",
        "created, a Generic",
        "relation 3: C uses B created",
    ]


def test_the_relations_of_a_split_are_told_by_the_parent_and_the_parts(graph: Graph) -> None:
    graph.after(
        create(entity("Big", "Task", "one", "two")),
        split("Big", part("Small", "Task", "two"), parent_entity_name="C"),
        end(3),
    )
    told = ["relation 3: C contiene Small", "relation 4: Small parte_de C"]
    changes = [f"{one} {what}" for what in ("created", "ended") for one in told]
    assert of_entity(graph, "C")[1:] == changes
    assert [one for one in of_entity(graph, "Small") if "relation" in one] == changes
    assert not [one for one in of_entity(graph, "Big") if "relation" in one]


def test_imported_relations_are_told_by_both_ends(tmp_path: Path) -> None:
    lines = [
        {"type": "entity", "name": "A", "entityType": "Tool", "observations": []},
        {"type": "entity", "name": "B", "entityType": "Tool", "observations": []},
        {"type": "relation", "from": "A", "to": "B", "relationType": "uses"},
    ]
    path = tmp_path / "memory.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    store = Store()
    assert store.migrate(path)["relations_imported"] == 1
    store.graph.after(delete("A"))
    assert of_entity(store.graph, "B") == [
        "relation 1: A uses B created",
        "relation 1: A uses B deleted with entity A",
    ]


def test_a_reflection_on_a_relation_is_not_about_its_ends(graph: Graph) -> None:
    graph.after(reflect("odd", "relation", target_id=1))
    assert of_relation(graph, 1)[-1] == "reflection 1 by sofia: odd"
    assert of_entity(graph, "B") == ["relation 1: A uses B created"]


def test_another_tenant_has_lives_of_its_own(graph: Graph) -> None:
    graph.after(
        create(entity("A"), entity("B"), tenant="rival"),
        relate(triple("B", "uses", "A"), tenant="rival"),
        end(3, tenant="rival"),
    )
    assert of_entity(graph, "B") == ["relation 1: A uses B created"]
    assert of_entity(graph, "B", "rival") == [
        "relation 3: B uses A created",
        "relation 3: B uses A ended",
    ]


@settings(max_examples=100)
@given(st.lists(CALLS, min_size=3, max_size=20))
def test_what_lives_tell_is_what_holds(calls: list[Ask]) -> None:
    graph = Graph()
    for asked in (*BEGINNING, *calls):
        graph.when(asked)
    view = graph.state.reader()
    for name in ("A", "B", "C", "á"):
        told = EntityLife(name=name)
        life = Life(graph, told)
        holding = dict[int, str]()
        for fact in (one for call in life.calls for one in call):
            match fact["fact"]:
                case "graph.relation_created":
                    said = f"{fact['source']} {fact['relation_type']} {fact['target']}"
                    holding[fact["relation_id"]] = said
                case "graph.relation_ended":
                    del holding[fact["relation_id"]]
                case "graph.relation_deleted":
                    del holding[fact["relation"]["relation_id"]]
                case "graph.entity_deleted":
                    for one in fact["relations"]:
                        number = one["relation_id"]
                        if number in told.relations:
                            assert one["ended"] is (number not in holding)
                            holding.pop(number, None)
        standing = state.relations_of(view, told.ids)
        assert holding == {one.id: f"{one.source} {one.type} {one.target}" for one in standing}


# --- relations -----------------------------------------------------------------------------------


def test_a_relation_says_what_it_is_while_it_stands(graph: Graph) -> None:
    assert of_relation(graph, 2) == ["relation 2: A uses C created"]
    relation = RelationLife(2)
    life = Life(graph, relation)
    assert relation.relations == {2: Said("A", "C", "uses")}
    assert str(life.subject) == "Relation 2: A uses C"
    (created,) = life.calls[0]
    assert (created["source"], created["target"]) == ("A", "C")


def test_a_relation_says_what_it_was_after_it_ended(graph: Graph) -> None:
    life = Life(graph.after(end(2)), RelationLife(2))
    assert life.changes == ["relation 2: A uses C created", "relation 2: A uses C ended"]
    assert str(life.subject) == "Relation 2: A uses C (ended)"
    (ended,) = life.calls[1]
    assert (ended["source"], ended["relation_type"], ended["target"]) == ("A", "uses", "C")


def test_a_relation_says_what_it_was_after_it_was_deleted(graph: Graph) -> None:
    graph.after(unrelate(triple("A", "uses", "B")), end(2), delete("C"), delete("A", "B"))
    assert of_relation(graph, 1) == [
        "relation 1: A uses B created",
        "relation 1: A uses B deleted",
    ]
    assert of_relation(graph, 2) == [
        "relation 2: A uses C created",
        "relation 2: A uses C ended",
        "relation 2: A uses C (ended) deleted with entity C",
    ]


def test_what_never_was_has_no_life(graph: Graph) -> None:
    assert Life(graph, RelationLife(7)).calls == []
    assert Life(graph, EntityLife(name="nobody")).calls == []
    assert Life(graph, ReflectionLife(1)).calls == []
