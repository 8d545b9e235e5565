"""The episodes family, put together."""

from __future__ import annotations

from typing import Any

from mnemolog.events import episodes as asked
from mnemolog.projections.episodes import PROJECTION
from mnemolog.projections.episodes.state import DESCRIBED, EPISODE, PATTERN, episodes_space
from mnemolog.services.decider.tool import Place, Tool, adds, destroys, reads
from mnemolog.services.families.episodes import INTRODUCTION, NAME
from mnemolog.services.families.episodes.answering import batch, comparing, patterns, query
from mnemolog.services.families.episodes.answering import episodes as looking
from mnemolog.services.families.episodes.deciding import episodes
from mnemolog.services.families.episodes.deciding.access import decide_looked
from mnemolog.services.families.episodes.describing import describe
from mnemolog.services.families.episodes.problems import in_codes
from mnemolog.services.families.episodes.rules import EpisodeRules
from mnemolog.services.family import Family, Spaces
from mnemolog.services.late import Queue


def _in_episodes(tenant: str, args: Any) -> Place:
    return Place(episodes_space(tenant))


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
    reads("query_memory", asked.QueryMemory, _in_episodes, decide_looked, query.answer_query),
)

PATTERN_TOOLS: tuple[Tool, ...] = (
    reads(
        "analyze_patterns",
        asked.AnalyzePatterns,
        _in_episodes,
        decide_looked,
        patterns.answer_analyze,
    ),
    reads(
        "search_patterns",
        asked.SearchPatterns,
        _in_episodes,
        decide_looked,
        patterns.answer_search,
        awaits=PATTERN,
    ),
    reads(
        "recommend_patterns",
        asked.RecommendPatterns,
        _in_episodes,
        decide_looked,
        patterns.answer_recommend,
        awaits=PATTERN,
    ),
)

BATCH_TOOLS: tuple[Tool, ...] = (
    reads(
        "batch_query_episodes",
        asked.BatchQueryEpisodes,
        _in_episodes,
        decide_looked,
        batch.answer_query,
        heavy=True,
    ),
    reads(
        "batch_pattern_analysis",
        asked.BatchPatternAnalysis,
        _in_episodes,
        decide_looked,
        batch.answer_analysis,
        heavy=True,
    ),
    reads(
        "batch_compare_episodes",
        asked.BatchCompareEpisodes,
        _in_episodes,
        decide_looked,
        comparing.answer_compare,
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
)

FAMILY = Family(
    name=NAME,
    introduction=INTRODUCTION,
    projection=PROJECTION,
    tools=(*EPISODE_TOOLS, *PATTERN_TOOLS, *BATCH_TOOLS, *EMBEDDING_TOOLS),
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
    ),
)
