"""get_dependency_graph and get_topological_order."""

from __future__ import annotations

import re
from itertools import permutations

import pytest

from mnemolog.events.episodes import MAX_BULK
from mnemolog.services.families.episodes.answering import graph
from tests.spec.given import Ask
from tests.spec.given_episodes import (
    VALIDATION,
    Episodes,
    Reply,
    begun,
    called,
    graph_of,
    linked,
    order_of,
    relationships_of,
)

A, B, C, D = 1, 2, 3, 4


@pytest.fixture
def episodes() -> Episodes:
    """With the episodes A, B, C and D."""
    return Episodes().given(*(begun(number) for number in (A, B, C, D)))


# --- the graph -----------------------------------------------------------------------------------


def around(found: Reply) -> dict[int, int]:
    """By the number of an episode how far it is from the root."""
    return {int(one["id"][-4:]): one["distance"] for one in found["nodes"]}


def test_what_is_around_an_episode(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "depends_on", B), linked(2, C, "follows", A))
    assert episodes.told(graph_of(A, depth=1)) == {
        "root": called(A),
        "node_count": 3,
        "edge_count": 2,
        "truncated": False,
        "nodes": [
            {
                "id": called(number),
                "task_description": f"task {number}",
                "domain": "web-api",
                "task_type": "testing",
                "status": "active",
                "distance": distance,
            }
            for number, distance in ((A, 0), (B, 1), (C, 1))
        ],
        "edges": [
            {
                "id": f"r-{number}",
                "from": called(source),
                "to": called(target),
                "relationship_type": kind,
                "priority": None,
            }
            for number, source, kind, target in ((1, A, "depends_on", B), (2, C, "follows", A))
        ],
    }
    episodes.then()


def test_an_episode_alone_is_a_graph(episodes: Episodes) -> None:
    found = episodes.told(graph_of(A, depth=5))
    assert around(found) == {A: 0}
    assert (found["node_count"], found["edge_count"], found["edges"]) == (1, 0, [])


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, None])
def test_a_graph_is_as_deep_as_was_asked(episodes: Episodes, depth: int | None) -> None:
    """In whatever direction the relationships go."""
    episodes.given(*(begun(number) for number in range(5, 9)))
    ends = [(A, B), (C, B), (C, D), (5, D), (5, 6), (7, 6), (7, 8)]
    episodes.given(*(linked(n, a, "follows", b) for n, (a, b) in enumerate(ends, 1)))
    deep = 2 if depth is None else depth
    found = episodes.told(graph_of(A, **({} if depth is None else {"depth": depth})))
    assert around(found) == {number: number - 1 for number in range(1, deep + 2)}
    assert found["edge_count"] == len(found["edges"]) == deep


def test_relationships_between_those_that_are_shown_are_shown(episodes: Episodes) -> None:
    """Also such as are not on a shortest way, and cycles."""
    ends = [(A, B), (A, C), (B, C), (C, B), (C, D), (B, A)]
    episodes.given(*(linked(n, a, "related_to", b) for n, (a, b) in enumerate(ends, 1)))
    found = episodes.told(graph_of(A, depth=1))
    assert around(found) == {A: 0, B: 1, C: 1}
    assert [one["id"] for one in found["edges"]] == ["r-1", "r-2", "r-3", "r-4", "r-6"]


