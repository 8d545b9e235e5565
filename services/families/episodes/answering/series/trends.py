"""Which variables rise or fall over the whole series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemolog.services.families.episodes.answering.series.numbers import (
    Variable,
    holm,
    inflation,
    line,
    rounded,
)


def trends(variables: Sequence[Variable], level: float) -> list[dict[str, Any]]:
    """Mann and Kendall's test of every variable, in the order given. `strength` is the size of
    Kendall's tau, 0 to 1; what has no significant trend is called stable. p-values are corrected
    for the number of variables."""
    tests = [_test(one) for one in variables]
    found = []
    for one, (tau, _), p_value in zip(variables, tests, holm([p for _, p in tests]), strict=True):
        significant = p_value <= level
        rising = "increasing" if tau > 0 else "decreasing"
        found.append(
            {
                "variable": one.name,
                "direction": rising if significant else "stable",
                "strength": rounded(abs(tau)),
                "p_value": rounded(p_value),
                "significant": significant,
            }
        )
    return found


def _test(variable: Variable) -> tuple[float, float]:
    """Tau and its p-value. Values that follow the last one look like a trend for a while, so the
    variance is widened by what is left of that beside a straight line; a random walk, which has no
    level to return to, is still taken for a trend more often than the level says."""
    from scipy.stats import kendalltau, norm

    if variable.constant:
        return 0.0, 1.0
    values = variable.values
    count = len(values)
    tau, p_value = (float(one) for one in kendalltau(np.arange(count), values))
    wider = inflation(values - line(values))
    ratio = abs(tau) * math.sqrt(9.0 * count * (count - 1) / (2.0 * (2 * count + 5)) / wider)
    return tau, max(p_value, float(2.0 * norm.sf(ratio)) if wider > 1.0 else 0.0)
