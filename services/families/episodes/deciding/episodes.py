"""Deciding on episodes: begun, gone through step by step, ended, deleted."""

from __future__ import annotations

from typing import Any

import msgspec

from mnemolog.events.codec import Fact
from mnemolog.events.episodes import (
    MAX_STEP_BYTES,
    MAX_STEPS,
    AddEpisodeStep,
    CompleteEpisode,
    CreateEpisode,
    DeleteEpisode,
    EpisodeCompleted,
    EpisodeCreated,
    EpisodeDeleted,
    Outcome,
    PatternFound,
    PatternSeen,
    StepAdded,
)
from mnemolog.events.ids import uuid_of
from mnemolog.projections.episodes import patterns as known
from mnemolog.projections.episodes import relationships, state
from mnemolog.projections.episodes.text import text_of
from mnemolog.projections.times import zoned
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.episodes.deciding.learning.patterns import Shown, patterns
from mnemolog.services.families.episodes.deciding.learning.reflection import reflect
from mnemolog.services.families.episodes.deciding.learning.reward import reward
from mnemolog.services.families.episodes.deciding.learning.run import Run
from mnemolog.services.families.episodes.deciding.tags import clean_tags
from mnemolog.services.families.episodes.lookup import existing
from mnemolog.services.families.episodes.problems import invalid
from mnemolog.services.families.episodes.rules import Context

FAILED = frozenset({"error", "failure", "failed", "timeout", "timed_out", "exception"})
"""Types of a step's result that say that it failed."""


def decide_create(ctx: Context, args: CreateEpisode) -> Decided:
    space = ctx.call.space
    fact = EpisodeCreated(
        number=ctx.state.peek_id(state.EPISODES),
        episode_id=uuid_of("episode", ctx.call.id, ctx.state.partition),
        task_description=args.task_description.strip(),
        domain=args.domain.strip(),
        task_type=args.task_type,
        language=_trimmed(args.language),
        framework=_trimmed(args.framework),
        tags=clean_tags(args.tags or []),
        complexity=args.complexity,
    )
    reply = {"episode_id": fact.episode_id, "created_at": zoned(ctx.at_us), "status": "active"}
    return Decided(space, [fact], reply)


def decide_step(ctx: Context, args: AddEpisodeStep) -> Decided:
    space = ctx.call.space
    episode = _ongoing(ctx, args.episode_id)
    number = args.step_number
    if state.has_step(ctx.state, episode.id, number):
        following = episode.last_step + 1
        issue = f"is the number of a step that the episode has already; the next is {following}"
        raise invalid("step_number", issue, number)
    if episode.steps >= MAX_STEPS:
        raise invalid(
            "step_number", f"is one too many: an episode has at most {MAX_STEPS} steps", number
        )
    kind = _result_type(args.result)
    fact = StepAdded(
        number=episode.id,
        step_number=number,
        tool=args.tool.strip(),
        action=args.action,
        failed=(kind or "").lower() in FAILED,
        result_type=kind,
        parameters=_bounded("parameters", args.parameters),
        result=_bounded("result", args.result),
        latency_ms=args.latency_ms,
    )
    reply = {
        "success": True,
        "episode_id": episode.uuid,
        "step_number": number,
        "message": f"Step {number} added",
    }
    return Decided(space, [fact], reply)


def decide_complete(ctx: Context, args: CompleteEpisode) -> Decided:
    space = ctx.call.space
    episode = _ongoing(ctx, args.episode_id)
    run = Run(
        episode,
        state.outline(ctx.state, episode.id),
        state.tags(ctx.state, episode.id),
        _outcome(args),
        max(0, ctx.at_us - episode.created_at_us) / 1_000_000,
    )
    shown = patterns(run, ctx.rules)
    earned = reward(run, len(shown), ctx.rules)
    completed = EpisodeCompleted(
        number=episode.id,
        outcome=run.outcome,
        success=round(run.success, 6),
        reward=earned,
        reflection=reflect(run, ctx.rules.reflection_items),
        text=text_of(episode, run.tags, run.outcome),
    )
    facts: list[Fact] = [completed, *_evidence(ctx, run, shown, completed.success)]
    reply = {
        "success": True,
        "episode_id": episode.uuid,
        "outcome_type": run.outcome.type,
        "reward_score": earned.total,
        "patterns_learned": len(shown),
        "message": f"Episode completed: {run.outcome.type}, {len(shown)} patterns",
    }
    return Decided(space, facts, reply)


