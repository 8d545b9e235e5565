"""What waits to be described, by which model, and which descriptions are taken."""

from __future__ import annotations

import msgspec
import pytest

from mnemolog.events.graph import EntityDescribed, ReflectionEmbedded
from mnemolog.projections.graph import meaning
from mnemolog.services.families.graph.describing.describe import descriptions as descriptions_of
from mnemolog.services.reader.reader import VectorModel
from tests.spec.given import MODEL, NORTH, Ask
from tests.spec.given_graph import (
    Graph,
    add,
    create,
    delete,
    describe,
    description,
    entity,
    open_nodes,
    reflect,
    relate,
    search,
    triple,
    unsay,
)

A = "A (Tool): x"
OTHER = VectorModel("other-model", 0.9)


@pytest.fixture
def graph(graph: Graph) -> Graph:
    """With the entities A and B, and a reflection."""
    graph.after(create(entity("A", "Tool", "x"), entity("B")), reflect("all is well"))
    return graph


def waiting(graph: Graph, model: VectorModel = MODEL) -> list[tuple[str, int]]:
    return [
        (one.kind, one.number)
        for one in meaning.DESCRIBED.waiting(graph.state.view, model.name, 100)
    ]


def describe_a(graph: Graph, version: int = 2) -> Graph:
    graph.when(describe(description(1, A, version), vectors={A: NORTH}))
    return graph


def fact(version: int = 2, text: str = A, embedding: int | None = 0) -> EntityDescribed:
    return EntityDescribed(
        entity_id=1, version=version, text=text, model=MODEL.name, embedding=embedding
    )


def test_before_a_model_has_described_anything_all_waits(graph: Graph) -> None:
    assert waiting(graph) == [("entity", 2), ("entity", 1), ("reflection", 1)]
    assert meaning.DESCRIBED.count(graph.state.view, MODEL.name) == 3
    assert meaning.DESCRIBED.count(graph.state.view, MODEL.name, "default/graph", "entity") == 2
    assert meaning.DESCRIBED.count(graph.state.view, MODEL.name, "nobody/graph", "entity") == 0


def test_what_is_described_waits_no_more(graph: Graph) -> None:
    describe_a(graph).then(fact()).then_reply({"embedded": 1})
    assert set(waiting(graph)) == {("entity", 2), ("reflection", 1)}
    assert meaning.DESCRIBED.count(graph.state.view, MODEL.name) == 2
    count = meaning.DESCRIBED.count(graph.state.view, MODEL.name, "default/graph", "entity")
    assert count == 1
    kept = meaning.DESCRIBED.meanings(graph.state.view, MODEL.name, "entity", [1, 2])
    assert {number: vector.tobytes() for number, vector in kept.items()} == {1: NORTH}


def test_all_of_it_in_one_call(graph: Graph) -> None:
    graph.when(
        describe(
            description(1, A, 2),
            description(2, "B (Generic)"),
            description(1, "all is well", kind="reflection"),
            vectors={A: NORTH, "B (Generic)": NORTH, "all is well": NORTH},
        )
    ).then(
        fact(),
        EntityDescribed(entity_id=2, version=1, text="B (Generic)", model=MODEL.name, embedding=1),
        ReflectionEmbedded(reflection_id=1, model=MODEL.name, embedding=2),
    )
    assert waiting(graph) == []


@pytest.mark.parametrize(
    "asked",
    [add("A", "y"), unsay("A", "x"), create(entity("A", "Task"))],
    ids=lambda one: one.tool,
)
def test_a_change_makes_it_wait_again(graph: Graph, asked: Ask) -> None:
    describe_a(graph)
    graph.after(asked)
    assert ("entity", 1) in waiting(graph)
    assert 1 in meaning.DESCRIBED.meanings(graph.state.view, MODEL.name, "entity", [1]), (
        "until then as was"
    )
    describe_a(graph).then()  # What was read before the change is not taken.
    describe_a(graph, version=3).then(fact(version=3))
    assert ("entity", 1) not in waiting(graph)


def test_looking_and_relating_change_nothing(graph: Graph) -> None:
    describe_a(graph)
    graph.after(relate(triple("A", "uses", "B")), search("x"), open_nodes("A"), add("A", "x"))
    assert ("entity", 1) not in waiting(graph)


