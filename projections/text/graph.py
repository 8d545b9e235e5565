"""What the knowledge graph's facts change in the text index.

An entity comes in with its description, a while after it changed; a reflection at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.graph import EntityDeleted, EntityDescribed, ReflectionAdded
from mnemolog.projections.ports import PutText, Remove, TextChange
from mnemolog.projections.state.meaning import ENTITY, REFLECTION, index_space


def text_changes(decision: Decision, facts: Iterable[Fact]) -> list[TextChange]:
    changes: list[TextChange] = []
    for fact in facts:
        match fact:
            case EntityDescribed():
                space = index_space(decision.space, ENTITY)
                changes.append(PutText(space, fact.entity_id, fact.text))
            case EntityDeleted():
                changes.append(Remove(index_space(decision.space, ENTITY), fact.entity_id))
            case ReflectionAdded():
                space = index_space(decision.space, REFLECTION)
                changes.append(PutText(space, fact.reflection_id, fact.content))
            case _:
                pass
    return changes
