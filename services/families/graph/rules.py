"""The numbers that deciding on the knowledge graph goes by."""

from __future__ import annotations

import msgspec

from mnemolog.services.decider import tool


class GraphRules(msgspec.Struct, frozen=True, kw_only=True):
    similar_containment: float = 0.7
    """An observation is flagged when so much of the shorter text is in one at least twice as long,
    or when two of about one length share so many of their words:"""
    similar_jaccard: float = 0.7
    similar_guard: bool = True
    """Texts that differ in a number, a unit or a negation do not resemble each other."""
    similar_among: int = 500
    """It is compared with so many of the entity's newest observations, of so many characters
    together: an entity that has grown large must not make adding to it slow."""
    similar_characters: int = 50_000


Context = tool.Context[GraphRules]
