"""Deciding on entities and their observations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.events.codec import Fact
from mnemolog.events.graph import (
    DEFAULT_TYPE,
    MAX_OBSERVATIONS,
    AddObservations,
    CreateEntities,
    DeleteEntities,
    DeleteObservations,
    DeletionInput,
    EntitiesAccessed,
    EntityCreated,
    EntityDeleted,
    EntityInput,
    EntityTypeChanged,
    ObservationInput,
    ObservationsAdded,
    ObservationsRemoved,
    RelationKept,
)
from mnemolog.projections.graph import state
from mnemolog.projections.state.view import View
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.graph.deciding.similar import flagged
from mnemolog.services.families.graph.replies import changed
from mnemolog.services.families.graph.rules import Context


class Merged(msgspec.Struct, frozen=True):
    """What follows when entities are created or added to: the facts, and by name the entities as
    they are then, with their observations."""

    facts: list[Fact]
    known: dict[str, state.Entity]
    said: dict[str, list[str]]


def decide_create_entities(ctx: Context, args: CreateEntities) -> Decided:
    space = ctx.call.space
    _check_counts((one.name, one.observations or []) for one in args.entities)
    merged = merge(ctx, ctx.state.space_id(space), args.entities)
    return Decided(space, merged.facts, {"changed": changed(merged.known.values())})


def merge(ctx: Context, place: int | None, entities: Sequence[EntityInput]) -> Merged:
    """One entity may be named twice: the second adds to the first."""
    facts: list[Fact] = []
    known: dict[str, state.Entity] = {}
    said: dict[str, list[str]] = {}
    fresh = 0
    for one in entities:
        kind = (one.entity_type or "").strip() and one.entity_type
        entity = known.get(one.name) or state.entity_named(ctx.state, place, one.name)
        if entity is None:
            fresh += 1
            number = ctx.state.peek_id(state.ENTITIES, fresh)
            entity = state.Entity(number, one.name, kind or DEFAULT_TYPE)
            said[one.name] = []
            facts.append(EntityCreated(entity_id=number, name=entity.name, entity_type=entity.type))
        elif kind and kind != entity.type:
            entity = state.Entity(entity.id, entity.name, kind)
            facts.append(EntityTypeChanged(entity_id=entity.id, entity_type=entity.type))
        if one.name not in said:
            said[one.name] = state.observations(ctx.state, entity.id)
        known[one.name] = entity
        facts += added(ctx, entity.id, said[one.name], one.observations or [])
    return Merged(facts, known, said)


def decide_add_observations(ctx: Context, args: AddObservations) -> Decided:
    """In the shape that was asked: one entity by name, or a list of entities."""
    space = ctx.call.space
    place = ctx.state.space_id(space)
    inputs = [one for one in args.observations if isinstance(one, ObservationInput)]
    texts = [one for one in args.observations if isinstance(one, str)]
    if args.name is not None and not inputs:
        entity = existing(ctx.state, place, args.name)
        before = state.observations(ctx.state, entity.id)
        facts: list[Fact] = [*added(ctx, entity.id, before, texts)]
        if texts:
            facts.append(EntitiesAccessed(entity_ids=[entity.id]))
        return Decided(space, facts, {"changed_one": changed([entity])})
    if texts or not _all_of(args.name, inputs):
        raise Refused(
            "Give either name with observations as a list of texts, or observations as a list of "
            "{entityName, contents}"
        )
    _check_counts((one.entity_name, one.contents) for one in inputs)
    facts = []
    results: list[dict[str, Any]] = []
    said: dict[int, list[str]] = {}
    for one in inputs:
        entity = existing(ctx.state, place, one.entity_name)
        if entity.id not in said:
            said[entity.id] = state.observations(ctx.state, entity.id)
        novel = added(ctx, entity.id, said[entity.id], one.contents)
        facts += novel
        new = [text for fact in novel for text in fact.observations]
        results.append({"entityName": entity.name, "addedObservations": new})
    if said:
        facts.append(EntitiesAccessed(entity_ids=sorted(said)))
    return Decided(space, facts, {"results": results})


def decide_delete_entities(ctx: Context, args: DeleteEntities) -> Decided:
    space = ctx.call.space
    place = ctx.state.space_id(space)
    facts: list[Fact] = []
    deleted: dict[str, None] = {}
    gone: set[int] = set()
    errors = []
    for name in args.entity_names:
        entity = None if name in deleted else state.entity_named(ctx.state, place, name)
        if entity is None:
            errors.append(f"Entity not found: {name}")
            continue
        deleted[name] = None
        touching = state.relations_of(ctx.state, [entity.id], ended=True)
        facts.append(
            EntityDeleted(
                entity_id=entity.id,
                name=entity.name,
                entity_type=entity.type,
                observations=state.observations(ctx.state, entity.id),
                relations=[kept(one) for one in touching if one.id not in gone],
            )
        )
        gone |= {one.id for one in touching}
    reply: dict[str, Any] = {"deleted": list(deleted)}
    if errors:
        reply["errors"] = errors
    return Decided(space, facts, reply)


def decide_delete_observations(ctx: Context, args: DeleteObservations) -> Decided:
    """Texts that an entity does not have are passed over, as documented."""
    space = ctx.call.space
    place = ctx.state.space_id(space)
    if args.name is not None and args.observations is not None and args.deletions is None:
        entity = existing(ctx.state, place, args.name)
        facts = _removed(ctx, entity, args.observations)
        return Decided(space, facts, {"changed_one": changed([entity])})
    if (
        args.deletions is None
        or args.observations is not None
        or not _all_of(args.name, args.deletions)
    ):
        raise Refused(
            "Give either name and observations, or deletions as a list of "
            "{entityName, observations}"
        )
    wanted: dict[int, tuple[state.Entity, list[str]]] = {}
    for one in args.deletions:
        found = state.entity_named(ctx.state, place, one.entity_name)
        if found is not None:
            wanted.setdefault(found.id, (found, []))[1].extend(one.observations)
    facts = []
    for entity, texts in wanted.values():
        facts += _removed(ctx, entity, texts)
    return Decided(space, facts, {"success": True, "message": "Observations deleted successfully"})


def kept(relation: state.Relation) -> RelationKept:
    return RelationKept(relation.id, relation.source, relation.target, relation.type)


def existing(view: View, place: int | None, name: str) -> state.Entity:
    entity = state.entity_named(view, place, name)
    if entity is None:
        raise Refused(f"Entity not found: {name}")
    return entity


def added(ctx: Context, entity: int, said: list[str], texts: list[str]) -> list[ObservationsAdded]:
    """What is new of `texts`; `said` is brought up to it."""
    before = set(said)
    new = [text for text in dict.fromkeys(texts) if text not in before]
    if not new:
        return []
    size = sum(map(len, said)) + sum(map(len, new))
    if size > state.MAX_ANSWER_CHARACTERS:
        raise Refused(
            f"The entity would have {size:,} characters of observations; at most "
            f"{state.MAX_ANSWER_CHARACTERS:,} can be shown again: split it, or delete what is no "
            "longer so"
        )
    resembling = flagged(said, new, ctx.rules)
    said += new
    return [ObservationsAdded(entity_id=entity, observations=new, flagged=resembling)]


def _all_of(name: str | None, given: Sequence[ObservationInput | DeletionInput]) -> bool:
    """Whether a name beside a list that names its entities says nothing else than the list."""
    return name is None or all(one.entity_name == name for one in given)


def _check_counts(given: Iterable[tuple[str, list[str]]]) -> None:
    """An entity may be named twice in a call; the limit is the same."""
    counts = Counter[str]()
    for name, texts in given:
        counts[name] += len(texts)
        if counts[name] > MAX_OBSERVATIONS:
            raise Refused(
                f"{name[:60]} gets {counts[name]} observations; at most {MAX_OBSERVATIONS} an "
                "entity are allowed in a call"
            )


def _removed(ctx: Context, entity: state.Entity, texts: list[str]) -> list[Fact]:
    said = set(state.observations(ctx.state, entity.id))
    gone = {text: None for text in texts if text in said}
    return [ObservationsRemoved(entity_id=entity.id, observations=list(gone))] if gone else []