def decide_delete(ctx: Context, args: DeleteEpisode) -> Decided:
    space = ctx.call.space
    if not args.confirm:
        raise invalid("confirm", "must be true to delete an episode", args.confirm)
    episode = existing(ctx.state, space, args.episode_id)
    one = [episode.id]
    touching = {
        found.id
        for found in (
            *relationships.outgoing(ctx.state, one),
            *relationships.incoming(ctx.state, one),
        )
    }
    fact = EpisodeDeleted(
        number=episode.id,
        episode_id=episode.uuid,
        task_description=episode.description,
        status=episode.status,
        steps=episode.steps,
        outcome=episode.outcome_type,
        patterns=known.only_from(ctx.state, episode.id),
        relationships=sorted(touching),
    )
    reply = {"success": True, "episode_id": episode.uuid, "message": "Episode deleted"}
    return Decided(space, [fact], reply)


def _evidence(ctx: Context, run: Run, shown: list[Shown], success: float) -> list[Fact]:
    facts: list[Fact] = []
    space, fresh = run.episode.space, 0
    for one in shown:
        there = known.pattern_with(ctx.state, space, one.key)
        if there is None:
            fresh += 1
            number = ctx.state.peek_id(state.PATTERNS, fresh)
            facts.append(
                PatternFound(
                    pattern=number,
                    kind=one.kind,
                    key=one.key,
                    domain=run.episode.domain,
                    task_type=run.episode.task_type,
                    description=one.description,
                    text=one.text,
                    tools=one.tools,
                    tags=list(run.tags),
                )
            )
        else:
            number = there.id
        facts.append(PatternSeen(pattern=number, number=run.episode.id, success=success))
    return facts


def _ongoing(ctx: Context, episode_id: str) -> state.Episode:
    episode = existing(ctx.state, ctx.call.space, episode_id)
    if episode.completed_at_us is not None:
        issue = f"was completed at {zoned(episode.completed_at_us)}; nothing can be added to it"
        raise invalid("episode_id", issue, episode_id)
    return episode


def _outcome(args: CompleteEpisode) -> Outcome:
    """As it was told; what it must say depends on its type."""
    kind = args.outcome_type
    needed = {
        "success": ("verdict",),
        "partial_success": ("verdict", "completed", "failed"),
        "failure": ("reason",),
    }[kind]
    every = ("verdict", "artifacts", "completed", "failed", "reason", "error_details")
    given = {name: value for name in every if (value := getattr(args, name)) is not None}
    for name in needed:
        if name not in given:
            raise invalid(name, f"is required for the outcome {kind}")
    return Outcome(type=kind, **given)


def _trimmed(label: str | None) -> str | None:
    return None if label is None else label.strip()


def _result_type(result: dict[str, Any] | None) -> str | None:
    if result is None:
        return None
    kind = result.get("type", "success")
    if not isinstance(kind, str) or not 1 <= len(kind) <= 64:
        raise invalid("result.type", "must be text of 1 to 64 characters", kind)
    return kind


def _bounded(name: str, value: dict[str, Any] | None) -> str | None:
    if value is None:
        return None
    data = msgspec.json.encode(value)
    if len(data) > MAX_STEP_BYTES:
        issue = f"has {len(data):,} bytes as JSON; at most {MAX_STEP_BYTES:,} are taken"
        raise invalid(name, issue, value)
    return data.decode()