def test_the_newest_change_comes_first(graph: Graph) -> None:
    describe_a(graph)
    graph.after(create(entity("C")), add("B", "z"), add("A", "y"), create(entity("D")))
    assert waiting(graph)[:4] == [("entity", 4), ("entity", 1), ("entity", 2), ("entity", 3)]


def test_ten_changes_wait_once(graph: Graph) -> None:
    describe_a(graph)
    graph.after(*(add("A", f"more {i}") for i in range(10)))
    assert waiting(graph).count(("entity", 1)) == 1
    describe_a(graph, version=12).then(fact(version=12))


def test_a_description_is_made_once(graph: Graph) -> None:
    """Two nodes may both have found it waiting."""
    describe_a(graph)
    describe_a(graph).then().then_reply({"embedded": 0})


def test_what_is_gone_or_never_was_is_left_out(graph: Graph) -> None:
    graph.after(delete("A"), create(entity("Z"), tenant="rival"))
    describe_a(graph).then()
    graph.when(describe(description(9, "?"), vectors={"?": NORTH})).then()
    graph.when(describe(description(3, "Z (Generic)"), vectors={"Z (Generic)": NORTH})).then()
    one = description(1, "another text", kind="reflection")
    graph.when(describe(one, vectors={"another text": NORTH})).then()


def test_deleting_takes_its_meaning_along(graph: Graph) -> None:
    describe_a(graph)
    graph.after(add("A", "y"), delete("A"))
    assert ("entity", 1) not in waiting(graph)
    assert graph.state.view.all("SELECT * FROM meaning") == []


def test_what_the_model_does_not_cover_is_described_without_a_vector(graph: Graph) -> None:
    describe_a(graph)
    graph.after(add("A", "抓取力"))
    text = "A (Tool): x | 抓取力"
    graph.when(describe(description(1, text, 3, covered=False))).then(fact(3, text, None))
    assert ("entity", 1) not in waiting(graph)
    assert meaning.DESCRIBED.meanings(graph.state.view, MODEL.name, "entity", [1]) == {}


def test_without_its_vector_it_goes_on_waiting(graph: Graph) -> None:
    """The model covers the text, and was gone when it was needed."""
    graph.when(describe(description(1, A, 2))).then().then_reply({"embedded": 0})
    assert ("entity", 1) in waiting(graph)


def test_without_a_model_nothing_is_described() -> None:
    graph = Graph(model=None)
    graph.after(create(entity("A", "Tool", "x")))
    graph.when(describe(description(1, A, 2, covered=False))).then()


def test_another_model_has_everything_before_it_and_the_first_keeps_its_own(graph: Graph) -> None:
    graph.when(
        describe(
            description(1, A, 2), description(2, "B (Generic)"),
            vectors={A: NORTH, "B (Generic)": NORTH},
        )
    )  # fmt: skip
    assert waiting(graph) == [("reflection", 1)]
    assert len(waiting(graph, OTHER)) == 3
    graph.model = OTHER
    describe_a(graph)
    assert set(waiting(graph, OTHER)) == {("entity", 2), ("reflection", 1)}
    assert waiting(graph) == [("reflection", 1)], "what the first one described still holds"
    graph.after(add("A", "y"))
    assert ("entity", 1) in waiting(graph)
    assert ("entity", 1) in waiting(graph, OTHER)


def test_what_the_model_covers_of_it_is_embedded(graph: Graph) -> None:
    graph.after(add("A", "抓取力", "grip at 15N"))
    found = meaning.DESCRIBED.waiting(graph.state.view, MODEL.name, 100)
    made = descriptions_of(graph.state.view, found, len, str.isascii)
    assert [(one.number, one.text, one.covered, one.instead) for one in made] == [
        (2, "B (Generic)", True, ""),
        (1, "A (Tool): x | 抓取力 | grip at 15N", True, "A (Tool): x | grip at 15N"),
        (1, "all is well", True, ""),
    ]
    one = msgspec.to_builtins(made[1])
    graph.when(describe(one, vectors={made[1].instead: NORTH})).then(fact(3, made[1].text))
    graph.after(create(entity("抓取力", None, "x")))
    found = meaning.DESCRIBED.waiting(graph.state.view, MODEL.name, 1)
    (last,) = descriptions_of(graph.state.view, found, len, str.isascii)
    assert (last.covered, last.instead) == (False, "")
