"""Reciprocal rank fusion, and the weight of what was learned in the real world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

RRF_K = 60
REAL_WORLD_WEIGHT = 1.5
SOURCE = "sim_or_real"
"""The part of a context's `env` that says where a memory was learned."""


def fuse(legs: Sequence[Sequence[int]], weights: Mapping[int, float]) -> list[tuple[int, float]]:
    """Ids with their score times their weight, best first; the best has 1.0. Equal scores: the
    newest id first."""
    weighted = {number: score * weights[number] for number, score in reciprocal_ranks(legs).items()}
    return normalise(sorted(weighted.items(), key=lambda one: (-one[1], -one[0])))


def reciprocal_ranks(legs: Sequence[Sequence[int]]) -> dict[int, float]:
    """Per id the sum of 1 / (60 + rank) over the legs, ranks from 1."""
    scores: dict[int, float] = {}
    for leg in legs:
        for rank, number in enumerate(leg, start=1):
            scores[number] = scores.get(number, 0.0) + 1.0 / (RRF_K + rank)
    return scores


def normalise(ranked: list[tuple[int, float]]) -> list[tuple[int, float]]:
    best = max((score for _, score in ranked), default=1.0)
    return [(number, round(score / best, 4)) for number, score in ranked]


def source_weight(context: str) -> float:
    """What was learned in the real world weighs more than what was learned in a simulation."""
    return REAL_WORLD_WEIGHT if is_real(context) else 1.0


def is_real(context: str) -> bool:
    """Whether a memory's context says that it comes from the real world, not a simulation."""
    if SOURCE not in context:
        return False
    try:
        parsed = msgspec.json.decode(context)
    except msgspec.MsgspecError:
        return False
    env = parsed.get("env") if isinstance(parsed, dict) else None
    return isinstance(env, dict) and env.get(SOURCE) == "real"
