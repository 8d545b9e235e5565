"""How episodes, steps, patterns and relationships are shown in replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mnemolog.projections.episodes import patterns as known
from mnemolog.projections.episodes import state
from mnemolog.projections.episodes.patterns import Pattern
from mnemolog.projections.episodes.relationships import Relationship
from mnemolog.projections.episodes.state import Episode, Step
from mnemolog.projections.state.view import View
from mnemolog.projections.times import zoned


def shown_episode(episode: Episode, tags: Sequence[str]) -> dict[str, Any]:
    """An episode without what it consists of."""
    row: dict[str, Any] = {
        "id": episode.uuid,
        "context": episode.description,
        "task_description": episode.description,
        "domain": episode.domain,
        "task_type": episode.task_type,
        "language": episode.language,
        "framework": episode.framework,
        "complexity": episode.complexity,
        "tags": list(tags),
        "status": episode.status,
        "created_at": zoned(episode.created_at_us),
        "completed_at": at(episode.completed_at_us),
        "duration_ms": episode.duration_ms,
        "step_count": episode.steps,
        "outcome": shown_outcome(episode),
        "reward_score": episode.reward,
    }
    return {name: value for name, value in row.items() if value is not None or name in _ALWAYS}


_ALWAYS = frozenset({"outcome", "reward_score", "completed_at"})


def shown_outcome(episode: Episode) -> dict[str, Any] | None:
    found = episode.ended
    return None if found is None else msgspec.to_builtins(found)


def shown_reflection(episode: Episode) -> dict[str, Any] | None:
    found = episode.reflected
    if found is None:
        return None
    return {
        "successes": found.successes,
        "improvements": found.improvements,
        "insights": found.insights,
        "generated_at": at(episode.completed_at_us),
    }


def shown_step(step: Step) -> dict[str, Any]:
    row = {
        "step_number": step.number,
        "timestamp": zoned(step.at_us),
        "tool": step.tool,
        "action": step.action,
        "parameters": _parsed(step.parameters),
        "result": _parsed(step.result),
        "latency_ms": step.latency_ms,
    }
    return {name: value for name, value in row.items() if value is not None}


def shown_pattern(pattern: Pattern) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": pattern_id(pattern.id),
        "type": pattern.kind,
        "description": pattern.description,
        "success_rate": round(pattern.success_rate, 4),
        "occurrences": pattern.occurrences,
        "domain": pattern.domain,
        "task_type": pattern.task_type,
        "tools": pattern.tool_names,
        "tags": pattern.tag_names,
        "first_seen": zoned(pattern.first_at_us),
        "last_seen": zoned(pattern.last_at_us),
    }
    return row


def shown_relationship(one: Relationship) -> dict[str, Any]:
    return {
        "id": one.uuid,
        "from": one.source_id,
        "to": one.target_id,
        "relationship_type": one.type,
        "reason": one.reason,
        "priority": one.priority,
        "created_by": one.created_by,
        "created_at": zoned(one.created_at_us),
    }


def whole_episode(view: View, episode: Episode) -> dict[str, Any]:
    """An episode with everything that belongs to it."""
    reward = episode.reward_parts
    return {
        **shown_episode(episode, state.tags(view, episode.id)),
        "steps": [shown_step(one) for one in state.steps(view, episode.id)],
        "patterns": [shown_pattern(one) for one in known.patterns_of(view, episode.id)],
        "reflection": shown_reflection(episode),
        "reward": None if reward is None else msgspec.to_builtins(reward),
    }


def mean(values: Sequence[float]) -> float | None:
    """To four places; None where there is nothing."""
    return round(sum(values) / len(values), 4) if values else None


def pattern_id(number: int) -> str:
    return f"pattern-{number}"


def at(at_us: int | None) -> str | None:
    return None if at_us is None else zoned(at_us)


def _parsed(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