def test_a_graph_of_too_many_episodes_is_cut_and_says_so(
    episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    episodes.given(
        linked(1, A, "follows", B), linked(2, A, "follows", C), linked(3, C, "follows", D)
    )
    for most, left, cut in ((4, [A, B, C, D], False), (3, [A, B, C], True), (2, [A, B], True)):
        monkeypatch.setattr(graph, "MAX_NODES", most)
        found = episodes.told(graph_of(A))
        assert (list(around(found)), found["truncated"]) == (left, cut)
        assert found["node_count"] == len(left)
        shown = {one["id"] for one in found["nodes"]}
        assert all({one["from"], one["to"]} <= shown for one in found["edges"])


def test_a_graph_of_too_many_relationships_is_cut_and_says_so(
    episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    episodes.given(linked(1, A, "follows", B), linked(2, A, "blocks", B))
    for most, cut in ((2, False), (1, True)):
        monkeypatch.setattr(graph, "MAX_EDGES", most)
        found = episodes.told(graph_of(A))
        assert (found["edge_count"], len(found["edges"]), found["truncated"]) == (most, most, cut)


def test_a_large_graph_is_cut() -> None:
    """As many as there are in it, and no limit of the database in the way."""
    episodes = Episodes().given(*(begun(number) for number in range(1, 701)))
    episodes.given(*(linked(n, 1 + n // 30, "follows", n + 1) for n in range(1, 700)))
    found = episodes.told(graph_of(1, depth=5))
    assert (found["node_count"], found["truncated"]) == (graph.MAX_NODES, True)
    assert dot_of(episodes.told(graph_of(1, depth=5, format="dot")))[0].keys() == {
        one["id"] for one in found["nodes"]
    }


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("depth", graph_of(A, depth=0)),
        ("depth", graph_of(A, depth=6)),
        ("format", graph_of(A, format="svg")),
        ("episode_ids", order_of()),
        ("episode_ids", order_of(*range(1, MAX_BULK + 2))),
    ],
)
def test_what_does_not_fit_is_refused(episodes: Episodes, field: str, asked: Ask) -> None:
    episodes.when(asked).then_nothing_changed()
    assert episodes.decision is not None and episodes.decision.code == VALIDATION
    assert episodes.reply["field"] == field


@pytest.mark.parametrize("asked", [graph_of(9), graph_of(9, format="dot"), order_of(A, 9)])
def test_an_episode_that_does_not_exist(episodes: Episodes, asked: Ask) -> None:
    episodes.when(asked).then_not_found(called(9))


# --- DOT -----------------------------------------------------------------------------------------

# A quoted string ends at the first quotation mark without a backslash of its own before it; two
# backslashes are one in a label, and nothing else may follow one in what is written here.
_STRING = r'"((?:[^"\\\x00-\x1f\x7f]|\\["\\])*)"'
_NODE = re.compile(rf"{_STRING} \[label={_STRING}\]")
_EDGE = re.compile(rf"{_STRING} -> {_STRING} \[label={_STRING}\]")
_SETTING = re.compile(r"[a-z]+=[A-Za-z]+|node \[[a-z]+=[a-z]+\]")


def dot_of(found: Reply) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Nodes with their labels and edges with theirs: read by the grammar of DOT as far as it is
    used, and nothing that is not in it."""
    whole = re.fullmatch(r"digraph [A-Za-z_]\w* \{\n(.*)\}\n", found["dot"], re.DOTALL)
    assert whole is not None, found["dot"]
    nodes: dict[str, str] = {}
    edges = []
    for line in whole[1].splitlines():
        statement = re.fullmatch(r"  (.*);", line)
        assert statement is not None, line
        if one := _NODE.fullmatch(statement[1]):
            assert one[1] not in nodes
            nodes[one[1]] = shown(one[2])
        elif one := _EDGE.fullmatch(statement[1]):
            assert {one[1], one[2]} <= nodes.keys()
            edges.append((one[1], shown(one[3]), one[2]))
        else:
            assert _SETTING.fullmatch(statement[1]), line
    return nodes, edges


def shown(label: str) -> str:
    """What Graphviz draws for it."""
    assert not re.search("&(?!amp;)", label), label
    return re.sub(r"\\(.)", r"\1", label).replace("&amp;", "&")


def test_a_graph_in_dot(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "depends_on", B), linked(2, C, "follows", A))
    found = episodes.told(graph_of(A, format="dot"))
    assert {name: value for name, value in found.items() if name != "dot"} == {
        "format": "dot",
        "root": called(A),
        "node_count": 3,
        "edge_count": 2,
        "truncated": False,
    }
    assert dot_of(found) == (
        {called(number): f"task {number}" for number in (A, B, C)},
        [(called(A), "depends_on", called(B)), (called(C), "follows", called(A))],
    )


@pytest.mark.parametrize(
    ("task", "label"),
    [
        ('say "hello"', 'say "hello"'),
        ("C:\\new\\", "C:\\new\\"),
        ('\\" -> "x', '\\" -> "x'),
        ('"]; evil [label="x', '"]; evil [label="x'),
        ("R&D: a &lt; b", "R&D: a &lt; b"),
        ("one\ntwo\r\n\tthree", "one two three"),
        ("bell\x07 nul\x00 del\x7f", "bell nul del"),
        ("line\u2028separator \x85 next", "line separator next"),
        ("登录用户 🤖 {a|b} <b>x</b> \\N", "登录用户 🤖 {a|b} <b>x</b> \\N"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ('"' * 200, '"' * 79 + "…"),
        ("\\" * 200, "\\" * 79 + "…"),
    ],
)
def test_whatever_a_task_says_is_a_label_in_dot(task: str, label: str) -> None:
    episodes = Episodes().given(begun(1, task))
    assert dot_of(episodes.told(graph_of(1, format="dot"))) == ({called(1): label}, [])


# --- the order -----------------------------------------------------------------------------------


def order(episodes: Episodes, *numbers: int) -> list[int]:
    found = episodes.told(order_of(*numbers))
    assert not found["has_cycles"] and "unordered" not in found
    assert found["count"] == len(found["order"])
    assert [one["position"] for one in found["order"]] == [*range(1, found["count"] + 1)]
    return [int(one["episode_id"][-4:]) for one in found["order"]]


def test_an_order_names_the_episodes(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "depends_on", B))
    assert episodes.told(order_of(A, B)) == {
        "order": [
            {"episode_id": called(B), "task_description": "task 2", "position": 1},
            {"episode_id": called(A), "task_description": "task 1", "position": 2},
        ],
        "count": 2,
        "has_cycles": False,
    }
    episodes.then()


@pytest.mark.parametrize(
    ("kind", "first"), [("depends_on", B), ("parent_child", A), ("blocks", A), ("follows", None)]
)
def test_which_comes_first_is_for_the_type_to_say(
    episodes: Episodes, kind: str, first: int | None
) -> None:
    """What is depended on, parents, and what blocks come first; other types order nothing."""
    episodes.given(linked(1, A, kind, B))
    for asked in ((A, B), (B, A)):
        assert order(episodes, *asked)[0] == (asked[0] if first is None else first)


def test_what_nothing_orders_stays_as_it_was_asked_for(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "depends_on", D))
    for asked in permutations((B, C, D)):
        assert order(episodes, *asked) == [*asked]
    assert order(episodes, A, B, C, D) == [B, C, D, A]
    assert order(episodes, B, B, A) == [B, A]


def test_types_order_together_and_only_those_that_were_asked_for(episodes: Episodes) -> None:
    episodes.given(
        linked(1, A, "depends_on", B), linked(2, C, "parent_child", B), linked(3, D, "blocks", C)
    )
    assert order(episodes, A, B, C, D) == [D, C, B, A]
    assert order(episodes, A, D, B) == [D, B, A]
    # Only what is asked for counts: by way of B alone is C before A.
    assert order(episodes, A, C) == [A, C]


def test_an_order_goes_as_far_as_there_is_one(episodes: Episodes) -> None:
    """A is before B, which is before C and after it; D is after C."""
    episodes.given(
        linked(1, A, "blocks", B),
        linked(2, B, "blocks", C),
        linked(3, B, "depends_on", C),
        linked(4, D, "depends_on", C),
    )
    for asked in permutations((A, B, C, D)):
        found = episodes.told(order_of(*asked))
        assert found["has_cycles"] is True
        assert [one["episode_id"] for one in found["order"]] == [called(A)]
        assert found["count"] == 1
        assert found["unordered"] == [called(number) for number in asked if number != A]
    assert order(episodes, A, B, D) == [A, B, D]


def test_reading_a_graph_leaves_the_state_as_it_was(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "blocks", B))
    for asked in (graph_of(A), order_of(A, B), relationships_of(A)):
        episodes.when(asked).then_nothing_changed()
    episodes.then_rebuilt()
