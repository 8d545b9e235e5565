"""What a read leaves on the log: that it was asked, and what it returned."""

from __future__ import annotations

from typing import Any

from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.episodes.rules import Context


def decide_looked(ctx: Context, args: Any) -> Decided:
    """Looking changes nothing."""
    return Decided(ctx.call.space, [], {"returned": ctx.returned()})
