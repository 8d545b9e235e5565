"""What the knowledge graph's facts change in the text index.

An entity comes in with its description, a while after it changed; a reflection at once.
"""

from __future__ import annotations

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.graph import EntityDeleted, EntityDescribed, ReflectionAdded
from mnemolog.projections.described import index_space
from mnemolog.projections.graph.meaning import ENTITY, REFLECTION
from mnemolog.projections.ports import PutText, Remove
from mnemolog.projections.projection import TextOf


def _described(fact: EntityDescribed, decision: Decision) -> list[PutText]:
    return [PutText(index_space(decision.space, ENTITY), fact.entity_id, fact.text)]


def _deleted(fact: EntityDeleted, decision: Decision) -> list[Remove]:
    return [Remove(index_space(decision.space, ENTITY), fact.entity_id)]


def _reflected(fact: ReflectionAdded, decision: Decision) -> list[PutText]:
    return [PutText(index_space(decision.space, REFLECTION), fact.reflection_id, fact.content)]


TEXT: dict[type[Fact], TextOf] = {
    EntityDescribed: _described,
    EntityDeleted: _deleted,
    ReflectionAdded: _reflected,
}
