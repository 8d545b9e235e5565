"""What followers are told of a decision."""

from __future__ import annotations

import msgspec

from mnemolog.projections.times import iso
from mnemolog.services.counted import Counted
from mnemolog.services.facts import facts_of

_OF_THE_LOG = ("type", "embedding")
"""Fields that only mean something beside the record: `embedding` is a place among its vectors."""


def news(partition: int, counted: Counted, actor: str) -> bytes:
    """The JSON object that followers get for a decision."""
    decision = counted.decision
    facts = [
        {name: value for name, value in fact.items() if name not in _OF_THE_LOG}
        for fact in facts_of(counted.facts)
    ]
    return msgspec.json.encode(
        {
            "position": f"{partition}:{counted.offset}",
            "at": iso(decision.at_us),
            "tool": decision.tool,
            "actor": actor,
            "call_id": decision.call_id,
            "space": decision.space.removeprefix(f"{decision.tenant}/"),
            "facts": facts,
        }
    )
