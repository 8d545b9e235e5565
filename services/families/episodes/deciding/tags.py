"""Deciding on the tags of episodes."""

from __future__ import annotations

from collections.abc import Sequence

from mnemolog.services.families.episodes.problems import invalid

SHORTEST, LONGEST = 2, 100


def clean_tags(tags: Sequence[str], field: str = "tags") -> list[str]:
    """Trimmed and lower-cased, each once, in the order they came."""
    found: dict[str, None] = {}
    for place, tag in enumerate(tags):
        clean = " ".join(tag.split()).lower()
        if not SHORTEST <= len(clean) <= LONGEST or not clean.isprintable():
            issue = f"must have {SHORTEST} to {LONGEST} visible characters"
            raise invalid(f"{field}[{place}]", issue, tag)
        found[clean] = None
    return list(found)
