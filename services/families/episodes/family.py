"""The episodes family, put together."""

from __future__ import annotations

from mnemolog.events import episodes as asked
from mnemolog.projections.episodes import PROJECTION, provided
from mnemolog.projections.episodes.state import (
    DESCRIBED,
    EPISODE,
    PATTERN,
    domains,
    episodes_space,
)
from mnemolog.services.families.episodes import INTRODUCTION, NAME
from mnemolog.services.families.episodes.describing import describe, provide
from mnemolog.services.families.episodes.problems import STORAGE, TIMEOUT, in_codes
from mnemolog.services.families.episodes.prompts import DOMAIN, PROMPTS
from mnemolog.services.families.episodes.rules import EpisodeRules
from mnemolog.services.families.episodes.told import THINGS
from mnemolog.services.families.episodes.tools import TOOLS
from mnemolog.services.family import Codes, Family, Resource, Spaces
from mnemolog.services.late import Provided, Queue


def _space_named(tenant: str, name: str) -> str | None:
    return episodes_space(tenant) if name == NAME else None


FAMILY = Family(
    name=NAME,
    introduction=INTRODUCTION,
    projection=PROJECTION,
    tools=TOOLS,
    spaces=Spaces(
        path=NAME,
        words=NAME,
        title="Changes of episodes",
        description="The newest changes of episodes and what was learned from them.",
        find=_space_named,
    ),
    rules=EpisodeRules(),
    resources=(
        Resource(
            uri="memory://episodes",
            name="episodes",
            title="Episodes",
            description="The newest episodes as batch_query_episodes gives them, the first page.",
            tool="batch_query_episodes",
            space=NAME,
        ),
        Resource(
            uri="memory://episodes/domains/{domain}",
            name="domain",
            title="Episodes of a domain",
            description="The newest episodes of a domain as batch_query_episodes gives them.",
            tool="batch_query_episodes",
            space=NAME,
            arguments=lambda given: {"filter": {"domain": given["domain"]}},
        ),
    ),
    things=THINGS,
    prompts=PROMPTS,
    completes={DOMAIN.name: domains},
    refusal=in_codes,
    codes=Codes(unavailable=STORAGE, timed_out=TIMEOUT),
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
