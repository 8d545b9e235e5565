"""The numbers that deciding on memories goes by. A replay may set others to see what they would
have kept."""

from __future__ import annotations

import msgspec

from mnemolog.events.robot import PROTECTED
from mnemolog.services.decider import tool


class RobotRules(msgspec.Struct, frozen=True, kw_only=True):
    dedup_jaccard: float = 0.70
    dedup_guard: bool = True
    """Texts that differ in a number, a unit or a negation, or that say opposite things (left and
    right), are not duplicates."""
    consolidate_jaccard: float = 0.50
    consolidate_from: int = 3
    """A session with fewer memories that could be merged is left alone."""
    consolidate_below_confidence: float = 0.95
    consolidate_comparisons: int = 200_000
    """How many pairs of memories the end of a session compares at most; other calls wait for it."""
    decay_rate: float = 0.01
    decay_after_days: float = 1.0
    decay_floor: float = 0.05
    protected: tuple[str, ...] = PROTECTED
    """Categories that neither fade nor get merged."""
    related: int = 5
    related_from: int = 200
    """How many memories of a session, the newest, say what it was about."""


Context = tool.Context[RobotRules]
