"""What a recall leaves behind: the reader has answered already, and what it returned counts as
accessed now."""

from __future__ import annotations

from mnemolog.events.codec import Fact
from mnemolog.events.robot import MemoriesRecalled, Recall
from mnemolog.projections.robot import state
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.robot.rules import Context


def decide_recall(ctx: Context, args: Recall) -> Decided:
    space = ctx.call.space
    returned = ctx.returned()
    there = state.active_of(ctx.state, space, returned)
    ids = [number for number in returned if number in there]
    facts: list[Fact] = [MemoriesRecalled(memory_ids=ids)] if ids else []
    mode = "" if ctx.call.answered is None else ctx.call.answered.mode
    return Decided(space, facts, {"ids": returned, "mode": mode})
