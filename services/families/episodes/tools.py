"""The tools of the episodes family. All of them work on the one space of a tenant's episodes, and
what a read leaves on the log is that it was asked."""

from __future__ import annotations

from functools import partial
from typing import Any

from mnemolog.events import episodes as asked
from mnemolog.events.arguments import Arguments
from mnemolog.projections.episodes.state import EPISODE, episodes_space
from mnemolog.services.decider import tool
from mnemolog.services.decider.tool import Answers, Decide, Place, Tool
from mnemolog.services.families.episodes.answering import (
    analysing,
    batch,
    comparing,
    graph,
    monitoring,
    patterns,
    query,
)
from mnemolog.services.families.episodes.answering import embeddings as testing
from mnemolog.services.families.episodes.answering import episodes as looking
from mnemolog.services.families.episodes.answering import relationships as related
from mnemolog.services.families.episodes.answering import tags as tagged
from mnemolog.services.families.episodes.deciding import (
    code,
    embeddings,
    episodes,
    relationships,
    tags,
)
from mnemolog.services.families.episodes.deciding.access import decide_looked
from mnemolog.services.families.episodes.describing import describe, provide
from mnemolog.services.scopes import ADMIN


def _in_episodes(tenant: str, args: Any) -> Place:
    return Place(episodes_space(tenant))


def _query(args: Any) -> str:
    return str(args.query)


def _reads(name: str, arguments: type[Arguments], answer: Answers, **more: Any) -> Tool:
    return tool.reads(name, arguments, _in_episodes, decide_looked, answer, **more)


def _adds(name: str, arguments: type[Arguments], decide: Decide, **more: Any) -> Tool:
    return tool.adds(name, arguments, _in_episodes, decide, **{"idempotent": False, **more})


def _destroys(name: str, arguments: type[Arguments], decide: Decide, **more: Any) -> Tool:
    return tool.destroys(name, arguments, _in_episodes, decide, **{"idempotent": False, **more})


_sets = partial(_adds, idempotent=True)
_unsets = partial(_destroys, idempotent=True)
_analyses = partial(_reads, counts_as="write")

EPISODES = (
    _adds("create_episode", asked.CreateEpisode, episodes.decide_create),
    _adds("add_episode_step", asked.AddEpisodeStep, episodes.decide_step),
    _adds("complete_episode", asked.CompleteEpisode, episodes.decide_complete),
    _reads("get_episode", asked.GetEpisode, looking.answer_get),
    _destroys("delete_episode", asked.DeleteEpisode, episodes.decide_delete),
    _reads("get_episode_timeline", asked.GetEpisodeTimeline, looking.answer_timeline),
    _reads("bulk_episodes", asked.BulkEpisodes, looking.answer_bulk),
    _reads("query_memory", asked.QueryMemory, query.answer_query, asks=_query),
)

PATTERNS = (
    _analyses("analyze_patterns", asked.AnalyzePatterns, patterns.answer_analyze),
    _reads("search_patterns", asked.SearchPatterns, patterns.answer_search, asks=_query),
    _reads(
        "recommend_patterns",
        asked.RecommendPatterns,
        patterns.answer_recommend,
        asks=patterns.asked_for,
    ),
    _analyses(
        "advanced_pattern_analysis",
        asked.AdvancedPatternAnalysis,
        analysing.answer_analysis,
        heavy=True,
    ),
)

BATCHES = (
    _reads("batch_query_episodes", asked.BatchQueryEpisodes, batch.answer_query, heavy=True),
    _analyses(
        "batch_pattern_analysis", asked.BatchPatternAnalysis, batch.answer_analysis, heavy=True
    ),
    _analyses("batch_compare_episodes", asked.BatchCompareEpisodes, comparing.answer_compare),
)

TAGS = (
    _sets("add_episode_tags", asked.AddEpisodeTags, tags.decide_add_tags),
    _unsets("remove_episode_tags", asked.RemoveEpisodeTags, tags.decide_remove_tags),
    _unsets("set_episode_tags", asked.SetEpisodeTags, tags.decide_set_tags),
    _reads("get_episode_tags", asked.GetEpisodeTags, tagged.answer_tags),
    _reads("search_episodes_by_tags", asked.SearchEpisodesByTags, tagged.answer_tagged),
)

RELATIONSHIPS = (
    _adds("add_episode_relationship", asked.AddEpisodeRelationship, relationships.decide_relate),
    _destroys(
        "remove_episode_relationship",
        asked.RemoveEpisodeRelationship,
        relationships.decide_unrelate,
    ),
    _reads(
        "get_episode_relationships", asked.GetEpisodeRelationships, related.answer_relationships
    ),
    _reads("find_related_episodes", asked.FindRelatedEpisodes, related.answer_related),
    _reads("check_relationship_exists", asked.CheckRelationshipExists, related.answer_exists),
    _reads("get_dependency_graph", asked.GetDependencyGraph, graph.answer_graph),
    _reads("validate_no_cycles", asked.ValidateNoCycles, related.answer_no_cycles),
    _reads("get_topological_order", asked.GetTopologicalOrder, graph.answer_order),
)

EMBEDDINGS = (
    _sets(
        "configure_embeddings",
        asked.ConfigureEmbeddings,
        embeddings.decide_configure,
        carry_out=embeddings.carry_out,
        at_once=embeddings.AT_ONCE,
        scope=ADMIN,
    ),
    _reads(
        "query_semantic_memory",
        asked.QuerySemanticMemory,
        query.answer_semantic,
        awaits=EPISODE,
        asks=_query,
    ),
    _reads("test_embeddings", asked.TryEmbeddings, testing.answer_test, heavy=True),
    tool.adds(
        describe.NAME,
        describe.DescribeEpisodes,
        describe.place,
        describe.decide_describe,
        idempotent=False,
        internal=True,
        texts=describe.texts,
        heavy=True,
    ),
    tool.adds(
        provide.NAME,
        provide.ProvideMeanings,
        provide.place,
        provide.decide_provide,
        idempotent=False,
        internal=True,
    ),
)

MONITORING = (
    _reads("health_check", asked.HealthCheck, monitoring.answer_health),
    _reads("get_metrics", asked.GetMetrics, monitoring.answer_metrics),
    _reads("quality_metrics", asked.QualityMetrics, monitoring.answer_quality),
)

CODE = (
    _adds(
        "execute_agent_code",
        asked.ExecuteAgentCode,
        code.decide_execute,
        carry_out=code.carry_out,
        says=code.value_of,
        at_once=code.AT_ONCE,
    ),
)

TOOLS: tuple[Tool, ...] = (
    *EPISODES,
    *PATTERNS,
    *BATCHES,
    *TAGS,
    *RELATIONSHIPS,
    *EMBEDDINGS,
    *MONITORING,
    *CODE,
)
