"""What the episodes family's facts do to the state."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.episodes import (
    CodeExecuted,
    EmbeddingsConfigured,
    EpisodeCompleted,
    EpisodeCreated,
    EpisodeDeleted,
    EpisodeEmbedded,
    EpisodeTagged,
    MeaningProvided,
    PatternEmbedded,
    PatternFound,
    PatternSeen,
    RelationshipAdded,
    RelationshipRemoved,
    StepAdded,
)
from mnemolog.projections.episodes import provided
from mnemolog.projections.episodes.state import (
    DESCRIBED,
    EPISODE,
    EPISODES,
    PATTERN,
    PATTERNS,
    RELATIONSHIPS,
)
from mnemolog.projections.projection import Evolve
from mnemolog.projections.state.view import Moment, Writable


def _created(view: Writable, fact: EpisodeCreated, moment: Moment, decision: Decision) -> None:
    view.take_id(EPISODES)
    space = view.ensure_space(moment.space)
    view.run(
        "INSERT INTO episode (id, space, uuid, description, domain, task_type, language,"
        " framework, complexity, version, created_at_us, steps, failed_steps, latency_ms,"
        " last_step) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, 0, 0, 0, 0)",
        fact.number,
        space,
        fact.episode_id,
        fact.task_description,
        fact.domain,
        fact.task_type,
        fact.language,
        fact.framework,
        fact.complexity,
        moment.at_us,
    )
    for tag in fact.tags:
        view.run("INSERT INTO episode_tag VALUES (?, ?, ?)", fact.number, tag, space)
    DESCRIBED.to_describe(view, EPISODE, fact.number, space, moment)
    provided.to_provide(view, EPISODE, fact.number, space, moment)
    view.touched(f"episode:{fact.number}", moment)
    view.touched(f"episode:{fact.episode_id}", moment)


def _step(view: Writable, fact: StepAdded, moment: Moment, decision: Decision) -> None:
    view.run(
        "INSERT INTO episode_step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        fact.number,
        fact.step_number,
        fact.tool,
        fact.action,
        fact.failed,
        fact.result_type,
        fact.parameters,
        fact.result,
        fact.latency_ms,
        moment.at_us,
    )
    view.run(
        "UPDATE episode SET steps = steps + 1, failed_steps = failed_steps + ?,"
        " latency_ms = latency_ms + ?, last_step = max(last_step, ?), last_step_at_us = ?"
        " WHERE id = ?",
        fact.failed,
        fact.latency_ms or 0,
        fact.step_number,
        moment.at_us,
        fact.number,
    )
    view.touched(f"episode:{fact.number}", moment)


def _completed(view: Writable, fact: EpisodeCompleted, moment: Moment, decision: Decision) -> None:
    view.run(
        "UPDATE episode SET completed_at_us = ?, outcome = ?, outcome_type = ?, success = ?,"
        " reward = ?, rewarded = ?, reflection = ? WHERE id = ?",
        moment.at_us,
        _json(fact.outcome),
        fact.outcome.type,
        fact.success,
        fact.reward.total,
        _json(fact.reward),
        _json(fact.reflection),
        fact.number,
    )
    view.touched(f"episode:{fact.number}", moment)


def _tagged(view: Writable, fact: EpisodeTagged, moment: Moment, decision: Decision) -> None:
    space = view.one("SELECT space FROM episode WHERE id = ?", fact.number)[0]
    for tag in fact.removed:
        view.run("DELETE FROM episode_tag WHERE episode = ? AND tag = ?", fact.number, tag)
    for tag in fact.added:
        view.run("INSERT OR IGNORE INTO episode_tag VALUES (?, ?, ?)", fact.number, tag, space)
    view.run("UPDATE episode SET version = version + 1 WHERE id = ?", fact.number)
    DESCRIBED.to_describe(view, EPISODE, fact.number, space, moment)
    provided.to_provide(view, EPISODE, fact.number, space, moment)
    view.touched(f"episode:{fact.number}", moment)


def _deleted(view: Writable, fact: EpisodeDeleted, moment: Moment, decision: Decision) -> None:
    for table in ("episode_step", "episode_tag"):
        view.run(f"DELETE FROM {table} WHERE episode = ?", fact.number)
    touched = view.all("SELECT pattern, success FROM evidence WHERE episode = ?", fact.number)
    view.run("DELETE FROM evidence WHERE episode = ?", fact.number)
    for pattern, _ in touched:
        if pattern in fact.patterns:
            view.run("DELETE FROM pattern WHERE id = ?", pattern)
            DESCRIBED.forget(view, PATTERN, pattern)
            provided.forget(view, moment.space, PATTERN, pattern)
        else:
            _count(view, pattern)
        view.touched(f"pattern:{pattern}", moment)
    both = (fact.number, fact.number)
    for source, target in view.all(
        "SELECT source, target FROM relationship WHERE source = ? OR target = ?", *both
    ):
        view.touched(f"episode:{target if source == fact.number else source}", moment)
    view.run("DELETE FROM relationship WHERE source = ? OR target = ?", *both)
    view.run("DELETE FROM episode WHERE id = ?", fact.number)
    DESCRIBED.forget(view, EPISODE, fact.number)
    provided.forget(view, moment.space, EPISODE, fact.number)
    view.touched(f"episode:{fact.number}", moment)


def _found(view: Writable, fact: PatternFound, moment: Moment, decision: Decision) -> None:
    view.take_id(PATTERNS)
    space = view.ensure_space(moment.space)
    view.run(
        "INSERT INTO pattern VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?)",
        fact.pattern,
        space,
        fact.kind,
        fact.key,
        fact.domain,
        fact.task_type,
        fact.description,
        fact.text,
        _json(fact.tools),
        _json(fact.tags),
        moment.at_us,
        moment.at_us,
    )
    DESCRIBED.to_describe(view, PATTERN, fact.pattern, space, moment)
    provided.to_provide(view, PATTERN, fact.pattern, space, moment)
    view.touched(f"pattern:{fact.pattern}", moment)


def _seen(view: Writable, fact: PatternSeen, moment: Moment, decision: Decision) -> None:
    view.run(
        "INSERT OR REPLACE INTO evidence VALUES (?, ?, ?, ?)",
        fact.pattern,
        fact.number,
        fact.success,
        moment.at_us,
    )
    view.run(
        "UPDATE pattern SET occurrences = occurrences + 1, successes = successes + ?,"
        " last_at_us = ? WHERE id = ?",
        fact.success,
        moment.at_us,
        fact.pattern,
    )
    view.touched(f"pattern:{fact.pattern}", moment)


def _count(view: Writable, pattern: int) -> None:
    """Some of its evidence is gone: what is left counts. Added up exactly, so that a sum of shares
    comes out the same whatever adds it up."""
    rows = view.all(
        "SELECT success, at_us FROM evidence WHERE pattern = ? ORDER BY at_us, episode", pattern
    )
    view.run(
        "UPDATE pattern SET occurrences = ?, successes = ?, first_at_us = ?, last_at_us = ?"
        " WHERE id = ?",
        len(rows),
        math.fsum(row[0] for row in rows),
        rows[0][1],
        rows[-1][1],
        pattern,
    )


def _related(view: Writable, fact: RelationshipAdded, moment: Moment, decision: Decision) -> None:
    view.take_id(RELATIONSHIPS)
    view.run(
        "INSERT INTO relationship VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        fact.relationship,
        view.ensure_space(moment.space),
        fact.relationship_id,
        fact.source,
        fact.target,
        fact.relationship_type,
        fact.reason,
        fact.priority,
        fact.created_by,
        moment.at_us,
    )
    for number in (fact.source, fact.target):
        view.touched(f"episode:{number}", moment)


def _unrelated(
    view: Writable, fact: RelationshipRemoved, moment: Moment, decision: Decision
) -> None:
    view.run("DELETE FROM relationship WHERE id = ?", fact.relationship)
    for number in (fact.source, fact.target):
        view.touched(f"episode:{number}", moment)


def _embedded(view: Writable, fact: EpisodeEmbedded, moment: Moment, decision: Decision) -> None:
    vector = _vector(fact, decision)
    DESCRIBED.keep(view, EPISODE, fact.number, fact.version, fact.model, vector, moment)


def _pattern_embedded(
    view: Writable, fact: PatternEmbedded, moment: Moment, decision: Decision
) -> None:
    DESCRIBED.keep(view, PATTERN, fact.pattern, 1, fact.model, _vector(fact, decision), moment)


def _executed(view: Writable, fact: CodeExecuted, moment: Moment, decision: Decision) -> None:
    """Code leaves nothing in the state; the log tells what was run."""


def _vector(fact: EpisodeEmbedded | PatternEmbedded, decision: Decision) -> bytes | None:
    return None if fact.embedding is None else decision.inputs[fact.embedding].vector


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


EVOLVE: dict[type[Fact], Evolve] = {
    EpisodeCreated: _created,
    StepAdded: _step,
    EpisodeCompleted: _completed,
    EpisodeTagged: _tagged,
    EpisodeDeleted: _deleted,
    PatternFound: _found,
    PatternSeen: _seen,
    RelationshipAdded: _related,
    RelationshipRemoved: _unrelated,
    EpisodeEmbedded: _embedded,
    PatternEmbedded: _pattern_embedded,
    EmbeddingsConfigured: provided.configured,
    MeaningProvided: provided.provide,
    CodeExecuted: _executed,
}
