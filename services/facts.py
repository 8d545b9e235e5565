"""A decision's facts as people read them."""

from __future__ import annotations

from typing import Any

import msgspec

from mnemolog.events.codec import decode_facts, tag_of
from mnemolog.events.envelope import Decision


def facts_of(decision: Decision) -> list[dict[str, Any]]:
    return [
        {"fact": tag_of(type(fact)), **msgspec.to_builtins(fact)}
        for fact in decode_facts(decision.facts)
    ]
