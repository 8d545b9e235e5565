"""A decision that counts, and where it stands."""

from __future__ import annotations

import msgspec

from mnemolog.events.codec import Fact, decode_facts
from mnemolog.events.envelope import Decision


class Counted(msgspec.Struct, frozen=True):
    offset: int
    decision: Decision

    def facts(self) -> list[Fact]:
        return decode_facts(self.decision.facts)
