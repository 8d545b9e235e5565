"""What reading the graph leaves behind: the reader has answered already."""

from __future__ import annotations

from mnemolog.events.arguments import Arguments
from mnemolog.events.codec import Fact
from mnemolog.events.graph import (
    MAX_TOGETHER,
    EntitiesAccessed,
    EntitiesCoOccurred,
    OpenNodes,
    SearchSemantic,
)
from mnemolog.projections.graph import state
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.graph.rules import Context


def decide_looked(ctx: Context, args: Arguments) -> Decided:
    """Looking through the graph is on the log; it does not make what was seen more important."""
    return Decided(ctx.call.space, [], {"ids": ctx.returned()})


def decide_opened(ctx: Context, args: OpenNodes | SearchSemantic) -> Decided:
    """What was opened by name, or found by its meaning, counts as used."""
    space = ctx.call.space
    returned = ctx.returned()
    there = state.existing(ctx.state, ctx.state.space_id(space), returned)
    ids = [number for number in returned if number in there]
    facts: list[Fact] = [EntitiesAccessed(entity_ids=ids)] if ids else []
    if len(ids) > 1:
        facts.append(EntitiesCoOccurred(entity_ids=ids[:MAX_TOGETHER]))
    return Decided(space, facts, {"ids": returned})
