"""What the knowledge graph's facts change in the vector index of one model."""

from __future__ import annotations

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.graph import EntityDeleted, EntityDescribed, ReflectionEmbedded
from mnemolog.projections.described import index_space, put_described
from mnemolog.projections.graph.meaning import ENTITY, REFLECTION
from mnemolog.projections.ports import Remove, VectorChange
from mnemolog.projections.projection import VectorsOf


def _described(fact: EntityDescribed, decision: Decision, model: str) -> list[VectorChange]:
    if fact.model != model:
        return []
    space = index_space(decision.space, ENTITY)
    return [put_described(decision, space, fact.entity_id, fact.version, fact.embedding)]


def _embedded(fact: ReflectionEmbedded, decision: Decision, model: str) -> list[VectorChange]:
    if fact.model != model:
        return []
    space = index_space(decision.space, REFLECTION)
    return [put_described(decision, space, fact.reflection_id, 1, fact.embedding)]


def _deleted(fact: EntityDeleted, decision: Decision, model: str) -> list[VectorChange]:
    return [Remove(index_space(decision.space, ENTITY), fact.entity_id)]


VECTORS: dict[type[Fact], VectorsOf] = {
    EntityDescribed: _described,
    ReflectionEmbedded: _embedded,
    EntityDeleted: _deleted,
}
