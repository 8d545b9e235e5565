"""The limbic score: how much an entity that was found matters, by how it has been used.

score = base × (1 + 0.5·importance) × temporal × (1 + 0.01·co-occurrence), each part over the
candidates of one search. Pure: the moment is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log2

import msgspec

IMPORTANCE_WEIGHT = 0.5
DEGREE_WEIGHT, DEGREE_CAP = 0.15, 15
DAYS_WEIGHT = 0.2
COOCCURRENCE_WEIGHT = 0.01
FADING_PER_HOUR = 0.0001
LEAST_TEMPORAL = 0.1
WORDS_FLOOR, WORDS_SPAN = 0.2, 0.6
_HOUR_US = 3_600_000_000


class Use(msgspec.Struct, frozen=True):
    """How an entity has been used. `accessed_at_us` is when last, from its creation on."""

    access_count: int
    access_days: int
    accessed_at_us: int
    degree: int = 0


class Together(msgspec.Struct, frozen=True):
    """How often two entities were returned together, and when last."""

    first: int
    second: int
    times: int
    at_us: int


class Scored(msgspec.Struct, frozen=True):
    score: float
    importance: float
    temporal: float
    cooccurrence: float


def scores(
    bases: Mapping[int, float],
    uses: Mapping[int, Use],
    together: Iterable[Together],
    now_us: int,
) -> dict[int, Scored]:
    """The score of every candidate in `bases` (all of which are in `uses`), not rounded."""
    most = max((uses[number].access_count for number in bases), default=0)
    most_days = max((uses[number].access_days for number in bases), default=0)
    met = dict.fromkeys(bases, 0.0)
    for pair in together:
        if pair.first in met and pair.second in met and pair.first != pair.second:
            weight = log2(1 + pair.times) * temporal(pair.at_us, now_us)
            met[pair.first] += weight
            met[pair.second] += weight
    found = {}
    for number, base in bases.items():
        use = uses[number]
        matters = importance(use, most, most_days)
        fresh = temporal(use.accessed_at_us, now_us)
        score = (
            base
            * (1 + IMPORTANCE_WEIGHT * matters)
            * fresh
            * (1 + COOCCURRENCE_WEIGHT * met[number])
        )
        found[number] = Scored(score, matters, fresh, met[number])
    return found


def importance(use: Use, most: int, most_days: int) -> float:
    """By accesses, relations and days of access; 0 when no candidate was ever accessed."""
    if most <= 0:
        return 0.0
    by_access = log2(1 + use.access_count) / log2(1 + most)
    by_degree = 1 + DEGREE_WEIGHT * min(use.degree, DEGREE_CAP) / DEGREE_CAP
    days = log2(1 + use.access_days) / log2(1 + most_days) if most_days > 0 else 0.0
    return by_access * by_degree * (1 + DAYS_WEIGHT * days)


def temporal(at_us: int, now_us: int) -> float:
    """Fades with the hours since, down to a tenth. What lies ahead of the clock is fresh."""
    hours = max(0, now_us - at_us) / _HOUR_US
    return max(LEAST_TEMPORAL, exp(-FADING_PER_HOUR * hours))


def base_of_meaning(distance: float) -> float:
    return max(0.0, 1.0 - distance)


def base_of_words(rrf: float, least: float, most: float) -> float:
    """For what only its words found: where its fused rank lies among the candidates'."""
    place = (rrf - least) / (most - least) if most > least else 1.0
    return WORDS_FLOOR + WORDS_SPAN * place
