"""Deciding on splits: observations of an entity that has grown too large, moved to others."""

from __future__ import annotations

from typing import Any

from mnemolog.events.arguments import Refused
from mnemolog.events.codec import Fact
from mnemolog.events.graph import (
    EntityCreated,
    EntitySplit,
    ExecuteEntitySplit,
    ObservationsRemoved,
    RelationCreated,
    SplitInput,
    SplitPart,
)
from mnemolog.projections.graph import state
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.graph.deciding.entities import added, existing
from mnemolog.services.families.graph.rules import Context

CONTAINS, PART_OF = "contiene", "parte_de"


def decide_execute(ctx: Context, args: ExecuteEntitySplit) -> Decided:
    space = ctx.call.space
    place = ctx.state.space_id(space)
    entity = existing(ctx.state, place, args.entity_name)
    said = state.observations(ctx.state, entity.id)
    moved = _moved(entity.name, said, args.approved_splits)
    parent = entity
    if args.parent_entity_name is not None:
        parent = existing(ctx.state, place, args.parent_entity_name)
    facts: list[Fact] = []
    parts: list[state.Entity] = []
    made: list[str] = []
    merged: list[str] = []
    for one in args.approved_splits:
        if one.name in (entity.name, parent.name):
            whose = "the entity that is split" if one.name == entity.name else "the parent"
            raise Refused(f"approved_splits names {whose}, {one.name!r}; a part needs its own name")
        part = state.entity_named(ctx.state, place, one.name)
        if part is None:
            number = ctx.state.peek_id(state.ENTITIES, len(made) + 1)
            part = state.Entity(number, one.name, one.entity_type)
            facts.append(EntityCreated(entity_id=number, name=part.name, entity_type=part.type))
            made.append(part.name)
        elif part.type != one.entity_type:
            raise Refused(
                f"Entity {one.name!r} exists already as a {part.type}, not a {one.entity_type}; "
                "give its own type to move observations into it, or another name"
            )
        else:
            merged.append(part.name)
        parts.append(part)
    facts.append(ObservationsRemoved(entity_id=entity.id, observations=moved))
    for part, one in zip(parts, args.approved_splits, strict=True):
        before = [] if part.name in made else state.observations(ctx.state, part.id)
        facts += added(ctx, part.id, before, one.observations)
    relations = _tied(ctx, parent, parts)
    split = EntitySplit(
        entity_id=entity.id,
        name=entity.name,
        parts=[
            SplitPart(part.id, part.name, len(one.observations))
            for part, one in zip(parts, args.approved_splits, strict=True)
        ],
        parent_id=parent.id,
    )
    result: dict[str, Any] = {
        "new_entities": made,
        "moved_observations": len(moved),
        "relations_created": len(relations),
        "original_observations_remaining": len(said) - len(moved),
    }
    if merged:
        result["merged_into"] = merged
    return Decided(space, [split, *facts, *relations], {"result": result})


def _moved(entity: str, said: list[str], splits: list[SplitInput]) -> list[str]:
    """All that is to be moved, in order; refuses what cannot be."""
    known, moved, names = set(said), dict[str, None](), set[str]()
    for one in splits:
        if one.name in names:
            raise Refused(f"approved_splits has two parts named {one.name!r}; make them one")
        names.add(one.name)
        for text in one.observations:
            if text not in known:
                raise Refused(f"{entity} does not have the observation {_cut(text)!r}")
            if text in moved:
                raise Refused(
                    f"The observation {_cut(text)!r} is to be moved twice; name it once, in one "
                    "part"
                )
            moved[text] = None
    return list(moved)


def _tied(ctx: Context, parent: state.Entity, parts: list[state.Entity]) -> list[Fact]:
    """The relations that tie the parts to their parent and are not there yet."""
    wanted = [
        one
        for part in parts
        for one in ((parent.id, part.id, CONTAINS), (part.id, parent.id, PART_OF))
    ]
    missing = [one for one in wanted if state.active_relation(ctx.state, *one) is None]
    return [
        RelationCreated(
            relation_id=ctx.state.peek_id(state.RELATIONS, nth),
            source_id=source,
            target_id=target,
            relation_type=kind,
        )
        for nth, (source, target, kind) in enumerate(missing, start=1)
    ]


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
