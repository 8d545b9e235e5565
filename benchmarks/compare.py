"""Two versions that were measured in turns: how far apart they are, and how sure that is.

A session is a pair of fresh processes, on stores of their own; in a round of it first one version
and then the other makes the same few calls. Each call is compared with the same call of the other
version, made a moment before or after: the median of these ratios is what is reported. The ratio of
the two medians would have an interval that on a busy machine was up to three times as wide.

Calls of a round, and rounds of a session, are more alike than others. So what is drawn anew for the
interval is whole sessions, and whole rounds within them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import BLOCK
from benchmarks.results import Comparison, Difference

RESAMPLES = 2000
SEED = 1
TOLERANCE = 0.05
MIN_ROUNDS = 12
"""Of fewer an interval says too little."""
Session = Sequence[Sequence[float]]
"""What one version took in a session, in milliseconds: its rounds, and in each its calls."""


def rounds(milliseconds: Sequence[float], block: int = BLOCK) -> Session:
    """The calls of a session, as they were made in turns."""
    return [milliseconds[i : i + block] for i in range(0, len(milliseconds), block)]


def compare(
    operation: str, size: int, this: Sequence[Session], beside: Sequence[Session]
) -> Comparison:
    """What was measured of one operation in the same sessions and rounds, as a comparison."""
    ours, others = (np.asarray(one, dtype=np.float64) for one in (this, beside))
    if ours.shape != others.shape or ours.ndim != 3:
        raise ValueError(f"{operation}: {ours.shape} and {others.shape} were not taken in turns")
    ratios = ours / others
    low, high = interval(ratios)
    enough = ratios.shape[0] * ratios.shape[1] >= MIN_ROUNDS
    return Comparison(
        operation,
        size,
        ratios.size,
        round(float(np.median(ours)), 3),
        round(float(np.median(others)), 3),
        round(float(np.median(ratios)), 4),
        round(low, 4),
        round(high, 4),
        difference(low, high) if enough else "unclear",
    )


def difference(low: float, high: float) -> Difference:
    """What an interval of the ratio lets one say; within means at most 5 % slower."""
    if high < 1 - TOLERANCE:
        return "faster"
    if high <= 1 + TOLERANCE:
        return "within 5 %"
    return "slower" if low > 1 + TOLERANCE else "unclear"


def interval(ratios: NDArray[np.float64]) -> tuple[float, float]:
    """Where 95 of 100 medians lie of sessions and rounds that are drawn anew, with replacement."""
    random = np.random.default_rng(SEED)
    sessions, blocks, _ = ratios.shape
    medians = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        drawn = random.integers(0, sessions, (sessions, 1))
        medians[i] = np.median(ratios[drawn, random.integers(0, blocks, (sessions, blocks))])
    low, high = np.quantile(medians, (0.025, 0.975))
    return float(low), float(high)
