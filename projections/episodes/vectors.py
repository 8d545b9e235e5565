"""What the episodes family's facts change in the vector index of one model."""

from __future__ import annotations

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.episodes import EpisodeDeleted, EpisodeEmbedded, PatternEmbedded
from mnemolog.projections.described import index_space, put_described
from mnemolog.projections.episodes.state import EPISODE, PATTERN
from mnemolog.projections.episodes.text import removals
from mnemolog.projections.ports import VectorChange
from mnemolog.projections.projection import VectorsOf


def _embedded(fact: EpisodeEmbedded, decision: Decision, model: str) -> list[VectorChange]:
    if fact.model != model:
        return []
    space = index_space(decision.space, EPISODE)
    return [put_described(decision, space, fact.number, fact.version, fact.embedding)]


def _pattern(fact: PatternEmbedded, decision: Decision, model: str) -> list[VectorChange]:
    if fact.model != model:
        return []
    space = index_space(decision.space, PATTERN)
    return [put_described(decision, space, fact.pattern, 1, fact.embedding)]


def _deleted(fact: EpisodeDeleted, decision: Decision, model: str) -> list[VectorChange]:
    return [*removals(fact, decision)]


VECTORS: dict[type[Fact], VectorsOf] = {
    EpisodeEmbedded: _embedded,
    PatternEmbedded: _pattern,
    EpisodeDeleted: _deleted,
}
