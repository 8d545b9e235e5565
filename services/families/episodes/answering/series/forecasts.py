"""How a variable goes on, and how far off that may be."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mnemolog.services.families.episodes.answering.series.numbers import (
    Numbers,
    Variable,
    line,
    rounded,
    scaled,
)

FEWEST = 5
"""Points, below which nothing is forecast."""
_NEWEST = 300
"""Points that a forecast is made from: exponential smoothing has forgotten earlier ones."""
_LEAST_SQUARES = 1e-20
"""Of a fit that is exact but for rounding, for each point."""

_LEAST_LEVEL = 1e-9
"""Bounds that hold with certainty would be infinitely far."""


class Fit(NamedTuple):
    method: str
    parameters: int
    squares: float
    points: Numbers
    """Forecasts, on the variable's scale."""
    widths: Numbers
    """Standard deviations of their errors, in those of one step."""


def forecasts(variables: Sequence[Variable], horizon: int, level: float) -> list[dict[str, Any]]:
    """For every variable the best of the mean, a straight line and exponential smoothing without,
    with and with a damped trend, by Akaike's criterion for few points. Each point lies within its
    bounds with a chance of 1 less the level, as far as the fit holds; `fit_quality` is the share of
    the variance that it tells one step ahead. A season is not looked for."""
    return [
        _forecast(scaled(one.name, one.raw[-_NEWEST:]), horizon, level)
        for one in variables
        if len(one.raw) >= FEWEST
    ]


def _forecast(variable: Variable, horizon: int, level: float) -> dict[str, Any]:
    from scipy.stats import t

    level = max(level, _LEAST_LEVEL)
    values = variable.values
    if variable.constant:
        best = Fit("constant", 1, 0.0, np.zeros(horizon), np.zeros(horizon))
        reach, quality = np.zeros(horizon), 1.0
    else:
        fits = [_level(values, horizon), _straight(values, horizon), *_smoothed(values, horizon)]
        best = min(fits, key=lambda one: _criterion(one, len(values)))
        free = len(values) - best.parameters
        reach = best.widths * math.sqrt(best.squares / free) * float(t.isf(level / 2.0, free))
        quality = 1.0 - best.squares / (len(values) * float(values.var()))
    return {
        "variable": variable.name,
        "point_forecasts": variable.shown(best.points),
        "lower_bounds": variable.shown(best.points - reach),
        "upper_bounds": variable.shown(best.points + reach),
        "fit_quality": rounded(min(max(quality, 0.0), 1.0)),
        "method": best.method,
    }


def _criterion(fit: Fit, count: int) -> float:
    """Akaike's, corrected for few points; the noise is a parameter too."""
    parameters = fit.parameters + 1
    spare = count - parameters - 1
    if spare < 1:
        return math.inf
    unexplained = count * math.log(fit.squares / count + _LEAST_SQUARES)
    return unexplained + 2.0 * parameters * (1.0 + (parameters + 1) / spare)


def _level(values: Numbers, horizon: int) -> Fit:
    left = values - values.mean()
    widths = np.full(horizon, math.sqrt(1.0 + 1.0 / len(values)))
    return Fit("mean", 1, float(left @ left), np.full(horizon, values.mean()), widths)


def _straight(values: Numbers, horizon: int) -> Fit:
    count = len(values)
    fitted = line(values)
    step = float(fitted[-1] - fitted[0]) / (count - 1)
    ahead = np.arange(1, horizon + 1)
    from_middle = (count - 1) / 2.0 + ahead
    widths = np.sqrt(1.0 + 1.0 / count + 12.0 * from_middle**2 / (count * (count**2 - 1.0)))
    left = values - fitted
    return Fit("linear_trend", 2, float(left @ left), fitted[-1] + step * ahead, widths)


@cache
def _smoothing() -> Any:
    """statsmodels' exponential smoothing. That a search of its parameters did not converge is no
    news to anybody: what it found is compared with the others as it is."""
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    warnings.filterwarnings("ignore", module=r"statsmodels\.tsa\.holtwinters")
    return ExponentialSmoothing


def _smoothed(values: Numbers, horizon: int) -> Iterator[Fit]:
    for method, trend, damped, parameters in (
        ("simple_exponential_smoothing", None, False, 2),
        ("holt_linear_trend", "add", False, 4),
        ("damped_trend", "add", True, 5),
    ):
        if len(values) < parameters + 3:
            return
        model = _smoothing()(
            values, trend=trend, damped_trend=damped, initialization_method="estimated"
        )
        fit = model.fit()
        points = np.asarray(fit.forecast(horizon), dtype=np.float64)
        if math.isfinite(fit.sse) and np.isfinite(points).all():
            widths = _widths(fit.params, horizon, trend is not None, damped)
            yield Fit(method, parameters, float(fit.sse), points, widths)


def _widths(params: dict[str, Any], horizon: int, trend: bool, damped: bool) -> Numbers:
    """What the errors of the steps before add to that of each step (Hyndman and others, Forecasting
    with Exponential Smoothing, 2008, table 6.1)."""
    level = float(params["smoothing_level"])
    slope = level * float(params["smoothing_trend"]) if trend else 0.0
    factor = float(params["damping_trend"]) if damped else 1.0
    carried = level + slope * np.cumsum(factor ** np.arange(1, horizon))
    return np.sqrt(1.0 + np.concatenate([[0.0], np.cumsum(carried**2)]))
