"""Deciding on relationships between episodes."""

from __future__ import annotations

from mnemolog.events.episodes import (
    ACYCLIC,
    MAX_RELATIONSHIPS,
    AddEpisodeRelationship,
    RelationshipAdded,
    RelationshipRemoved,
    RemoveEpisodeRelationship,
)
from mnemolog.events.ids import uuid_of
from mnemolog.projections.episodes import relationships, state
from mnemolog.projections.episodes.relationships import Relationship
from mnemolog.projections.episodes.state import Episode
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.episodes.cycles import cycle_through
from mnemolog.services.families.episodes.lookup import existing, named
from mnemolog.services.families.episodes.problems import invalid, not_found
from mnemolog.services.families.episodes.replies import shown_relationship
from mnemolog.services.families.episodes.rules import Context


def decide_relate(ctx: Context, args: AddEpisodeRelationship) -> Decided:
    space, kind = ctx.call.space, args.relationship_type
    source = existing(ctx.state, space, args.from_episode_id)
    target = existing(ctx.state, space, args.to_episode_id)
    _check(ctx, source, target, kind)
    fact = RelationshipAdded(
        relationship=ctx.state.peek_id(state.RELATIONSHIPS),
        relationship_id=uuid_of("relationship", ctx.call.id, ctx.state.partition),
        source=source.id,
        target=target.id,
        relationship_type=kind,
        reason=None if args.reason is None else args.reason.strip(),
        priority=args.priority,
        created_by=args.created_by or ctx.call.actor or None,
    )
    made = Relationship(
        fact.relationship,
        fact.relationship_id,
        source.id,
        target.id,
        source.uuid,
        target.uuid,
        kind,
        fact.reason,
        fact.priority,
        fact.created_by,
        ctx.at_us,
    )
    reply = {
        "success": True,
        "relationship_id": fact.relationship_id,
        "relationship": shown_relationship(made),
        "message": f"Relationship {kind} added",
    }
    return Decided(space, [fact], reply)


def decide_unrelate(ctx: Context, args: RemoveEpisodeRelationship) -> Decided:
    space, wanted = ctx.call.space, named(args.relationship_id)
    found = relationships.relationship(ctx.state, ctx.state.space_id(space), wanted)
    if found is None:
        raise not_found("relationship", args.relationship_id)
    fact = RelationshipRemoved(
        relationship=found.id,
        relationship_id=found.uuid,
        source=found.source,
        target=found.target,
        source_id=found.source_id,
        target_id=found.target_id,
        relationship_type=found.type,
    )
    reply = {
        "success": True,
        "relationship_id": found.uuid,
        "message": f"Relationship {found.type} removed",
    }
    return Decided(space, [fact], reply)


def _check(ctx: Context, source: Episode, target: Episode, kind: str) -> None:
    """Refuses what the graph of relationships must not have."""
    view = ctx.state
    if source.id == target.id:
        issue = "is the episode that it begins at; an episode is not related to itself"
        raise invalid("to_episode_id", issue, target.uuid)
    there = relationships.between(view, source.id, target.id, kind)
    if there is not None:
        issue = f"has this relationship, {kind}, from the same episode already: {there.uuid}"
        raise invalid("to_episode_id", issue, target.uuid)
    for field, one in (("from_episode_id", source), ("to_episode_id", target)):
        if relationships.count_of(view, one.id) >= MAX_RELATIONSHIPS:
            issue = f"has {MAX_RELATIONSHIPS:,} relationships, as many as are kept: remove some"
            raise invalid(field, issue, one.uuid)
    cycle = cycle_through(view, source, target, kind) if kind in ACYCLIC else []
    if cycle:
        issue = (
            f"leads back by {kind} to the episode that it begins at; cycle_path has the"
            f" {len(cycle) - 1} episodes of the cycle"
        )
        raise invalid("to_episode_id", issue, target.uuid, cycle_path=cycle)
