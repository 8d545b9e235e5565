"""What the robot family's facts change in the vector index of one model."""

from __future__ import annotations

from collections.abc import Iterable

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.robot import (
    Embedded,
    MemoriesConsolidated,
    MemoryForgotten,
    MemoryLearned,
    MemoryUpdated,
)
from mnemolog.projections.ports import PutVector, Remove, VectorChange
from mnemolog.projections.state.robot import vector_of


def vector_changes(decision: Decision, facts: Iterable[Fact], model: str) -> list[VectorChange]:
    """Vectors of other models are left out: a search never mixes them."""
    changes: list[VectorChange] = []
    for fact in facts:
        match fact:
            case MemoryLearned() | MemoryUpdated() | Embedded():
                embedding = None if fact.embedding is None else decision.inputs[fact.embedding]
                if embedding is not None and embedding.model == model:
                    changes.append(
                        PutVector(
                            space=decision.space,
                            id=fact.memory_id,
                            version=1 if isinstance(fact, MemoryLearned) else fact.version,
                            vector=vector_of(embedding),
                            session=fact.session_id,
                            confidence=fact.confidence,
                        )
                    )
                elif isinstance(fact, MemoryUpdated):
                    changes.append(Remove(decision.space, fact.memory_id))
            case MemoryForgotten():
                changes.append(Remove(decision.space, fact.memory_id))
            case MemoriesConsolidated():
                changes += [Remove(decision.space, number) for number in fact.superseded]
            case _:
                pass
    return changes
