"""What followers are told of a decision, and whether they are."""

from __future__ import annotations

import msgspec

from mnemolog.events.envelope import Decision
from mnemolog.projections.times import iso
from mnemolog.services.decider.catalogue import TOOLS
from mnemolog.services.facts import facts_of

_OF_THE_LOG = ("type", "embedding")
"""Fields that only mean something beside the record: `embedding` is a place among its vectors."""


def is_news(decision: Decision) -> bool:
    """Whether followers are told: it changed something. What a read leaves behind is not news, or
    a follower that looks things up would be told of its own looking; neither are late vectors."""
    tool = TOOLS.get(decision.tool)
    return bool(decision.facts) and not (tool is not None and (tool.reads or tool.internal))


def news(partition: int, offset: int, decision: Decision, actor: str) -> bytes:
    """The JSON object that followers get for a decision."""
    facts = [
        {name: value for name, value in fact.items() if name not in _OF_THE_LOG}
        for fact in facts_of(decision)
    ]
    return msgspec.json.encode(
        {
            "position": f"{partition}:{offset}",
            "at": iso(decision.at_us),
            "tool": decision.tool,
            "actor": actor,
            "call_id": decision.call_id,
            "space": decision.space.removeprefix(f"{decision.tenant}/"),
            "facts": facts,
        }
    )
