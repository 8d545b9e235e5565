"""How far a share that was seen can be believed: Wilson's score interval, at 95 %.

One success in one try is a share of 1 that says little: it may be as low as 0.21. Twenty in twenty
may be no lower than 0.84.
"""

from __future__ import annotations

from math import sqrt

Z = 1.959964
"""Of a normal distribution 95 % lie within so many standard deviations."""


def lower(successes: float, tries: int) -> float:
    """The least that the share may well be; 0 when nothing was tried."""
    return _bound(successes, tries, -1) if tries else 0.0


def upper(successes: float, tries: int) -> float:
    """The most that the share may well be; 1 when nothing was tried."""
    return _bound(successes, tries, 1) if tries else 1.0


def _bound(successes: float, tries: int, side: int) -> float:
    share = min(1.0, max(0.0, successes / tries))
    squared = Z * Z
    middle = share + squared / (2 * tries)
    width = Z * sqrt(share * (1 - share) / tries + squared / (4 * tries * tries))
    return min(1.0, max(0.0, (middle + side * width) / (1 + squared / tries)))
