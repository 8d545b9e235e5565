"""Deciding on relations: made, deleted, ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.events.codec import Fact
from mnemolog.events.graph import (
    CreateRelations,
    DeleteRelations,
    EndRelation,
    RelationCreated,
    RelationDeleted,
    RelationEnded,
    RelationInput,
)
from mnemolog.projections.graph import state
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.graph.deciding.entities import kept
from mnemolog.services.families.graph.rules import Context

INVERSE = {
    "contiene": "parte_de",
    "parte_de": "contiene",
    "contains": "part_of",
    "part_of": "contains",
}
"""Relations that come in pairs: one ends with the other."""


class UnknownEntity(msgspec.Struct, frozen=True):
    """An entity that a relation names and that does not exist."""

    name: str


class Holds(msgspec.Struct, frozen=True):
    """The relation that is there already."""

    relation_id: int


Related = RelationCreated | UnknownEntity | Holds


def decide_create_relations(ctx: Context, args: CreateRelations) -> Decided:
    space = ctx.call.space
    facts: list[Fact] = []
    rows: list[dict[str, Any]] = []
    errors = []
    related = relate(ctx, ctx.state.space_id(space), args.relations)
    for one, made in zip(args.relations, related, strict=True):
        if isinstance(made, UnknownEntity):
            error = f"Entity not found: {made.name}"
            rows.append({"error": error})
            errors.append(error)
            continue
        rows.append({"id": made.relation_id, **_named(one)})
        if isinstance(made, Holds):
            rows[-1]["error"] = "Relation already exists"
        else:
            facts.append(made)
    reply: dict[str, Any] = {"relations": rows}
    if errors:
        reply["errors"] = errors
    return Decided(space, facts, reply)


def relate(ctx: Context, place: int | None, relations: Sequence[RelationInput]) -> list[Related]:
    """For each relation: that it was created, which entity it lacks, or that it holds already."""
    made: dict[tuple[int, int, str], int] = {}
    found: list[Related] = []
    for one in relations:
        source = state.entity_named(ctx.state, place, one.source)
        target = state.entity_named(ctx.state, place, one.target)
        if source is None or target is None:
            found.append(UnknownEntity(one.source if source is None else one.target))
            continue
        key = (source.id, target.id, one.relation_type)
        there = state.active_relation(ctx.state, *key)
        if key in made or there is not None:
            found.append(Holds(made[key] if there is None else there.id))
            continue
        made[key] = ctx.state.peek_id(state.RELATIONS, len(made) + 1)
        found.append(
            RelationCreated(
                relation_id=made[key],
                source_id=source.id,
                target_id=target.id,
                relation_type=one.relation_type,
            )
        )
    return found


def decide_delete_relations(ctx: Context, args: DeleteRelations) -> Decided:
    space = ctx.call.space
    place = ctx.state.space_id(space)
    facts: list[Fact] = []
    gone: set[int] = set()
    deleted, errors = [], []
    for one in args.relations:
        source = state.entity_named(ctx.state, place, one.source)
        target = state.entity_named(ctx.state, place, one.target)
        if source is None or target is None:
            errors.append(f"Entity not found: {one.source} or {one.target}")
            continue
        found = state.active_relation(ctx.state, source.id, target.id, one.relation_type)
        if found is None or found.id in gone:
            errors.append(f"Relation not found: {one.source} -> {one.target} ({one.relation_type})")
            continue
        gone.add(found.id)
        facts.append(RelationDeleted(relation=kept(found)))
        deleted.append({"id": found.id, **_named(one)})
    reply: dict[str, Any] = {"deleted": deleted}
    if errors:
        reply["errors"] = errors
    return Decided(space, facts, reply)


def decide_end_relation(ctx: Context, args: EndRelation) -> Decided:
    space = ctx.call.space
    found = state.relation(ctx.state, args.relation_id)
    if found is None or found[1] != space:
        raise Refused(f"Relation {args.relation_id} does not exist")
    relation = found[0]
    if relation.ended_at_us is not None:
        return Decided(space, [], {"result": f"Relation {relation.id} was already expired"})
    facts: list[Fact] = [RelationEnded(relation_id=relation.id)]
    inverse = INVERSE.get(relation.type)
    if inverse is not None:
        other = state.active_relation(ctx.state, relation.target_id, relation.source_id, inverse)
        if other is not None:
            facts.append(RelationEnded(relation_id=other.id))
    return Decided(space, facts, {"result": f"Relation {relation.id} expired successfully"})


def _named(one: RelationInput) -> dict[str, Any]:
    return {"from": one.source, "to": one.target, "relationType": one.relation_type}
