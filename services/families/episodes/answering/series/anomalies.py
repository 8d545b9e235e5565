"""Single points that stand out from their neighbourhood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemolog.services.families.episodes.answering.series.numbers import (
    Numbers,
    Variable,
    local_slope,
    rounded,
    running_median,
    spread,
)

METHOD = "robust_z_score"
_WINDOW = 15
_TELLS = 0.37
"""How many values of a standard deviation one value of a median absolute deviation is worth."""


_DRAWN = 0.93
"""The running median follows the noise a little: so much of its deviation is left beside it."""


def anomalies(variables: Sequence[Variable], sensitivity: float) -> list[dict[str, Any]]:
    """For every variable the points that are further from a running median than the sensitivity
    allows, and how far, in standard deviations by the median absolute deviation. A trend or a step
    makes no anomaly, nor does an anomaly make its neighbours look usual."""
    found = []
    for one in variables:
        scores = _scores(one)
        indices = np.flatnonzero(scores > threshold(sensitivity, len(scores)))
        found.append(
            {
                "variable": one.name,
                "anomaly_indices": [int(at) for at in indices],
                "anomaly_scores": [rounded(scores[at]) for at in indices],
                "method": METHOD,
            }
        )
    return found


def threshold(sensitivity: float, count: int) -> float:
    """From 5 standard deviations at a sensitivity of 0 to 2 at 1; 3.5, the usual one, at 0.5. Of
    few points the deviation itself is known badly, so more is asked of them: as much as has the
    same chance by Student's t."""
    from scipy.stats import norm, t

    chance = norm.sf(5.0 - 3.0 * sensitivity)
    return float(t.isf(chance, _TELLS * (count - 1)))


def _scores(variable: Variable) -> Numbers:
    if variable.constant:
        return np.zeros(len(variable.values))
    # At its ends a running median knows one side only, and would lag behind a trend.
    level = variable.values - local_slope(variable.values)
    left = level - running_median(level, _WINDOW)
    deviation = spread(left) / _DRAWN
    return np.abs(left - np.median(left)) / deviation if deviation > 0.0 else np.zeros(len(left))
