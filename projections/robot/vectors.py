"""What the robot family's facts change in the vector index of one model."""

from __future__ import annotations

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.robot import (
    Embedded,
    MemoriesConsolidated,
    MemoryForgotten,
    MemoryLearned,
    MemoryUpdated,
)
from mnemolog.projections.ports import PutVector, Remove, VectorChange, vector_of
from mnemolog.projections.projection import VectorsOf


def _put(
    fact: MemoryLearned | MemoryUpdated | Embedded, decision: Decision, model: str
) -> list[VectorChange]:
    embedding = None if fact.embedding is None else decision.inputs[fact.embedding]
    if embedding is not None and embedding.model == model:
        return [
            PutVector(
                space=decision.space,
                id=fact.memory_id,
                version=1 if isinstance(fact, MemoryLearned) else fact.version,
                vector=vector_of(embedding),
                session=fact.session_id,
                confidence=fact.confidence,
            )
        ]
    if isinstance(fact, MemoryUpdated):
        return [Remove(decision.space, fact.memory_id)]
    return []


def _forgotten(fact: MemoryForgotten, decision: Decision, model: str) -> list[VectorChange]:
    return [Remove(decision.space, fact.memory_id)]


def _merged(fact: MemoriesConsolidated, decision: Decision, model: str) -> list[VectorChange]:
    return [Remove(decision.space, number) for number in fact.superseded]


VECTORS: dict[type[Fact], VectorsOf] = {
    MemoryLearned: _put,
    MemoryUpdated: _put,
    Embedded: _put,
    MemoryForgotten: _forgotten,
    MemoriesConsolidated: _merged,
}
