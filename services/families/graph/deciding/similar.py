"""Which new observations resemble one that the entity has.

The rule is that of find_duplicate_observations as far as words go: deciding has no vectors of
observations. A flag loses nothing, it only asks somebody to look.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from mnemolog.projections.language import guard, jaccard
from mnemolog.projections.language.likeness import asymmetric, containment, word_set
from mnemolog.services.families.graph.rules import GraphRules


def flagged(said: list[str], new: list[str], rules: GraphRules) -> list[int]:
    """Places in `new` of texts that resemble one in `said`, or one before them in `new`."""
    words, signature = cache(word_set), cache(guard)

    def resemble(a: str, b: str) -> bool:
        if asymmetric(a, b):
            short, long = sorted((a, b), key=len)
            return containment(words(short), words(long)) >= rules.similar_containment
        if jaccard(words(a), words(b)) < rules.similar_jaccard:
            return False
        return not rules.similar_guard or signature(a) == signature(b)

    among = [*said, *new]
    return [
        place
        for place, text in enumerate(new)
        if any(resemble(text, other) for other in _newest(among, len(said) + place, rules))
    ]


def _newest(texts: list[str], end: int, rules: GraphRules) -> Iterator[str]:
    """Of those before `end`, the newest, as many as the rules allow."""
    characters = 0
    for place in range(end - 1, max(-1, end - 1 - rules.similar_among), -1):
        characters += len(texts[place])
        if characters > rules.similar_characters:
            return
        yield texts[place]
