"""What the knowledge graph's facts change in the vector index of one model."""

from __future__ import annotations

from collections.abc import Iterable

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.graph import EntityDeleted, EntityDescribed, ReflectionEmbedded
from mnemolog.projections.ports import PutVector, Remove, VectorChange
from mnemolog.projections.state.meaning import ENTITY, REFLECTION, index_space
from mnemolog.projections.state.robot import vector_of


def vector_changes(decision: Decision, facts: Iterable[Fact], model: str) -> list[VectorChange]:
    """What other models say is left out: a search never mixes them."""
    changes: list[VectorChange] = []
    for fact in facts:
        match fact:
            case EntityDescribed() if fact.model == model:
                space = index_space(decision.space, ENTITY)
                changes.append(_put(decision, space, fact.entity_id, fact.version, fact.embedding))
            case ReflectionEmbedded() if fact.model == model:
                space = index_space(decision.space, REFLECTION)
                changes.append(_put(decision, space, fact.reflection_id, 1, fact.embedding))
            case EntityDeleted():
                changes.append(Remove(index_space(decision.space, ENTITY), fact.entity_id))
            case _:
                pass
    return changes


def _put(
    decision: Decision, space: str, number: int, version: int, embedding: int | None
) -> VectorChange:
    if embedding is None:
        return Remove(space, number)
    return PutVector(space, number, version, vector_of(decision.inputs[embedding]))
