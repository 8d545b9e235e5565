"""Same decisions, same graph: what is kept, and what can be found."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mnemolog.events.codec import decode_decision, tag_of
from mnemolog.events.envelope import Answered
from mnemolog.events.graph import EntityDescribed, GraphImported, ReflectionEmbedded
from mnemolog.projections.graph import meaning
from mnemolog.projections.graph.containing import folded
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.families.graph.describing.describe import descriptions as descriptions_of
from mnemolog.services.reader.reader import VectorModel
from tests.families import FACTS
from tests.spec.given import MODEL, NORTH, Ask, ask, days
from tests.spec.given_graph import (
    Graph,
    add,
    create,
    delete,
    describe,
    end,
    entity,
    open_nodes,
    part,
    read,
    reflect,
    relate,
    search,
    searchable,
    split,
    triple,
    unrelate,
    unsay,
)

# Few of everything, so that upserts, duplicates, cascades and refusals really come about.
NAMES = st.sampled_from(["A", "B", "C", "á"])
KINDS = st.sampled_from([None, "Tool", "Task", "tool"])
SAID = st.lists(st.sampled_from(["x", "X", "A", "tool", "抓取力", "a longer one"]), max_size=4)
SOME = SAID.filter(bool)
TRIPLES = st.lists(
    st.builds(triple, NAMES, st.sampled_from(["uses", "contiene", "parte_de"]), NAMES),
    min_size=1,
    max_size=4,
)
ENTITIES = st.builds(lambda name, kind, said: entity(name, kind, *said), NAMES, KINDS, SAID)
ENVELOPE: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"at_us": st.integers(0, 9).map(days)}),
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(["k1", "k2"]),
            "tenant": st.sampled_from(["default", "rival"]),
            "at_us": st.integers(0, 9).map(days),
        },
    ),
)
BEGINNING = [
    create(entity("A", "Tool", "x", "A"), entity("B", "Tool", "tool"), entity("C")),
    relate(triple("A", "uses", "B"), triple("B", "contiene", "C"), triple("C", "parte_de", "B")),
    open_nodes("A", "B"),
    reflect("so it is", "entity", target_id=1),
]
"""So that there is something to change, to delete, to split, to end and to describe."""
CALLS = st.one_of(
    st.builds(
        lambda es, more: create(*es, **more), st.lists(ENTITIES, min_size=1, max_size=3), ENVELOPE
    ),
    st.builds(lambda name, said, more: add(name, *said, **more), NAMES, SOME, ENVELOPE),
    st.builds(lambda name, said, more: unsay(name, *said, **more), NAMES, SOME, ENVELOPE),
    st.builds(
        lambda name, said, more: ask(
            "delete_observations", deletions=[{"entityName": name, "observations": said}], **more
        ),
        NAMES,
        SAID,
        ENVELOPE,
    ),
    st.builds(lambda them, more: relate(*them, **more), TRIPLES, ENVELOPE),
    st.builds(lambda them, more: unrelate(*them, **more), TRIPLES, ENVELOPE),
    st.builds(
        lambda names, more: delete(*names, **more),
        st.lists(NAMES, min_size=1, max_size=2),
        ENVELOPE,
    ),
    st.builds(
        lambda name, parts, parent, more: split(name, *parts, **parent, **more),
        NAMES,
        st.lists(
            st.builds(
                lambda name, kind, said: part(name, kind, *said),
                NAMES,
                st.sampled_from(["Tool", "Generic"]),
                st.lists(st.sampled_from(["x", "A", "tool"]), min_size=1, max_size=2),
            ),
            min_size=1,
            max_size=2,
        ),
        st.fixed_dictionaries({}, optional={"parent_entity_name": NAMES}),
        ENVELOPE,
    ),
    st.builds(
        lambda text, name, more: split("A", part(name, "Tool", text), **more),
        st.sampled_from(["x", "A"]),
        st.sampled_from(["B", "á", "new"]),
        ENVELOPE,
    ),
    st.builds(lambda number, more: end(number, **more), st.integers(1, 6), ENVELOPE),
    st.builds(
        lambda names, more: open_nodes(*names, **more), st.lists(NAMES, max_size=4), ENVELOPE
    ),
    st.builds(lambda more: search("tool", **more), ENVELOPE),
    st.builds(
        lambda kind, number, more: reflect("so it is", kind, target_id=number, **more),
        st.sampled_from(["entity", "relation", "global"]),
        st.sampled_from([None, 1, 2]),
        ENVELOPE,
    ),
    st.builds(
        lambda ids, more: ask("search_semantic", query="x", answered=Answered(ids=ids), **more),
        st.lists(st.integers(1, 4), unique=True),
        ENVELOPE,
    ),
    st.builds(lambda more: read(**more), ENVELOPE),
)


class Describing(msgspec.Struct, frozen=True):
    """A model comes by and describes a few of those that wait, one of them perhaps without a
    vector, or as something read before it changed."""

    model: VectorModel
    count: int
    covered: bool
    behind: int


DESCRIBING = st.builds(
    Describing,
    st.sampled_from([MODEL, VectorModel("other", 0.9)]),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([0, 0, 0, 1]),
)
PLANS = st.lists(st.one_of(CALLS, CALLS, DESCRIBING), min_size=3, max_size=20).map(
    lambda rest: [*BEGINNING, *rest]
)
Plan = list[Ask | Describing]


def carried_out(plan: Plan) -> Graph:
    graph = Graph()
    for one in plan:
        if isinstance(one, Ask):
            graph.when(one)
        else:
            describing(graph, one)
    return graph


def describing(graph: Graph, step: Describing) -> None:
    graph.model = step.model
    view = graph.state.view
    for waiting in meaning.DESCRIBED.waiting(view, step.model.name, step.count):
        (made,) = descriptions_of(view, [waiting], len, lambda _: step.covered)
        row = msgspec.to_builtins(made) | {"version": made.version - step.behind}
        tenant = waiting.space.split("/")[0]
        graph.when(
            describe(row, space=waiting.space, tenant=tenant, vectors={made.text: NORTH})
        ).then_taken()
    graph.model = MODEL


def test_the_plans_bring_every_kind_of_fact_about() -> None:
    """Beside those of the beginning: what never happens would be tested by none of them."""
    seen: set[str] = set()

    @settings(max_examples=100, derandomize=True, database=None)
    @given(PLANS)
    def look(plan: Plan) -> None:
        for data in carried_out(plan).log[len(BEGINNING) :]:
            seen.update(tag_of(type(one)) for one in FACTS.decode(decode_decision(data).facts))

    look()
    imported = tag_of(GraphImported)
    assert seen == {tag for tag in FACTS.tags if tag.startswith("graph.")} - {imported}


@settings(max_examples=200)
@given(PLANS)
def test_a_rebuild_from_the_decisions_equals_what_is_live(plan: Plan) -> None:
    graph = carried_out(plan)
    fresh = graph.rebuilt()
    assert fresh.digest() == graph.state.digest()
    assert (fresh.head, fresh.next_offset) == (graph.state.head, graph.state.next_offset)
    assert searchable(fresh) == searchable(graph.state) == to_be_found(fresh)


@settings(max_examples=100)
@given(PLANS)
def test_nothing_is_left_hanging(plan: Plan) -> None:
    view = carried_out(plan).state.view
    known = {row[0] for row in view.all("SELECT id FROM entity")}
    for sql in (
        "SELECT entity FROM observation",
        "SELECT source FROM relation",
        "SELECT target FROM relation",
        "SELECT first FROM together",
        "SELECT second FROM together",
    ):
        assert {row[0] for row in view.all(sql)} <= known
    across = (
        "SELECT relation.id FROM relation JOIN entity ON entity.id IN (source, target)"
        " WHERE entity.space <> relation.space"
    )
    assert view.all(across) == []
    assert {row[0] for row in view.all("SELECT number FROM meaning WHERE kind = 'entity'")} <= known


@settings(max_examples=100)
@given(PLANS)
def test_each_model_has_described_what_does_not_wait_for_it(plan: Plan) -> None:
    """What waits and what is described as it is now make up all there is, for every model."""
    graph = carried_out(plan)
    view = graph.state.view
    there = {("entity", number): at for number, at in view.all("SELECT id, version FROM entity")}
    there |= {("reflection", row[0]): 1 for row in view.all("SELECT id FROM reflection")}
    described = descriptions(graph)
    assert {row[0] for row in view.all("SELECT model FROM describer")} == set(described)
    for model, versions in described.items():
        waiting = meaning.DESCRIBED.waiting(view, model, 1000)
        assert len(waiting) == meaning.DESCRIBED.count(view, model)
        assert {(one.kind, one.number) for one in waiting} == {
            one for one, version in there.items() if versions.get(one) != version
        }


def descriptions(graph: Graph) -> dict[str, dict[tuple[str, int], int]]:
    """By model, the version of each thing that it described last, as the log tells it."""
    found: dict[str, dict[tuple[str, int], int]] = {}
    for data in graph.log:
        for fact in FACTS.decode(decode_decision(data).facts):
            if isinstance(fact, EntityDescribed):
                found.setdefault(fact.model, {})["entity", fact.entity_id] = fact.version
            elif isinstance(fact, ReflectionEmbedded):
                found.setdefault(fact.model, {})["reflection", fact.reflection_id] = 1
    return found


PLACES = st.sampled_from(["P", "Q", "R"])
TEXTS = ["x", "X", "A", "tool", "抓取力", "a longer one"]


@settings(max_examples=100)
@given(
    st.dictionaries(st.sampled_from(TEXTS), PLACES, min_size=1),
    st.dictionaries(st.sampled_from(["Q", "R"]), st.lists(st.sampled_from(TEXTS), unique=True)),
)
def test_a_split_loses_and_doubles_nothing(
    goes_to: dict[str, str], there: dict[str, list[str]]
) -> None:
    """What P says goes to new parts and to some that are there, or stays where it is."""
    moved = {name: [text for text in goes_to if goes_to[text] == name] for name in ("Q", "R")}
    parts = [part(name, "T", *texts) for name, texts in moved.items() if texts]
    assume(parts)
    graph = Graph().after(
        create(*(entity(name, "T", *texts) for name, texts in there.items())),
        create(entity("P", "T", *goes_to), entity("Other", "T", *goes_to)),
    )
    graph.when(split("P", *parts)).then_taken()
    assert graph.said("P") == [text for text in goes_to if goes_to[text] == "P"]
    assert graph.said("Other") == list(goes_to)
    for name in ("Q", "R"):
        had = there.get(name, [])
        # What a part had already is kept there once.
        gets = [text for text in moved[name] if text not in had]
        assert graph.said(name) == [*had, *gets]


def to_be_found(state: PartitionState) -> list[tuple[int, str]]:
    """What the search index has to hold, from what is kept."""
    rows = state.view.all(
        "SELECT id, name FROM entity UNION ALL SELECT id, type FROM entity"
        " UNION ALL SELECT entity, content FROM observation"
    )
    return sorted((number, folded(text)) for number, text in rows)
