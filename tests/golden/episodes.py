"""The facts of the episodes family that have golden files."""

from __future__ import annotations

from mnemolog.events.codec import Fact
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

EPISODE = "7c1d9a40-2b6e-8f13-9a55-0c4b7e210000"
OTHER = "0e5f3b92-61c8-8d07-b3a4-5d2f98c70001"
RELATIONSHIP = "d3a8704e-9f25-8b61-8e1c-46b05a7f0000"

FACTS: dict[str, Fact] = {
    "episodes.episode_created": EpisodeCreated(
        number=42,
        episode_id=EPISODE,
        task_description="Implement user authentication 认证",
        domain="web-api",
        task_type="code_generation",
        language="rust",
        framework="axum",
        tags=["auth", "jwt"],
        complexity="moderate",
    ),
    "episodes.episode_created.least": EpisodeCreated(
        number=1,
        episode_id=EPISODE,
        task_description="Fix the build",
        domain="ci",
        task_type="debugging",
    ),
    "episodes.step_added": StepAdded(
        number=42,
        step_number=300,
        tool="analyzer",
        action="Analyze authentication requirements",
        failed=True,
        result_type="error",
        parameters='{"depth":2}',
        result='{"type":"error","message":"no schema"}',
        latency_ms=150,
    ),
    "episodes.step_added.least": StepAdded(
        number=42, step_number=1, tool="editor", action="Write auth.rs"
    ),
    "episodes.episode_completed": EpisodeCompleted(
        number=42,
        outcome=Outcome(
            type="partial_success",
            verdict="Works without refresh tokens",
            artifacts=["auth.rs"],
            completed=["login"],
            failed=["refresh"],
            reason="no time",
            error_details="E0308",
        ),
        success=0.5,
        reward=Reward(0.875, 0.5, 1.25, 1.1, 1.0, 0.25),
        reflection=Reflection(
            successes=["Completed: login"],
            improvements=["Left to do: refresh"],
            insights=["2 steps, 50 % of them failed"],
        ),
        text="Implement user authentication\nweb-api code generation rust",
    ),
    "episodes.episode_completed.least": EpisodeCompleted(
        number=1,
        outcome=Outcome(type="failure"),
        success=0.0,
        reward=Reward(0.0, 0.0, 1.5, 1.0, 1.1, 0.0),
        reflection=Reflection(),
        text="Fix the build\nci debugging",
    ),
    "episodes.episode_tagged": EpisodeTagged(
        number=42, text="Fix the build\nci debugging", added=["cargo"], removed=["auth", "jwt"]
    ),
    "episodes.episode_tagged.least": EpisodeTagged(number=42, text="Fix the build"),
    "episodes.episode_deleted": EpisodeDeleted(
        number=42,
        episode_id=EPISODE,
        task_description="Implement user authentication",
        status="completed",
        steps=2,
        outcome="success",
        patterns=[3, 70_000],
        relationships=[7],
    ),
    "episodes.episode_deleted.least": EpisodeDeleted(
        number=1,
        episode_id=EPISODE,
        task_description="Fix the build",
        status="active",
        steps=0,
    ),
    "episodes.pattern_found": PatternFound(
        pattern=3,
        kind="ToolSequence",
        key="c0ffeec0ffeec0ffeec0ffeec0ffee00",
        domain="web-api",
        task_type="code_generation",
        description="Tools in order: analyzer → editor",
        text="Tools in order: analyzer → editor\nweb-api code generation",
        tools=["analyzer", "editor"],
        tags=["auth"],
    ),
    "episodes.pattern_found.least": PatternFound(
        pattern=1,
        kind="ContextPattern",
        key="c0ffeec0ffeec0ffeec0ffeec0ffee01",
        domain="ci",
        task_type="debugging",
        description="debugging in ci with language rust",
        text="debugging in ci with language rust",
    ),
    "episodes.pattern_seen": PatternSeen(pattern=3, number=42, success=0.5),
    "episodes.relationship_added": RelationshipAdded(
        relationship=7,
        relationship_id=RELATIONSHIP,
        source=42,
        target=70_000,
        relationship_type="depends_on",
        reason="needs the users table",
        priority=8,
        created_by="planner",
    ),
    "episodes.relationship_added.least": RelationshipAdded(
        relationship=7,
        relationship_id=RELATIONSHIP,
        source=1,
        target=2,
        relationship_type="follows",
    ),
    "episodes.relationship_removed": RelationshipRemoved(
        relationship=7,
        relationship_id=RELATIONSHIP,
        source=42,
        target=70_000,
        source_id=EPISODE,
        target_id=OTHER,
        relationship_type="depends_on",
    ),
    "episodes.episode_embedded": EpisodeEmbedded(
        number=42, version=300, model="bge-small-en-v1.5", embedding=0
    ),
    "episodes.episode_embedded.least": EpisodeEmbedded(
        number=42, version=1, model="bge-small-en-v1.5"
    ),
    "episodes.pattern_embedded": PatternEmbedded(pattern=3, model="bge-small-en-v1.5", embedding=1),
    "episodes.pattern_embedded.least": PatternEmbedded(pattern=3, model="bge-small-en-v1.5"),
    "episodes.embeddings_configured": EmbeddingsConfigured(
        name="azure:embed-1@8f14e45f",
        provider="azure",
        model="embed-1",
        api_key_env="AZURE_API_KEY",
        base_url="https://embed.example.org",
        batch_size=64,
        similarity_threshold=0.6,
        dims=1536,
    ),
    "episodes.embeddings_configured.least": EmbeddingsConfigured(name="", provider="local"),
    "episodes.meaning_provided": MeaningProvided(
        kind="episode", number=42, version=300, model="azure:embed-1", vector=b"\x00<\x00\x00"
    ),
    "episodes.meaning_provided.least": MeaningProvided(
        kind="pattern", number=3, version=1, model="azure:embed-1"
    ),
    "episodes.code_executed": CodeExecuted(
        sha256="3385dd26b7f49319c6d59597ec1a556651d3278bf46f066cb247af8dd1dbbcfe"
    ),
}
