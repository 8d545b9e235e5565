"""Deciding on sessions: what start_session opens and end_session sets going."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np

from mnemolog.events.arguments import Refused
from mnemolog.events.codec import Fact
from mnemolog.events.ids import session_id
from mnemolog.events.robot import (
    EndSession,
    MemoriesConsolidated,
    MemoriesDecayed,
    SessionEnded,
    SessionStarted,
    StartSession,
)
from mnemolog.projections.language import jaccard, token_set
from mnemolog.projections.ranking.fusion import fuse
from mnemolog.projections.robot import state
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.robot.deciding.memories import json_text
from mnemolog.services.families.robot.rules import Context, RobotRules


class Merge(msgspec.Struct, frozen=True):
    """Memories that say much the same: one is kept, the others point to it."""

    kept: int
    superseded: list[int]
    similarities: list[float]


def decide_start_session(ctx: Context, args: StartSession) -> Decided:
    space = ctx.call.space
    number = session_id(ctx.call.id, ctx.state.partition)
    context = json_text("context", args.context) or ""
    return Decided(
        space,
        [SessionStarted(session_id=number, collection=args.collection, context=context)],
        {
            "session_id": number,
            "collection": args.collection,
            "active_memories_count": state.active_count(ctx.state, space),
        },
    )


def decide_end_session(ctx: Context, args: EndSession) -> Decided:
    session = state.session(ctx.state, args.session_id)
    if session is None or not session.space.startswith(f"{ctx.call.tenant}/robot/"):
        raise Refused(f"Session {args.session_id[:64]!r} does not exist; start_session makes one")
    if session.ended:
        raise Refused(f"Session {args.session_id} has already ended")
    rules = ctx.rules
    place = ctx.state.space_id(session.space)
    assert place is not None
    memories = state.session_memories(ctx.state, session.id)
    decayed = state.decayable(
        ctx.state,
        place,
        ctx.at_us,
        rules.decay_after_days,
        rules.decay_floor,
        rules.protected,
    )
    eligible = [one for one in memories if _can_merge(one, rules)]
    merges = merge(eligible, rules)
    facts: list[Fact] = []
    if decayed:
        facts.append(
            MemoriesDecayed(
                collection=state.collection_of(session.space),
                rate=rules.decay_rate,
                min_days=rules.decay_after_days,
                floor=rules.decay_floor,
                spared=list(rules.protected),
            )
        )
    facts += [
        MemoriesConsolidated(session_id=session.id, kept=one.kept, superseded=one.superseded)
        for one in merges
    ]
    facts.append(SessionEnded(session_id=session.id, outcome_score=args.outcome_score))
    superseded = sum(len(one.superseded) for one in merges)
    similarities = [value for one in merges for value in one.similarities]
    summary: dict[str, Any] = {
        "memory_count": len(memories),
        "by_type": dict(Counter(one.kind for one in memories)),
        "by_category": dict(Counter(one.category for one in memories)),
    }
    if args.outcome_score is not None:
        summary["outcome_score"] = args.outcome_score
    return Decided(
        session.space,
        facts,
        {
            "status": "ended",
            "session_id": session.id,
            "summary": summary,
            "decayed_count": decayed,
            "consolidated": {
                "merged_groups": len(merges),
                "superseded_count": superseded,
                "compression_ratio": round(superseded / len(eligible), 4) if eligible else 0.0,
                "avg_similarity": round(sum(similarities) / len(similarities), 4)
                if similarities
                else 0.0,
            },
            "related_memories": related(ctx, place, memories),
        },
    )


def merge(eligible: list[state.Memory], rules: RobotRules) -> list[Merge]:
    """Which memories are merged into which, within one category each.

    The most trusted memory is taken first and gathers what is similar to it, so every superseded
    memory really is similar to the one that is kept; a chain of small steps merges nothing.
    """
    if len(eligible) < rules.consolidate_from:
        return []
    words = {one.id: token_set(one.content) for one in eligible}
    waiting = sorted(
        eligible,
        key=lambda one: (one.confidence, one.access_count, one.created_at_us, one.id),
        reverse=True,
    )
    merges = []
    while waiting:
        kept, *rest = waiting
        close = {
            one.id: similarity
            for one in rest
            if one.category == kept.category
            and (similarity := jaccard(words[kept.id], words[one.id])) > rules.consolidate_jaccard
        }
        if close:
            merges.append(Merge(kept.id, sorted(close), [close[one] for one in sorted(close)]))
        waiting = [one for one in rest if one.id not in close]
    return merges


def related(ctx: Context, place: int, memories: list[state.Memory]) -> list[dict[str, Any]]:
    """Memories from outside the session that are close to what it was about.

    Ranked from the state alone, exactly, so that every node that decides comes to the same list.
    """
    if not memories:
        return []
    own = {one.id for one in memories}
    wanted = ctx.rules.related
    text = " ".join(one.content for one in memories)
    depth = wanted * 4 + len(own)
    legs = [state.rank_by_words(ctx.state, place, text, depth)]
    if ctx.model is not None:
        vectors = state.vectors_of(ctx.state, ctx.model.name, sorted(own))
        if vectors:
            mean = np.mean(np.stack(vectors).astype(np.float64), axis=0)
            centre = (mean / np.linalg.norm(mean)).astype(np.float16)
            near = state.nearest(ctx.state).top(place, ctx.model.name, centre, depth)
            legs.append([one.id for one in near])
    legs = [[number for number in leg if number not in own] for leg in legs]
    candidates = sorted({number for leg in legs for number in leg})
    if not candidates:
        return []
    rows = {one.id: one for one in state.memories(ctx.state, candidates)}
    ranked = fuse(legs, {number: row.context for number, row in rows.items()})[:wanted]
    return [
        {"id": number, "content": rows[number].content, "_rrf_score": score}
        for number, score in ranked
    ]


def _can_merge(memory: state.Memory, rules: RobotRules) -> bool:
    return (
        memory.kind == "fact"
        and memory.category not in rules.protected
        and memory.confidence < rules.consolidate_below_confidence
    )
