"""What of a memory's text is compared with others: worked out once a text.

One call looks at the same text several times: to find its twin, to store it, to take it out again.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

from mnemolog.projections.language import content_hash, guard, sides, token_set, tokens

REMEMBERED = 256


class Understood(NamedTuple):
    """`hash` is that of the normalised text; `words` are its different tokens, which are in `order`
    with repeats; `guard` its numbers, units and negations as one short key, empty when it has
    none."""

    hash: str
    words: frozenset[str]
    order: tuple[str, ...]
    guard: str

    @property
    def places(self) -> list[str]:
        """Where its words stand, for `swapped`, as what a posting can be found by."""
        return sorted(
            place
            for word, left, right in sides(self.order)
            for place in (*_left_of(word, left), *_right_of(word, right))
        )

    @property
    def other_places(self) -> list[tuple[list[str], list[str]]]:
        """For each word that orders: a text that has one of the first places, and one of the
        second, says the same words the other way round."""
        return [
            (_right_of(word, left), _left_of(word, right))
            for word, left, right in sides(self.order)
        ]


def _left_of(word: str, tokens: frozenset[str]) -> list[str]:
    return [f"{token}<{word}" for token in tokens]  # No token has such a sign.


def _right_of(word: str, tokens: frozenset[str]) -> list[str]:
    return [f"{token}>{word}" for token in tokens]


@lru_cache(maxsize=REMEMBERED)
def understood(text: str) -> Understood:
    signature = guard(text)
    key = (
        hashlib.blake2b(signature.encode("utf-8", "replace"), digest_size=8).hexdigest()
        if signature
        else ""
    )
    return Understood(content_hash(text), token_set(text), tuple(tokens(text)), key)
