"""Reading the graph: search_nodes, open_nodes, read_graph."""

from __future__ import annotations

from typing import Any

from mnemolog.events.arguments import Arguments, Refused
from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Call
from mnemolog.events.graph import (
    MAX_TOGETHER,
    EntitiesAccessed,
    EntitiesCoOccurred,
    OpenNodes,
    ReadGraph,
    SearchNodes,
    SearchSemantic,
)
from mnemolog.projections.state import graph as state
from mnemolog.projections.state.store import View
from mnemolog.projections.times import iso
from mnemolog.services.decider.graph.entities import shown
from mnemolog.services.decider.tool import Context, Decided, Read, Reader

PAGE_CHARACTERS = 1_000_000
"""A page's observations have so many at most, unless those of its first entity have more."""


def answer_search_nodes(reader: Reader, call: Call, args: SearchNodes) -> Read:
    space = reader.view.space_id(state.graph_space(call.tenant))
    found = (
        []
        if space is None
        else state.containing(reader.view, space, args.query, args.cursor, args.limit + 1)
    )
    return _page(reader.view, found, args.limit, ended=args.include_ended)


def answer_read_graph(reader: Reader, call: Call, args: ReadGraph) -> Read:
    space = reader.view.space_id(state.graph_space(call.tenant))
    found = [] if space is None else state.page(reader.view, space, args.cursor, args.limit + 1)
    return _page(reader.view, found, args.limit, ended=args.include_ended, once=True)


def answer_open_nodes(reader: Reader, call: Call, args: OpenNodes) -> Read:
    space = reader.view.space_id(state.graph_space(call.tenant))
    found = [
        entity.id
        for name in dict.fromkeys(args.names)
        if (entity := state.entity_named(reader.view, space, name)) is not None
    ]
    state.check_size(reader.view, found)
    return Read(graph_of(reader.view, found, ended=args.include_ended), found)


def decide_looked(ctx: Context, args: Arguments) -> Decided:
    """Looking through the graph is on the log; it does not make what was seen more important."""
    return Decided(state.graph_space(ctx.call.tenant), [], {"ids": _returned(ctx)})


def decide_open_nodes(ctx: Context, args: OpenNodes | SearchSemantic) -> Decided:
    space = state.graph_space(ctx.call.tenant)
    returned = _returned(ctx)
    place = ctx.state.space_id(space)
    there = {
        row[0]
        for number in returned
        for row in ctx.state.all("SELECT id FROM entity WHERE id = ? AND space = ?", number, place)
    }
    ids = [number for number in returned if number in there]
    facts: list[Fact] = [EntitiesAccessed(entity_ids=ids)] if ids else []
    if len(ids) > 1:
        facts.append(EntitiesCoOccurred(entity_ids=ids[:MAX_TOGETHER]))
    return Decided(space, facts, {"ids": returned})


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


def shown_relation(relation: state.Relation, *, ended: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": relation.id,
        "from": relation.source,
        "to": relation.target,
        "relationType": relation.type,
    }
    if ended:
        found["active"] = relation.ended_at_us is None
        at_us = relation.ended_at_us
        found["ended_at"] = None if at_us is None else iso(at_us)
    return found


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


def _returned(ctx: Context) -> list[int]:
    if ctx.call.answered is None:
        raise Refused("A read is answered by a gateway; this call was recorded without its answer")
    return ctx.call.answered.ids
