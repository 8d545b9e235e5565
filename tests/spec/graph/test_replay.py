"""Same decisions, same graph: what is kept, and what can be found."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from projections.state.graph import folded
from projections.state.store import PartitionState
from tests.spec.given import Ask, ask, days
from tests.spec.given_graph import (
    Graph,
    add,
    create,
    delete,
    end,
    entity,
    open_nodes,
    part,
    read,
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
ENVELOPE = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["k1", "k2"]),
        "tenant": st.sampled_from(["default", "rival"]),
        "at_us": st.integers(0, 9).map(days),
    },
)
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
    st.builds(lambda number, more: end(number, **more), st.integers(1, 6), ENVELOPE),
    st.builds(
        lambda names, more: open_nodes(*names, **more), st.lists(NAMES, max_size=4), ENVELOPE
    ),
    st.builds(lambda more: search("tool", **more), ENVELOPE),
    st.builds(lambda more: read(**more), ENVELOPE),
)
PLANS = st.lists(CALLS, max_size=25)


def carried_out(plan: list[Ask]) -> Graph:
    graph = Graph()
    for one in plan:
        graph.when(one)
    return graph


@settings(max_examples=200)
@given(PLANS)
def test_a_rebuild_from_the_decisions_equals_what_is_live(plan: list[Ask]) -> None:
    graph = carried_out(plan)
    fresh = graph.rebuilt()
    assert fresh.digest() == graph.state.digest()
    assert (fresh.head, fresh.next_offset) == (graph.state.head, graph.state.next_offset)
    assert searchable(fresh) == searchable(graph.state) == to_be_found(fresh)


@settings(max_examples=100)
@given(PLANS)
def test_nothing_is_left_hanging(plan: list[Ask]) -> None:
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


@settings(max_examples=100)
@given(PLANS)
def test_a_split_loses_and_doubles_nothing(plan: list[Ask]) -> None:
    graph = Graph()
    for one in plan:
        before = said(graph)
        graph.when(one)
        if one.tool == "execute_entity_split":
            after = said(graph)
            # What a part had already is kept there once.
            assert {pair[1] for pair in before} == {pair[1] for pair in after}
            assert len(after) == len(set(after))
            known = {row[0] for row in graph.state.view.all("SELECT id FROM entity")}
            assert {number for number, _ in after} <= known


def said(graph: Graph) -> list[tuple[int, str]]:
    return graph.state.view.all("SELECT entity, content FROM observation ORDER BY 1, 2")


def to_be_found(state: PartitionState) -> list[tuple[int, str]]:
    """What the search index has to hold, from what is kept."""
    rows = state.view.all(
        "SELECT id, name FROM entity UNION ALL SELECT id, type FROM entity"
        " UNION ALL SELECT entity, content FROM observation"
    )
    return sorted((number, folded(text)) for number, text in rows)
