"""What the robot family's facts change in the text index."""

from __future__ import annotations

from collections.abc import Iterable

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.robot import (
    MemoriesConsolidated,
    MemoryForgotten,
    MemoryLearned,
    MemoryUpdated,
)
from mnemolog.projections.ports import PutText, Remove, TextChange


def text_changes(decision: Decision, facts: Iterable[Fact]) -> list[TextChange]:
    changes: list[TextChange] = []
    for fact in facts:
        match fact:
            case MemoryLearned() | MemoryUpdated():
                changes.append(
                    PutText(
                        space=decision.space,
                        id=fact.memory_id,
                        text=fact.content,
                        session=fact.session_id,
                        confidence=fact.confidence,
                    )
                )
            case MemoryForgotten():
                changes.append(Remove(decision.space, fact.memory_id))
            case MemoriesConsolidated():
                changes += [Remove(decision.space, number) for number in fact.superseded]
            case _:
                pass
    return changes
