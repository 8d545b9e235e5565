"""Facts about episodes, every one of them in `EPISODES`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Embedding
from mnemolog.events.episodes import (
    CodeExecuted,
    EmbeddingsConfigured,
    EpisodeCompleted,
    EpisodeCreated,
    EpisodeDeleted,
    EpisodeEmbedded,
    EpisodeTagged,
    MeaningProvided,
    Outcome,
    PatternEmbedded,
    PatternFound,
    PatternSeen,
    Reflection,
    RelationshipAdded,
    RelationshipRemoved,
    Reward,
    StepAdded,
)
from mnemolog.projections.episodes.state import episodes_space
from tests.spec.given import MODEL, NORTH, Given, at_cosine, days, happened, unit


def done(fact: Fact, *, tenant: str = "default", **more: Any) -> Given:
    """Among a tenant's episodes."""
    return happened(fact, tenant=tenant, space=episodes_space(tenant), **more)


def name(number: int) -> str:
    return f"episode-{number}"


def begun(number: int, description: str = "Fix the login", *tags: str, **more: Any) -> Given:
    fact = EpisodeCreated(
        number=number,
        episode_id=name(number),
        task_description=description,
        domain="web-api",
        task_type="debugging",
        language="rust",
        tags=list(tags),
    )
    return done(fact, **more)


def stepped(
    number: int, step: int, tool: str = "editor", *, failed: bool = False, **more: Any
) -> Given:
    fact = StepAdded(
        number=number,
        step_number=step,
        tool=tool,
        action=f"Step {step}",
        failed=failed,
        result_type="error" if failed else "success",
        parameters='{"a":1}',
        latency_ms=5,
    )
    return done(fact, **more)


def completed(
    number: int, text: str = "Fix the login\nIt works", success: float = 1.0, **more: Any
) -> Given:
    fact = EpisodeCompleted(
        number=number,
        outcome=Outcome(type="success", verdict="It works"),
        success=success,
        reward=Reward(success, success, 1.0, 1.0, 1.0, 0.0),
        reflection=Reflection(successes=["It works"]),
        text=text,
    )
    return done(fact, **more)


def tagged(
    number: int, text: str, added: tuple[str, ...] = (), removed: tuple[str, ...] = (), **more: Any
) -> Given:
    fact = EpisodeTagged(number=number, text=text, added=list(added), removed=list(removed))
    return done(fact, **more)


def gone(
    number: int, *, patterns: tuple[int, ...] = (), links: tuple[int, ...] = (), **more: Any
) -> Given:
    fact = EpisodeDeleted(
        number=number,
        episode_id=name(number),
        task_description="Fix the login",
        status="active",
        steps=0,
        patterns=list(patterns),
        relationships=list(links),
    )
    return done(fact, **more)


def found(pattern: int, text: str = "reader then editor", **more: Any) -> Given:
    fact = PatternFound(
        pattern=pattern,
        kind="ToolSequence",
        key=f"key-{pattern}",
        domain="web-api",
        task_type="debugging",
        description=text,
        text=text,
        tools=["reader", "editor"],
        tags=["auth"],
    )
    return done(fact, **more)


def seen(pattern: int, number: int, success: float = 1.0, **more: Any) -> Given:
    return done(PatternSeen(pattern=pattern, number=number, success=success), **more)


def linked(number: int, source: int, target: int, kind: str = "depends_on", **more: Any) -> Given:
    fact = RelationshipAdded(
        relationship=number,
        relationship_id=f"link-{number}",
        source=source,
        target=target,
        relationship_type=kind,
        reason="needs it",
        priority=8,
        created_by="planner",
    )
    return done(fact, **more)


def unlinked(number: int, source: int, target: int, kind: str = "depends_on", **more: Any) -> Given:
    fact = RelationshipRemoved(
        relationship=number,
        relationship_id=f"link-{number}",
        source=source,
        target=target,
        source_id=name(source),
        target_id=name(target),
        relationship_type=kind,
    )
    return done(fact, **more)


def meant(
    number: int,
    *,
    version: int = 1,
    model: str = MODEL.name,
    vector: bytes | None = NORTH,
    **more: Any,
) -> Given:
    at = None if vector is None else 0
    fact = EpisodeEmbedded(number=number, version=version, model=model, embedding=at)
    return _made_by(model, vector, done(fact, **more))


def pattern_meant(
    pattern: int, *, model: str = MODEL.name, vector: bytes | None = NORTH, **more: Any
) -> Given:
    at = None if vector is None else 0
    fact = PatternEmbedded(pattern=pattern, model=model, embedding=at)
    return _made_by(model, vector, done(fact, **more))


CHOSEN = "openai:text-embedding-3-small"


def configured(name: str = CHOSEN, **more: Any) -> Given:
    """Another model makes the vectors from now on; without a name the service's own."""
    provider = "openai" if name else "local"
    return done(EmbeddingsConfigured(name=name, provider=provider, dims=8), **more)


def provided(
    kind: str,
    number: int,
    *,
    version: int = 1,
    model: str = CHOSEN,
    vector: bytes | None = NORTH,
    **more: Any,
) -> Given:
    fact = MeaningProvided(kind=kind, number=number, version=version, model=model, vector=vector)
    return done(fact, **more)


def executed(**more: Any) -> Given:
    return done(CodeExecuted(sha256="3385dd26"), **more)


def _made_by(model: str, vector: bytes | None, given: Given) -> Given:
    return replace(given, inputs=[] if vector is None else [Embedding(model, vector)])


EPISODES: tuple[Given | tuple[Given, ...], ...] = (
    begun(1, "Fix the login", "auth", "jwt"),
    begun(2, "Renew the tokens"),
    begun(3, "Cook soup", at_us=days(1)),
    stepped(1, 1, "reader", failed=True, at_us=days(1)),
    stepped(1, 2, at_us=days(1)),
    stepped(2, 5, at_us=days(1)),
    meant(1, at_us=days(1)),
    meant(2, vector=at_cosine(0.9), at_us=days(1)),
    meant(3, model="other", vector=None, at_us=days(1)),
    (completed(1, at_us=days(2)), found(1), seen(1, 1), found(2, "context rust"), seen(2, 1)),
    pattern_meant(1, at_us=days(2)),
    pattern_meant(2, vector=unit(0, 1), at_us=days(2)),
    (completed(2, "Renew the tokens", 0.5, at_us=days(3)), seen(1, 2, 0.5)),
    tagged(1, "Fix the login oauth", ("oauth",), ("jwt",), at_us=days(3)),
    linked(1, 1, 2, at_us=days(4)),
    linked(2, 3, 1, "follows", at_us=days(4)),
    unlinked(2, 3, 1, "follows", at_us=days(5)),
    executed(at_us=days(5)),
    configured(at_us=days(5)),
    provided("episode", 1, version=2, at_us=days(5)),
    provided("pattern", 1, vector=None, at_us=days(5)),
    begun(4, "Theirs", tenant="rival", at_us=days(5)),
    meant(4, tenant="rival", at_us=days(5)),
    gone(1, patterns=(2,), links=(1,), at_us=days(6)),
    meant(3, vector=unit(1, 1), at_us=days(7)),
)
"""Every fact of the episodes family."""
