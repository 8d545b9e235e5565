"""Deciding on sessions: what start_session opens and end_session sets going."""

from __future__ import annotations

from collections import Counter
from typing import Any

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
from mnemolog.projections.ranking.fusion import fuse, source_weight
from mnemolog.projections.robot import state
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.robot.deciding.memories import json_text
from mnemolog.services.families.robot.deciding.merging import merge
from mnemolog.services.families.robot.rules import Context, RobotRules


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


def related(ctx: Context, place: int, memories: list[state.Brief]) -> list[dict[str, Any]]:
    """Memories from outside the session that are close to what it was about, told by the newest of
    its own.

    Ranked from the state alone, exactly, so that every node that decides comes to the same list.
    """
    if not memories:
        return []
    own = {one.id for one in memories}
    wanted = ctx.rules.related
    newest = memories[max(0, len(memories) - ctx.rules.related_from) :]
    text = " ".join(one.content for one in newest)
    depth = wanted * 4 + len(own)
    legs = [state.rank_by_words(ctx.state, place, text, depth)]
    if ctx.model is not None:
        vectors = state.vectors_of(ctx.state, ctx.model.name, [one.id for one in newest])
        if vectors:
            mean = np.mean(np.stack(vectors).astype(np.float64), axis=0)
            centre = (mean / np.linalg.norm(mean)).astype(np.float16)
            near = state.nearest(ctx.state).top(place, ctx.model.name, centre, depth)
            legs.append([one.id for one in near])
    legs = [[number for number in leg if number not in own][: wanted * 4] for leg in legs]
    candidates = sorted({number for leg in legs for number in leg})
    weights = {
        one.id: source_weight(one.context)
        for one in state.candidates(ctx.state, place, candidates, contexts=False)
    }
    ranked = fuse(legs, weights)[:wanted]
    contents = state.contents(ctx.state, [number for number, _ in ranked])
    return [
        {"id": number, "content": contents[number], "_rrf_score": score} for number, score in ranked
    ]


def _can_merge(memory: state.Brief, rules: RobotRules) -> bool:
    return (
        memory.kind == "fact"
        and memory.category not in rules.protected
        and memory.confidence < rules.consolidate_below_confidence
    )
