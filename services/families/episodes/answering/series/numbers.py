"""A variable on a scale of its own, and numbers as a reply shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

MAD_TO_SIGMA = 1.482602218505602
"""What makes the median absolute deviation of normal numbers their standard deviation."""
_LARGEST = 1.7e308
"""Nothing larger is shown: a forecast may lie where numbers end, and JSON has no infinity."""
_SMALLEST_RANGE = 1e-300
_ROUNDING = 1e-12
"""A range that is this small beside the values is what arithmetic left, no variation."""


@dataclass(frozen=True)
class Variable:
    """A series moved and stretched into -1 to 1. All tests come out the same on any scale, and on
    this one no sum of squares overflows or vanishes, whatever was measured in whatever unit."""

    name: str
    raw: Numbers
    values: Numbers
    center: float
    half_range: float
    """0 when the series is constant."""

    @property
    def constant(self) -> bool:
        return self.half_range == 0.0

    def shown(self, scaled: Iterable[float]) -> list[float]:
        """Values of the variable's own scale, to a millionth of its range: six digits of the value
        itself would say nothing of a clock's reading."""
        size = self.half_range or abs(self.center) or 1.0
        decimals = 6 - math.ceil(math.log10(size))
        # No infinity on the way: it would be worth a warning to numpy.
        plain = (self.center + self.half_range * float(one) for one in scaled)
        return [round(min(max(one, -_LARGEST), _LARGEST), decimals) + 0.0 for one in plain]


def scaled(name: str, raw: Sequence[float] | Numbers) -> Variable:
    values = np.asarray(raw, dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    center, half = low / 2 + high / 2, high / 2 - low / 2
    if half <= max(_SMALLEST_RANGE, _ROUNDING * max(abs(low), abs(high))):
        return Variable(name, values, np.zeros(len(values)), float(values[-1]), 0.0)
    return Variable(name, values, np.clip((values - center) / half, -1.0, 1.0), center, half)


def rounded(value: Any) -> float:
    """Six digits: beyond them the sums of different processors differ."""
    return float(f"{float(value):.6g}") + 0.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected for how many tests were made: at level a, a call in which nothing is the case has
    any significant one of them with a chance of at most a."""
    # statsmodels' own has Python collect all garbage each time, which stops a whole service.
    plain = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(plain, kind="stable")
    corrected = np.empty(len(plain))
    corrected[order] = np.maximum.accumulate(plain[order] * np.arange(len(plain), 0, -1))
    return [float(one) for one in np.minimum(corrected, 1.0)]


def line(values: Numbers) -> Numbers:
    """The straight line through `values` with the least squares."""
    times = np.linspace(-1.0, 1.0, len(values))
    slope = float(times @ values / (times @ times))
    return float(values.mean()) + slope * times


def local_slope(values: Numbers) -> Numbers:
    """A line with the middle one of the slopes over an eighth of the series. Few of these go over a
    step or from a point that stands out, so neither bends it."""
    apart = max(len(values) // 8, 1)
    rise = float(np.median(values[apart:] - values[:-apart])) / apart
    return rise * np.arange(len(values), dtype=np.float64)


def lag_one(values: Numbers) -> float:
    """How much a value is like the one before it, -1 to 1."""
    off = values - values.mean()
    total = float(off @ off)
    return float(off[1:] @ off[:-1]) / total if total > 0.0 else 0.0


def inflation(residuals: Numbers) -> float:
    """By how much the variance of a mean is larger than of independent values, if what is left over
    follows its own last value (an AR(1)). At least 1; the estimate's own bias is made good."""
    count = len(residuals)
    like = lag_one(residuals)
    like = min(max(like + (1.0 + 4.0 * like) / count, 0.0), 0.99)
    return (1.0 + like) / (1.0 - like)


def running_median(values: Numbers, window: int) -> Numbers:
    """The median of what surrounds each point; at the ends there is less of it."""
    half = window // 2
    padded = np.concatenate([np.full(half, np.nan), values, np.full(half, np.nan)])
    views = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.asarray(np.nanmedian(views, axis=1))


def spread(values: Numbers) -> float:
    """The standard deviation as far as most values tell: by the median absolute deviation, or the
    mean one where more than half of the values are the same. 0 where only rounding is left, on a
    scale of -1 to 1."""
    off = np.abs(values - np.median(values))
    for deviation in (MAD_TO_SIGMA * float(np.median(off)), 1.2533141373155 * float(off.mean())):
        if deviation > _ROUNDING:
            return deviation
    return 0.0
