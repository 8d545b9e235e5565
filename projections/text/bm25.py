"""BM25 as Tantivy computes it, so that a document scores the same before and after its commit.

Tantivy keeps a field's length in one byte, rounded down to a table of 256 lengths; `rounded` is
that table. Its k1 and b are fixed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping

import msgspec

from mnemolog.projections.ranking.bm25 import K1, B


class Statistics(msgspec.Struct, frozen=True):
    """How many documents a space holds and how many tokens they have in all."""

    docs: int
    tokens: float

    @property
    def average(self) -> float:
        return self.tokens / self.docs


def _table() -> tuple[int, ...]:
    """Exact up to 40, then eight steps to each power of two."""
    lengths = list(range(24))
    for code in range(256 - 24):
        mantissa, shift = code & 7, (code >> 3) - 1
        lengths.append(24 + (mantissa if shift < 0 else (mantissa | 8) << shift))
    return tuple(lengths)


_LENGTHS = _table()


def rounded(length: int) -> int:
    """The length that Tantivy remembers for a document of `length` tokens."""
    return _LENGTHS[bisect_right(_LENGTHS, length) - 1]


def idf(docs: int, having: int) -> float:
    """The weight of a term that `having` of `docs` documents contain."""
    return math.log(1 + (docs - having + 0.5) / (having + 0.5))


def idfs(docs: int, having: Mapping[str, int]) -> dict[str, float]:
    """The weights of terms, by how many of `docs` documents contain each."""
    return {term: idf(docs, count) for term, count in having.items()}


def length_norm(length: int, average: float) -> float:
    """What a document's length adds to a term's count below the line of its score."""
    return K1 * (1 - B + B * rounded(length) / average)


def score(
    terms: Mapping[str, int], length: int, weights: Mapping[str, float], average: float
) -> float:
    """The score of a document with these term counts; `weights` is the idf of each query term."""
    norm = length_norm(length, average)
    total = 0.0
    for term, weight in weights.items():
        count = terms.get(term)
        if count:
            total += weight * (K1 + 1) * count / (count + norm)
    return total


def comparable(score: float) -> float:
    """The score to five significant digits.

    Tantivy sums in 32-bit floats and in an order of its own, so equal documents can differ in the
    last digits; rounded, they tie, and a tie has a defined order.
    """
    return float(f"{score:.5g}")
