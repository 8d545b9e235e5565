"""Searching by meaning: search_semantic, search_reflections; and reflections themselves."""

from __future__ import annotations

from typing import Any

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Call
from mnemolog.events.graph import AddReflection, ReflectionAdded, SearchReflections, SearchSemantic
from mnemolog.projections.semantic import Found, Sources, search_entities, search_reflections, shown
from mnemolog.projections.state import graph as state
from mnemolog.projections.state import meaning
from mnemolog.services.decider.graph.reads import decide_looked, decide_open_nodes
from mnemolog.services.decider.tool import Context, Decided, Read, Reader, no_model


def answer_search_semantic(reader: Reader, call: Call, args: SearchSemantic) -> Read:
    space = state.graph_space(call.tenant)
    sources = _sources(reader, args.query)
    found = search_entities(sources, space, args.query, args.limit, call.received_at_us)
    return _read(reader, sources, found)


def answer_search_reflections(reader: Reader, call: Call, args: SearchReflections) -> Read:
    sources = _sources(reader, args.query)
    found = search_reflections(sources, state.graph_space(call.tenant), args)
    return _read(reader, sources, found)


def decide_search_semantic(ctx: Context, args: SearchSemantic) -> Decided:
    """What a search by meaning returned counts as used, as what was opened by name does."""
    if ctx.call.answered is None:
        raise no_model(ctx.model)
    return decide_open_nodes(ctx, args)


def decide_search_reflections(ctx: Context, args: SearchReflections) -> Decided:
    if ctx.call.answered is None:
        raise no_model(ctx.model)
    return decide_looked(ctx, args)


def decide_add_reflection(ctx: Context, args: AddReflection) -> Decided:
    space = state.graph_space(ctx.call.tenant)
    _check_target(ctx, ctx.state.space_id(space), args)
    fact = ReflectionAdded(
        reflection_id=ctx.state.peek_id(meaning.REFLECTIONS),
        target_type=args.target_type,
        target_id=args.target_id,
        author=args.author,
        content=args.content,
        mood=args.mood,
    )
    made = meaning.Reflection(
        fact.reflection_id,
        fact.target_type,
        fact.target_id,
        fact.author,
        fact.content,
        fact.mood,
        ctx.at_us,
    )
    return Decided(space, [fact], {"result": shown(made)})


def _sources(reader: Reader, query: str) -> Sources:
    vector = reader.embed(query)
    model = reader.loaded()
    if model is None:
        raise no_model(None)
    return Sources(reader.view, reader.text, reader.vectors, vector, model)


def _read(reader: Reader, sources: Sources, found: Found) -> Read:
    reply: dict[str, Any] = {"results": found.rows}
    if reader.pending:
        reply["pending"] = reader.pending
    mode = "bm25_only" if sources.vector is None or found.away else "hybrid"
    if found.away:
        reply["mode"] = mode
    return Read(reply, [row["id"] for row in found.rows], mode)


def _check_target(ctx: Context, place: int | None, args: AddReflection) -> None:
    kind, number = args.target_type, args.target_id
    if kind in ("session", "global"):
        if number is not None:
            raise Refused(f"target_id must be null for target_type {kind}, not {number}")
        return
    if number is None:
        raise Refused(f"target_id is required for target_type {kind}: the id of the {kind}")
    table = "entity" if kind == "entity" else "relation"
    row = ctx.state.one(f"SELECT 1 FROM {table} WHERE id = ? AND space = ?", number, place)
    if row is None:
        raise Refused(f"{kind.capitalize()} {number} does not exist")
