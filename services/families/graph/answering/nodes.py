"""Reading the graph: search_nodes, open_nodes, read_graph."""

from __future__ import annotations

from typing import Any

from mnemolog.events.envelope import Call
from mnemolog.events.graph import OpenNodes, ReadGraph, SearchNodes
from mnemolog.projections.graph import state
from mnemolog.projections.graph.containing import containing
from mnemolog.projections.state.view import View
from mnemolog.services.families.graph.replies import shown, shown_relation
from mnemolog.services.reader.reader import Read, Reader

PAGE_CHARACTERS = 1_000_000
"""A page's observations have so many at most, unless those of its first entity have more."""


def answer_search_nodes(reader: Reader, call: Call, args: SearchNodes) -> Read:
    space = reader.view.space_id(call.space)
    found = (
        []
        if space is None
        else containing(reader.view, space, args.query, args.cursor, args.limit + 1)
    )
    return _page(reader.view, found, args.limit, ended=args.include_ended)


def answer_read_graph(reader: Reader, call: Call, args: ReadGraph) -> Read:
    space = reader.view.space_id(call.space)
    found = [] if space is None else state.page(reader.view, space, args.cursor, args.limit + 1)
    return _page(reader.view, found, args.limit, ended=args.include_ended, once=True)


def answer_open_nodes(reader: Reader, call: Call, args: OpenNodes) -> Read:
    space = reader.view.space_id(call.space)
    found = [
        entity.id
        for name in dict.fromkeys(args.names)
        if (entity := state.entity_named(reader.view, space, name)) is not None
    ]
    state.check_size(reader.view, found)
    return Read(graph_of(reader.view, found, ended=args.include_ended), found)


def graph_of(view: View, ids: list[int], *, ended: bool, once: bool = False) -> dict[str, Any]:
    """The entities in the order of `ids`, and the relations that touch one of them; `once`: those
    of which the later entity is among them, so that no two pages have the same."""
    if not ids:
        return {"entities": [], "relations": []}
    by_id = {entity.id: entity for entity in state.entities(view, ids)}
    said = state.observations_of(view, ids)
    return {
        "entities": [
            {"id": number, **shown(by_id[number], said[number])}
            for number in ids
            if number in by_id
        ],
        "relations": [
            shown_relation(one, ended=ended)
            for one in state.relations_of(view, ids, ended=ended)
            if not once or max(one.source_id, one.target_id) in by_id
        ],
    }


def _page(view: View, found: list[int], limit: int, *, ended: bool, once: bool = False) -> Read:
    ids = _within(view, found[:limit])
    reply = graph_of(view, ids, ended=ended, once=once)
    if len(found) > len(ids):
        reply["next_cursor"] = ids[-1]
    return Read(reply, ids)


def _within(view: View, ids: list[int]) -> list[int]:
    """The first of `ids` whose observations fit a page together; one at least."""
    if len(ids) < 2:
        return ids
    sizes, size = state.observed_characters(view, ids), 0
    for nth, number in enumerate(ids):
        size += sizes.get(number, 0)
        if nth and size > PAGE_CHARACTERS:
            return ids[:nth]
    return ids
