"""What the knowledge graph's facts change in the vector index of one model."""

from __future__ import annotations

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.graph import EntityDeleted, EntityDescribed, ReflectionEmbedded
from mnemolog.projections.described import index_space
from mnemolog.projections.graph.meaning import ENTITY, REFLECTION
from mnemolog.projections.ports import PutVector, Remove, VectorChange, vector_of
from mnemolog.projections.projection import VectorsOf


def _described(fact: EntityDescribed, decision: Decision, model: str) -> list[VectorChange]:
    if fact.model != model:
        return []
    space = index_space(decision.space, ENTITY)
    return [_put(decision, space, fact.entity_id, fact.version, fact.embedding)]


def _embedded(fact: ReflectionEmbedded, decision: Decision, model: str) -> list[VectorChange]:
    if fact.model != model:
        return []
    space = index_space(decision.space, REFLECTION)
    return [_put(decision, space, fact.reflection_id, 1, fact.embedding)]


def _deleted(fact: EntityDeleted, decision: Decision, model: str) -> list[VectorChange]:
    return [Remove(index_space(decision.space, ENTITY), fact.entity_id)]


def _put(
    decision: Decision, space: str, number: int, version: int, embedding: int | None
) -> VectorChange:
    if embedding is None:
        return Remove(space, number)
    return PutVector(space, number, version, vector_of(decision.inputs[embedding]))


VECTORS: dict[type[Fact], VectorsOf] = {
    EntityDescribed: _described,
    ReflectionEmbedded: _embedded,
    EntityDeleted: _deleted,
}
