"""Two versions beside each other: what their times say, and what they do not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.compare import compare, difference, rounds
from benchmarks.results import Comparison

SHAPE = (6, 8, 10)


def times(seed: int, noise: float, shape: tuple[int, int, int] = SHAPE) -> NDArray[np.float64]:
    """Calls of about 10 ms, some of them much slower, as times are."""
    return 10 * np.exp(np.random.default_rng(seed).gamma(1.0, noise, shape))


def compared(this: NDArray[np.float64], beside: NDArray[np.float64]) -> Comparison:
    return compare("learn", 300, this.tolist(), beside.tolist())


def test_a_version_is_within_5_percent_of_itself() -> None:
    found = compared(times(1, 0.1), times(2, 0.1))
    assert found.low <= 1.0 <= found.high
    assert found.difference == "within 5 %"
    assert found.samples == 480


def test_a_tenth_slower_is_seen_through_noise() -> None:
    found = compared(1.1 * times(1, 0.1), times(2, 0.1))
    assert found.low <= 1.1 <= found.high
    assert found.difference == "slower"
    assert compared(times(2, 0.1), 1.1 * times(1, 0.1)).difference == "faster"


def test_what_the_machine_does_to_both_cancels() -> None:
    slow = np.repeat(np.linspace(1, 3, SHAPE[0] * SHAPE[1]), SHAPE[2]).reshape(SHAPE)
    found = compared(slow * times(1, 0.1), slow * times(2, 0.1))
    assert found.difference == "within 5 %"


def test_processes_that_differ_make_it_unclear() -> None:
    """Every call says the same within a session, but another session says something else."""
    luck = np.array([0.9, 1.1, 0.92, 1.08, 1.12, 0.95]).reshape(6, 1, 1)
    found = compared(luck * times(1, 0.01), times(2, 0.01))
    assert found.difference == "unclear"


def test_few_rounds_say_nothing() -> None:
    found = compared(2 * times(1, 0.01, (1, 3, 10)), times(2, 0.01, (1, 3, 10)))
    assert found.difference == "unclear"


def test_what_was_not_taken_in_turns_is_not_compared() -> None:
    with pytest.raises(ValueError, match="not taken in turns"):
        compared(times(1, 0.1), times(2, 0.1, (6, 8, 9)))


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.90, 0.94, "faster"),
        (0.94, 0.96, "within 5 %"),
        (0.99, 1.05, "within 5 %"),
        (0.99, 1.06, "unclear"),
        (1.04, 1.20, "unclear"),
        (1.06, 1.20, "slower"),
    ],
)
def test_an_interval_says(low: float, high: float, said: str) -> None:
    assert difference(low, high) == said


def test_rounds_are_the_calls_in_order() -> None:
    assert rounds([1.0, 2.0, 3.0, 4.0], 2) == [[1.0, 2.0], [3.0, 4.0]]
