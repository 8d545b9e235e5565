"""What search_nodes looks into is part of the canonical hash: emptied by hand, it is found."""

from __future__ import annotations

import pytest

from tests.spec.given_graph import Graph, add, create, delete, entity

PARTS = {
    "the texts": ("DELETE FROM node", {"node", "node_text"}),
    "one text": ("DELETE FROM node WHERE content = 'wet'", {"node", "node_text"}),
    "the texts of the index": ("DELETE FROM node_text", {"node_text", "node_terms"}),
    "one text of the index": (
        "DELETE FROM node_text WHERE content = 'wet'",
        {"node_text", "node_terms"},
    ),
    "what the index stores": ("DELETE FROM node_text_content", {"node_text"}),
    "the terms of the index": (
        "DELETE FROM node_text_data WHERE id > 10; DELETE FROM node_text_idx",
        {"node_terms"},
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_an_emptied_part_is_found(graph: Graph, part: str) -> None:
    graph.after(create(entity("Cup", "Thing", "wet", "red")), add("Cup", "on the tray"))
    before = graph.state.digest()
    statements, expected = PARTS[part]
    graph.state.view.connection.executescript(statements)
    after = graph.state.digest()
    assert {name for name in before if before[name] != after[name]} == expected


def test_what_came_and_went_leaves_no_trace_in_it(graph: Graph) -> None:
    graph.after(create(entity("Cup", "Thing", "wet")))
    before = graph.state.digest()
    graph.after(create(entity("Pan", "Thing", "hot")), delete("Pan"))
    after = graph.state.digest()
    for name in ("node", "node_text", "node_terms"):
        assert before[name] == after[name], name
