"""A decision that counts, where it stands, and its facts."""

from __future__ import annotations

import msgspec

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision
from mnemolog.services.api import Answer


class Counted(msgspec.Struct, frozen=True):
    offset: int
    decision: Decision
    facts: list[Fact]

    def answer(self, partition: int) -> Answer:
        """What its caller is told."""
        decision = self.decision
        return Answer(
            reply=decision.reply,
            refused=decision.refused,
            code=decision.code,
            position=f"{partition}:{self.offset}",
        )
