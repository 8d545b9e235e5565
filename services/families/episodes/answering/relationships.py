"""The relationships of an episode, and whether one exists or could."""

from __future__ import annotations

from typing import Any

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import (
    ACYCLIC,
    CheckRelationshipExists,
    FindRelatedEpisodes,
    GetEpisodeRelationships,
    ValidateNoCycles,
)
from mnemolog.projections.episodes import relationships, state
from mnemolog.projections.episodes.relationships import Relationship
from mnemolog.projections.episodes.state import Episode
from mnemolog.projections.times import zoned
from mnemolog.services.families.episodes.cycles import cycle_through
from mnemolog.services.families.episodes.lookup import existing
from mnemolog.services.families.episodes.replies import shown_relationship
from mnemolog.services.reader.reader import Read, Reader


def answer_relationships(reader: Reader, call: Call, args: GetEpisodeRelationships) -> Read:
    view = reader.view
    episode = existing(view, call.space, args.episode_id)
    kinds = _kinds(args.relationship_type)
    outgoing, incoming = list[Relationship](), list[Relationship]()
    if args.direction != "incoming":
        outgoing = relationships.outgoing(view, [episode.id], kinds)
    if args.direction != "outgoing":
        incoming = relationships.incoming(view, [episode.id], kinds)
    reply = {
        "episode_id": episode.uuid,
        "outgoing": [shown_relationship(one) for one in outgoing],
        "incoming": [shown_relationship(one) for one in incoming],
        "total_count": len(outgoing) + len(incoming),
    }
    return Read(reply, [episode.id])


def answer_related(reader: Reader, call: Call, args: FindRelatedEpisodes) -> Read:
    """The newest relationship first; `count` is how many there are, whatever the limit."""
    view = reader.view
    episode = existing(view, call.space, args.episode_id)
    kinds = _kinds(args.relationship_type)
    found = [
        *((one, one.target) for one in relationships.outgoing(view, [episode.id], kinds)),
        *((one, one.source) for one in relationships.incoming(view, [episode.id], kinds)),
    ]
    newest = sorted(found, key=lambda pair: -pair[0].id)[: args.limit]
    there = state.episodes(view, episode.space, {number for _, number in newest})
    rows = [_related(one, there[number], args.include_metadata) for one, number in newest]
    reply = {"episode_id": episode.uuid, "count": len(found), "related_episodes": rows}
    return Read(reply, [episode.id, *there])


def answer_exists(reader: Reader, call: Call, args: CheckRelationshipExists) -> Read:
    view, kind = reader.view, args.relationship_type
    source = existing(view, call.space, args.from_episode_id)
    target = existing(view, call.space, args.to_episode_id)
    found = relationships.between(view, source.id, target.id, kind)
    reply = {
        "exists": found is not None,
        "from_episode_id": source.uuid,
        "to_episode_id": target.uuid,
        "relationship_type": kind,
        "relationship_id": None if found is None else found.uuid,
    }
    return Read(reply, [source.id, target.id])


def answer_no_cycles(reader: Reader, call: Call, args: ValidateNoCycles) -> Read:
    """`is_valid`: a relationship like this is not refused for the cycle that it closes. Of some
    types cycles are allowed, but an episode is never related to itself."""
    view, kind = reader.view, args.relationship_type
    source = existing(view, call.space, args.from_episode_id)
    target = existing(view, call.space, args.to_episode_id)
    cycle = cycle_through(view, source, target, kind)
    reply = {
        "would_create_cycle": bool(cycle),
        "is_valid": not cycle or (kind not in ACYCLIC and source.id != target.id),
        "cycle_path": cycle,
    }
    return Read(reply, [source.id, target.id])


def _related(one: Relationship, episode: Episode, metadata: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "episode_id": episode.uuid,
        "task_description": episode.description,
        "relationship_type": one.type,
        "direction": "outgoing" if one.target == episode.id else "incoming",
    }
    if metadata:
        row |= {
            "relationship_id": one.uuid,
            "reason": one.reason,
            "priority": one.priority,
            "created_by": one.created_by,
            "created_at": zoned(one.created_at_us),
            "domain": episode.domain,
            "task_type": episode.task_type,
            "status": episode.status,
        }
    return row


def _kinds(kind: str | None) -> list[str]:
    return [] if kind is None else [kind]
