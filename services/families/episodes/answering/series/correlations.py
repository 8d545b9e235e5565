"""Which variables move together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from mnemolog.services.families.episodes.answering.series.numbers import (
    Variable,
    holm,
    lag_one,
    rounded,
)

_FEWEST = 3.0
"""Independent points that are left however much the series follow themselves."""
_LEAST_LEVEL = 1e-9
"""Below it an interval holds with certainty, so everything is in it."""


def correlations(variables: Sequence[Variable], level: float) -> list[dict[str, Any]]:
    """Pearson's coefficient of every pair that varies, the surest first.

    Two series that each follow their own past are alike by chance more often than independent
    values: the p-value and the interval count as many points as would tell as much (Bartlett's
    formula for AR(1)). p-values are corrected for the number of pairs, intervals are each pair's
    own.
    """
    pairs = list(combinations([one for one in variables if not one.constant], 2))
    coefficients = [_coefficient(*pair) for pair in pairs]
    counts = [_effective(*pair) for pair in pairs]
    p_values = holm(
        [
            _p_value(coefficient, count, len(pair[0].values))
            for pair, coefficient, count in zip(pairs, coefficients, counts, strict=True)
        ]
    )
    found = [
        {
            "variables": [one.name for one in pair],
            "coefficient": rounded(coefficient),
            "p_value": rounded(p_value),
            "significant": p_value <= level,
            "confidence_interval": _interval(coefficient, count, level),
        }
        for pair, coefficient, count, p_value in zip(
            pairs, coefficients, counts, p_values, strict=True
        )
    ]
    return sorted(found, key=lambda one: (one["p_value"], -abs(one["coefficient"])))


def _coefficient(one: Variable, other: Variable) -> float:
    a, b = (each.values - each.values.mean() for each in (one, other))
    plain = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
    # What is one but for rounding is one: its interval has no width.
    return math.copysign(1.0, plain) if abs(plain) > 1.0 - 1e-12 else plain


def _effective(one: Variable, other: Variable) -> float:
    count = len(one.values)
    shared = lag_one(one.values) * lag_one(other.values)
    return min(max(count * (1.0 - shared) / (1.0 + shared), _FEWEST), float(count))


def _p_value(coefficient: float, count: float, points: int) -> float:
    """Student's t. Never less than the chance that an order of few points comes out as it is."""
    from scipy.stats import t

    least = 2.0 / math.factorial(points) if points < 20 else 0.0
    free = count - 2.0
    ratio = coefficient * math.sqrt(free / max(1.0 - coefficient**2, 1e-300))
    return max(float(2.0 * t.sf(abs(ratio), free)), least)


def _interval(coefficient: float, count: float, level: float) -> list[float]:
    """Fisher's."""
    from scipy.stats import norm

    if count <= 3.0 or level < _LEAST_LEVEL:
        return [-1.0, 1.0]
    if abs(coefficient) == 1.0:
        return [coefficient, coefficient]
    reach = float(norm.isf(level / 2.0)) / math.sqrt(count - 3.0)
    middle = math.atanh(coefficient)
    return [rounded(np.tanh(middle - reach)), rounded(np.tanh(middle + reach))]
