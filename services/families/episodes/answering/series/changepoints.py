"""Where a variable changes its level or its spread for good."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemolog.services.families.episodes.answering.series.numbers import (
    MAD_TO_SIGMA,
    Numbers,
    Variable,
    inflation,
    line,
    local_slope,
    rounded,
    running_median,
    spread,
)

SHORTEST = 5
"""Points between two changes, at least."""
_WINDOW = 7
_CLIP = 4.0
"""Single points further from their neighbourhood, in standard deviations, are no new level."""
_PENALTY = 3.0
"""What a candidate has to explain, in variances of the noise times the logarithm of the length. It
need not keep out chance, which the test of each candidate does."""
_KINDS = 2


def changepoints(variables: Sequence[Variable], level: float) -> list[dict[str, Any]]:
    """Every change that stands a test, by variable and index: the first point of what is new.

    `confidence` is 1 less the p-value, which is corrected for all places where a change was looked
    for, in all variables. A steady rise or fall is a trend and no change. Values that follow each
    other closely wander from level to level: such changes are reported more often than the level
    says.
    """
    varying = [one for one in variables if not one.constant and len(one.values) >= 2 * SHORTEST]
    found = []
    for one in varying:
        tests = _KINDS * len(varying) * len(one.values)
        calm = _calm(one.values)
        flat, steps, sloped = _sloped_away(calm)
        # The root of what is left over is nearly normal; where the spread changes, its mean does.
        left = np.sqrt(np.abs(one.values - (calm - flat) - _means(flat, steps)))
        changes = [
            (index, kind + ("_increase" if step > 0 else "_decrease"), p_value)
            for kind, part, places, beside_slope in (
                ("mean", flat, steps, sloped),
                ("variance", left, candidates(left), False),
            )
            for index, step, p_value in _tested(part, places, level, tests, beside_slope)
        ]
        found += [
            {
                "variable": one.name,
                "index": index,
                "confidence": rounded(1.0 - p_value),
                "change_type": kind,
            }
            for index, kind, p_value in sorted(changes)
        ]
    return found


def _calm(values: Numbers) -> Numbers:
    """Single points that stand out are drawn in: they are anomalies. A running median follows a
    step at once."""
    slope = local_slope(values)
    middle = slope + running_median(values - slope, _WINDOW)
    reach = _CLIP * spread(values - middle)
    return np.clip(values, middle - reach, middle + reach)


def _sloped_away(values: Numbers) -> tuple[Numbers, list[int], bool]:
    """`values` without their slope, where the steps in that may be, and whether there is one. It is
    none, or what the parts between the steps have in common, begun with that of the whole or of
    neighbourhoods, whichever explains most for what it takes (Schwarz's criterion)."""
    tried = [(values, candidates(values), False)]
    for slope in (line(values), local_slope(values)):
        flat = values - slope
        flat = _levelled(flat, candidates(flat))
        tried.append((flat, candidates(flat), True))
    return min(tried, key=lambda one: _criterion(*one))


def _levelled(values: Numbers, steps: list[int]) -> Numbers:
    """`values` without the slope that the parts between the steps have in common."""
    times = np.linspace(-1.0, 1.0, len(values))
    off = times - _means(times, steps)
    return values - float(off @ values / (off @ off)) * times


def _criterion(values: Numbers, steps: list[int], sloped: bool) -> float:
    left = values - _means(values, steps)
    count = len(values)
    # A step takes its size and its place, and that was chosen of many.
    parameters = 3 * len(steps) + 1 + sloped
    return count * math.log(float(left @ left) / count + 1e-20) + parameters * math.log(count)


def candidates(values: Numbers) -> list[int]:
    """Where the mean may change: PELT with the linear kernel, which is the cost of squares, in
    ruptures' compiled search. The noise is known from neighbours, which steps hardly touch."""
    from ruptures import KernelCPD

    noise = np.diff(values) / math.sqrt(2.0)
    variance = (MAD_TO_SIGMA * float(np.median(np.abs(noise)))) ** 2 or float(noise @ noise) / len(
        noise
    )
    search = KernelCPD(kernel="linear", min_size=SHORTEST).fit(values[:, None])
    penalty = max(_PENALTY * variance * math.log(len(values)), 1e-12)
    return [int(one) for one in search.predict(pen=penalty)[:-1]]


def _means(values: Numbers, steps: list[int]) -> Numbers:
    """At every point the mean of the part that it is in."""
    parts = np.split(values, steps)
    return np.concatenate([np.full(len(one), one.mean()) for one in parts])


def _tested(
    values: Numbers, steps: list[int], level: float, tests: int, sloped: bool
) -> list[tuple[int, float, float]]:
    """Index, step and p-value of each change of the mean. A candidate that fails the test is given
    up, the worst of neighbours first, and its two sides become one, until all that are left stand
    it."""
    while steps:
        if sloped:
            values = _levelled(values, steps)
        steps = _placed(values, steps)
        sizes, p_values = _welch(values, steps, tests, sloped)
        if p_values.max() <= level:
            return [
                (at, float(size), float(p_value))
                for at, size, p_value in zip(steps, sizes, p_values, strict=True)
            ]
        around = np.concatenate([[-1.0], p_values, [-1.0]])
        keep = (p_values <= level) | (p_values < around[:-2]) | (p_values < around[2:])
        if keep.all():
            # Ties among neighbours that fail cannot be: the worst is not below any other.
            keep[int(np.argmax(p_values))] = False
        steps = [at for at, kept in zip(steps, keep, strict=True) if kept]
    return []


def _placed(values: Numbers, steps: list[int]) -> list[int]:
    """Each step where it explains most between its neighbours."""
    placed: list[int] = []
    for after in [*steps[1:], len(values)]:
        first = placed[-1] if placed else 0
        part = values[first:after] - values[first:after].mean()
        sizes = np.arange(SHORTEST, len(part) - SHORTEST + 1)
        gains = np.cumsum(part)[sizes - 1] ** 2 / (sizes * (len(part) - sizes))
        placed.append(first + int(sizes[np.argmax(gains)]))
    return placed


def _welch(values: Numbers, steps: list[int], tests: int, sloped: bool) -> tuple[Numbers, Numbers]:
    """The steps' sizes and p-values by Welch's t, its variances widened by how much the values
    follow each other, and none less than that of the whole. Beside a slope, a step is known only as
    well as the slope. No p-value is less than the chance that so many values come sorted."""
    from scipy.special import gammaln
    from scipy.stats import t

    parts = np.split(values, steps)
    counts = np.array([len(one) for one in parts], dtype=np.float64)
    left = values - _means(values, steps)
    wider = inflation(left)
    # Of a few points that were picked for being alike the variance says too little.
    common = float(left @ left) / max(len(values) - len(parts), 1)
    variances = np.maximum([one.var(ddof=1) for one in parts], common)
    errors = wider * variances / counts + 1e-24
    slope_errors = wider * common * _by_slope(len(values), steps) if sloped else 0.0
    free = (errors[:-1] + errors[1:]) ** 2 / (
        errors[:-1] ** 2 / (counts[:-1] - 1) + errors[1:] ** 2 / (counts[1:] - 1)
    )
    sizes = np.diff([one.mean() for one in parts])
    ratios = np.abs(sizes) / np.sqrt(errors[:-1] + errors[1:] + slope_errors)
    p_values = 2.0 * t.sf(ratios, np.maximum(free / wider, 1.0)) * tests
    both = counts[:-1] + counts[1:]
    ways = gammaln(both + 1) - gammaln(counts[:-1] + 1) - gammaln(counts[1:] + 1)
    return sizes, np.clip(np.maximum(p_values, 2.0 * np.exp(-ways)), 0.0, 1.0)


def _by_slope(count: int, steps: list[int]) -> Numbers:
    """What a slope that was taken away adds to the variance of each step, in that of a point."""
    times = np.arange(count, dtype=np.float64)
    off = times - _means(times, steps)
    middles = np.array([one.mean() for one in np.split(times, steps)])
    return np.asarray(np.diff(middles) ** 2 / float(off @ off))
