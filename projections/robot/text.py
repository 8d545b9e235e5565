"""What the robot family's facts change in the text index."""

from __future__ import annotations

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.events.robot import (
    MemoriesConsolidated,
    MemoryForgotten,
    MemoryLearned,
    MemoryUpdated,
)
from mnemolog.projections.ports import PutText, Remove
from mnemolog.projections.projection import TextOf


def _put(fact: MemoryLearned | MemoryUpdated, decision: Decision) -> list[PutText]:
    return [
        PutText(
            space=decision.space,
            id=fact.memory_id,
            text=fact.content,
            session=fact.session_id,
            confidence=fact.confidence,
        )
    ]


def _forgotten(fact: MemoryForgotten, decision: Decision) -> list[Remove]:
    return [Remove(decision.space, fact.memory_id)]


def _merged(fact: MemoriesConsolidated, decision: Decision) -> list[Remove]:
    return [Remove(decision.space, number) for number in fact.superseded]


TEXT: dict[type[Fact], TextOf] = {
    MemoryLearned: _put,
    MemoryUpdated: _put,
    MemoryForgotten: _forgotten,
    MemoriesConsolidated: _merged,
}
