"""The numbers that deciding on episodes goes by."""

from __future__ import annotations

import msgspec

from mnemolog.services.decider import tool


class EpisodeRules(msgspec.Struct, frozen=True, kw_only=True):
    seconds_scale: float = 120.0
    """A quick episode is efficient: by e to the minus seconds over this."""
    steps_scale: float = 20.0
    """So is a short one: by e to the minus steps over this."""
    sequence_tools: int = 5
    """A ToolSequence is told by so many of the first tools."""
    sequence_steps_ok: float = 0.5
    """More than so much of a run's steps succeed in a mostly successful one."""
    reflection_items: int = 5
    patterns_of_a_kind: int = 5
    """At most so many decision points, and recoveries, are learned from one episode."""


Context = tool.Context[EpisodeRules]
