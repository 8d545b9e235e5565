"""Which variables tell beforehand what others will do (Granger's causality)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from mnemolog.services.families.episodes.answering.series.numbers import (
    Numbers,
    Variable,
    holm,
    rounded,
)

FEWEST = 12
"""Points, below which too little is left to test with."""
_MOST_LAGS = 5
_POINTS_A_LAG = 10
_NOTHING = 1e-10
"""A share of the squares that is what arithmetic left."""


class Test(NamedTuple):
    lag: int
    p_value: float
    strength: float


def causes(variables: Sequence[Variable], level: float) -> list[dict[str, Any]]:
    """Every ordered pair, the surest first: whether the past of the one helps to tell the other
    beyond that one's own past and a straight line. p-values are corrected for the number of pairs.

    `lag` is the one that tells most, `strength` the share of what was left unexplained that the
    cause explains. A third variable that drives both, one sooner than the other, looks the same.
    """
    varying = [one for one in variables if not one.constant]
    if not varying or len(varying[0].values) < FEWEST:
        return []
    pairs = list(permutations(varying, 2))
    tests = [granger(cause.values, effect.values) for cause, effect in pairs]
    p_values = holm([one.p_value for one in tests])
    found = [
        {
            "cause": cause.name,
            "effect": effect.name,
            "lag": test.lag,
            "p_value": rounded(p_value),
            "strength": rounded(test.strength),
            "significant": p_value <= level,
        }
        for (cause, effect), test, p_value in zip(pairs, tests, p_values, strict=True)
    ]
    return sorted(found, key=lambda one: (one["p_value"], -one["strength"]))


def lags_for(count: int) -> int:
    return max(1, min(_MOST_LAGS, count // _POINTS_A_LAG))


def granger(cause: Numbers, effect: Numbers) -> Test:
    """The F test of the cause's lags together. statsmodels' own takes milliseconds for each of
    them, and fails at a pair that fits perfectly.

    After Toda and Yamamoto one lag more of both is in the regression and not tested, so that the
    test holds for series that wander, such as running totals.
    """
    from scipy.stats import f

    lags = lags_for(len(effect))
    extra = lags + 1
    now = effect[extra:]
    times = np.linspace(-1.0, 1.0, len(now))
    known = [np.ones(len(now)), times, *(_lagged(effect, k, extra) for k in range(1, extra + 1))]
    base = _basis(np.column_stack([*known, _lagged(cause, extra, extra)]))
    tested = np.column_stack([_lagged(cause, k, extra) for k in range(1, extra)])
    left, told = _beside(now, base), _beside(tested, base)
    new = _basis(told, float(np.abs(tested).max()))
    total, explained = float(left @ left), float(np.sum((new.T @ left) ** 2))
    free = len(now) - base.shape[1] - new.shape[1]
    if free < 1 or not new.shape[1] or total <= _NOTHING * float(now @ now):
        return Test(1, 1.0, 0.0)
    strength = min(explained / total, 1.0)
    ratio = (explained / new.shape[1]) / max((total - explained) / free, _NOTHING * total)
    return Test(_strongest(told, left), float(f.sf(ratio, new.shape[1], free)), strength)


def _lagged(values: Numbers, lag: int, most: int) -> Numbers:
    return values[most - lag : len(values) - lag]


def _basis(columns: Numbers, size: float = 1.0) -> Numbers:
    """Orthogonal directions that the columns span, without those that only rounding made."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, singular > 1e-7 * max(float(singular[0]), size)])


def _beside(values: Numbers, base: Numbers) -> Numbers:
    return np.asarray(values - base @ (base.T @ values))


def _strongest(told: Numbers, left: Numbers) -> int:
    """The lag whose coefficient is largest beside its error."""
    inverse = np.linalg.pinv(told)
    errors = np.sqrt(np.maximum((inverse**2).sum(axis=1), 1e-300))
    return int(np.argmax(np.abs(inverse @ left) / errors)) + 1
