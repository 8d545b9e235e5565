"""The episodes family, put together."""

from __future__ import annotations

from typing import Any

from mnemolog.events import episodes as asked
from mnemolog.projections.episodes import PROJECTION, provided
from mnemolog.projections.episodes.state import DESCRIBED, EPISODE, PATTERN, episodes_space
from mnemolog.services.decider.tool import Place, Tool, adds, destroys, reads
from mnemolog.services.families.episodes import INTRODUCTION, NAME
from mnemolog.services.families.episodes.answering import embeddings as testing
from mnemolog.services.families.episodes.answering import episodes as looking
from mnemolog.services.families.episodes.answering import monitoring, query
from mnemolog.services.families.episodes.deciding import code, embeddings, episodes
from mnemolog.services.families.episodes.deciding.access import decide_looked
from mnemolog.services.families.episodes.describing import describe, provide
from mnemolog.services.families.episodes.problems import in_codes
from mnemolog.services.families.episodes.rules import EpisodeRules
from mnemolog.services.family import Family, Spaces
from mnemolog.services.late import Provided, Queue


def _in_episodes(tenant: str, args: Any) -> Place:
    return Place(episodes_space(tenant))


def _query(args: Any) -> str:
    return str(args.query)


def _space_named(tenant: str, name: str) -> str | None:
    return episodes_space(tenant) if name == NAME else None


EPISODE_TOOLS: tuple[Tool, ...] = (
    adds(
        "create_episode",
        asked.CreateEpisode,
        _in_episodes,
        episodes.decide_create,
        idempotent=False,
    ),
    adds(
        "add_episode_step",
        asked.AddEpisodeStep,
        _in_episodes,
        episodes.decide_step,
        idempotent=False,
    ),
    adds(
        "complete_episode",
        asked.CompleteEpisode,
        _in_episodes,
        episodes.decide_complete,
        idempotent=False,
    ),
    destroys(
        "delete_episode",
        asked.DeleteEpisode,
        _in_episodes,
        episodes.decide_delete,
        idempotent=False,
    ),
    reads("get_episode", asked.GetEpisode, _in_episodes, decide_looked, looking.answer_get),
    reads(
        "get_episode_timeline",
        asked.GetEpisodeTimeline,
        _in_episodes,
        decide_looked,
        looking.answer_timeline,
    ),
    reads("bulk_episodes", asked.BulkEpisodes, _in_episodes, decide_looked, looking.answer_bulk),
    reads(
        "query_memory",
        asked.QueryMemory,
        _in_episodes,
        decide_looked,
        query.answer_query,
        asks=_query,
    ),
)

EMBEDDING_TOOLS: tuple[Tool, ...] = (
    reads(
        "query_semantic_memory",
        asked.QuerySemanticMemory,
        _in_episodes,
        decide_looked,
        query.answer_semantic,
        awaits=EPISODE,
        asks=_query,
    ),
    adds(
        "configure_embeddings",
        asked.ConfigureEmbeddings,
        _in_episodes,
        embeddings.decide_configure,
        idempotent=True,
        carry_out=embeddings.carry_out,
        at_once=embeddings.AT_ONCE,
    ),
    reads(
        "test_embeddings",
        asked.TryEmbeddings,
        _in_episodes,
        decide_looked,
        testing.answer_test,
        heavy=True,
    ),
    adds(
        describe.NAME,
        describe.DescribeEpisodes,
        describe.place,
        describe.decide_describe,
        idempotent=False,
        internal=True,
        texts=describe.texts,
        heavy=True,
    ),
    adds(
        provide.NAME,
        provide.ProvideMeanings,
        provide.place,
        provide.decide_provide,
        idempotent=False,
        internal=True,
    ),
)

MONITORING_TOOLS: tuple[Tool, ...] = (
    reads("health_check", asked.HealthCheck, _in_episodes, decide_looked, monitoring.answer_health),
    reads("get_metrics", asked.GetMetrics, _in_episodes, decide_looked, monitoring.answer_metrics),
    reads(
        "quality_metrics",
        asked.QualityMetrics,
        _in_episodes,
        decide_looked,
        monitoring.answer_quality,
    ),
)

CODE_TOOLS: tuple[Tool, ...] = (
    adds(
        "execute_agent_code",
        asked.ExecuteAgentCode,
        _in_episodes,
        code.decide_execute,
        idempotent=False,
        carry_out=code.carry_out,
        says=code.value_of,
        at_once=code.AT_ONCE,
    ),
)

FAMILY = Family(
    name=NAME,
    introduction=INTRODUCTION,
    projection=PROJECTION,
    tools=(*EPISODE_TOOLS, *EMBEDDING_TOOLS, *MONITORING_TOOLS, *CODE_TOOLS),
    spaces=Spaces(
        path=NAME,
        words=NAME,
        title="Changes of episodes",
        description="The newest changes of episodes and what was learned from them.",
        find=_space_named,
    ),
    rules=EpisodeRules(),
    refusal=in_codes,
    late=(
        Queue(
            kinds=(EPISODE, PATTERN),
            asks=(asked.EpisodeCreated, asked.EpisodeTagged, asked.PatternFound),
            notes=(asked.EpisodeEmbedded, asked.PatternEmbedded),
            tool=describe.NAME,
            waiting=DESCRIBED.waiting,
            count=DESCRIBED.count,
            count_in=DESCRIBED.count,
            waits_since=DESCRIBED.waits_since,
            last_noted=DESCRIBED.last,
            made=describe.made,
            ask=describe.ask,
        ),
        Provided(
            tool=provide.NAME,
            asks=(
                asked.EmbeddingsConfigured,
                asked.EpisodeCreated,
                asked.EpisodeTagged,
                asked.PatternFound,
            ),
            choice=provided.choice,
            choices=provided.with_something_waiting,
            waiting=provide.waiting,
            ask=provide.ask,
        ),
    ),
)
