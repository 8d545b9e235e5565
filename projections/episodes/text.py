"""What the episodes family's facts change in the text index."""

from __future__ import annotations

from collections.abc import Iterable

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.episodes import (
    EpisodeCompleted,
    EpisodeCreated,
    EpisodeDeleted,
    EpisodeTagged,
    Outcome,
    PatternFound,
)
from mnemolog.projections.described import index_space
from mnemolog.projections.episodes.state import EPISODE, PATTERN, Episode
from mnemolog.projections.ports import PutText, Remove
from mnemolog.projections.projection import TextOf


def about(
    description: str,
    domain: str,
    task_type: str,
    language: str | None,
    framework: str | None,
    tags: Iterable[str],
) -> str:
    """What an episode is found by."""
    words = [domain, task_type.replace("_", " "), language or "", framework or "", *tags]
    return f"{description}\n{' '.join(word for word in words if word)}"


def text_of(episode: Episode, tags: Iterable[str], outcome: Outcome | None) -> str:
    """What an episode is found by in words, its end included."""
    text = about(
        episode.description,
        episode.domain,
        episode.task_type,
        episode.language,
        episode.framework,
        tags,
    )
    ended = [] if outcome is None else [outcome.verdict, outcome.reason, outcome.error_details]
    return "\n".join([text, *(one for one in ended if one)])


def _created(fact: EpisodeCreated, decision: Decision) -> list[PutText]:
    text = about(
        fact.task_description,
        fact.domain,
        fact.task_type,
        fact.language,
        fact.framework,
        fact.tags,
    )
    return [PutText(index_space(decision.space, EPISODE), fact.number, text)]


def _changed(fact: EpisodeCompleted | EpisodeTagged, decision: Decision) -> list[PutText]:
    return [PutText(index_space(decision.space, EPISODE), fact.number, fact.text)]


def removals(fact: EpisodeDeleted, decision: Decision) -> list[Remove]:
    """What is gone from an index with an episode."""
    patterns = index_space(decision.space, PATTERN)
    return [
        Remove(index_space(decision.space, EPISODE), fact.number),
        *(Remove(patterns, number) for number in fact.patterns),
    ]


def _found(fact: PatternFound, decision: Decision) -> list[PutText]:
    return [PutText(index_space(decision.space, PATTERN), fact.pattern, fact.text)]


TEXT: dict[type[Fact], TextOf] = {
    EpisodeCreated: _created,
    EpisodeCompleted: _changed,
    EpisodeTagged: _changed,
    EpisodeDeleted: removals,
    PatternFound: _found,
}
