"""The episodes family, put together."""

from __future__ import annotations

from typing import Any

from mnemolog.events import episodes as asked
from mnemolog.projections.episodes import PROJECTION
from mnemolog.projections.episodes.state import DESCRIBED, EPISODE, PATTERN, episodes_space
from mnemolog.services.decider.tool import Place, Tool, adds, destroys, reads
from mnemolog.services.families.episodes import INTRODUCTION, NAME
from mnemolog.services.families.episodes.answering import episodes as looking
from mnemolog.services.families.episodes.answering import graph, query
from mnemolog.services.families.episodes.answering import relationships as related
from mnemolog.services.families.episodes.answering import tags as tagged
from mnemolog.services.families.episodes.deciding import episodes, relationships, tags
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

TAG_TOOLS: tuple[Tool, ...] = (
    adds(
        "add_episode_tags",
        asked.AddEpisodeTags,
        _in_episodes,
        tags.decide_add_tags,
        idempotent=True,
    ),
    destroys(
        "remove_episode_tags",
        asked.RemoveEpisodeTags,
        _in_episodes,
        tags.decide_remove_tags,
        idempotent=True,
    ),
    destroys(
        "set_episode_tags",
        asked.SetEpisodeTags,
        _in_episodes,
        tags.decide_set_tags,
        idempotent=True,
    ),
    reads(
        "get_episode_tags", asked.GetEpisodeTags, _in_episodes, decide_looked, tagged.answer_tags
    ),
    reads(
        "search_episodes_by_tags",
        asked.SearchEpisodesByTags,
        _in_episodes,
        decide_looked,
        tagged.answer_tagged,
    ),
)

RELATIONSHIP_TOOLS: tuple[Tool, ...] = (
    adds(
        "add_episode_relationship",
        asked.AddEpisodeRelationship,
        _in_episodes,
        relationships.decide_relate,
        idempotent=False,
    ),
    destroys(
        "remove_episode_relationship",
        asked.RemoveEpisodeRelationship,
        _in_episodes,
        relationships.decide_unrelate,
        idempotent=False,
    ),
    reads(
        "get_episode_relationships",
        asked.GetEpisodeRelationships,
        _in_episodes,
        decide_looked,
        related.answer_relationships,
    ),
    reads(
        "find_related_episodes",
        asked.FindRelatedEpisodes,
        _in_episodes,
        decide_looked,
        related.answer_related,
    ),
    reads(
        "check_relationship_exists",
        asked.CheckRelationshipExists,
        _in_episodes,
        decide_looked,
        related.answer_exists,
    ),
    reads(
        "get_dependency_graph",
        asked.GetDependencyGraph,
        _in_episodes,
        decide_looked,
        graph.answer_graph,
    ),
    reads(
        "validate_no_cycles",
        asked.ValidateNoCycles,
        _in_episodes,
        decide_looked,
        related.answer_no_cycles,
    ),
    reads(
        "get_topological_order",
        asked.GetTopologicalOrder,
        _in_episodes,
        decide_looked,
        graph.answer_order,
    ),
)

FAMILY = Family(
    name=NAME,
    introduction=INTRODUCTION,
    projection=PROJECTION,
    tools=(*EPISODE_TOOLS, *TAG_TOOLS, *RELATIONSHIP_TOOLS, *EMBEDDING_TOOLS),
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
