"""The numbers that deciding goes by. A replay may set others to see what they would have kept."""

from __future__ import annotations

import msgspec


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    dedup_jaccard: float = 0.70
    dedup_guard: bool = True
    """Texts that differ in a number, a unit or a negation, or that say opposite things (left and
    right), are not duplicates."""
    consolidate_jaccard: float = 0.50
    consolidate_from: int = 3
    """A session with fewer memories that could be merged is left alone."""
    consolidate_below_confidence: float = 0.95
    decay_rate: float = 0.01
    decay_after_days: float = 1.0
    decay_floor: float = 0.05
    related: int = 5
    similar_containment: float = 0.7
    """An observation is flagged when so much of the shorter text is in one at least twice as long,
    or when two of about one length share so many of their words:"""
    similar_jaccard: float = 0.7
    similar_among: int = 500
    """It is compared with so many of the entity's newest observations, of so many characters
    together: an entity that has grown large must not make adding to it slow."""
    similar_characters: int = 50_000
