"""The time of a decision: the call's, as far as the log and the decider's clock bear it out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.events.arguments import Refused
from mnemolog.projections.times import DAY_US, iso
from mnemolog.services.decider.clock import AHEAD_US, LEAP_US, NOT_BEFORE_US, DecisionTime

NOW = NOT_BEFORE_US + 100 * DAY_US


def at(now: int, *, newest: int = 0, leap: bool = False) -> DecisionTime:
    time = DecisionTime(lambda: now, leap=leap)
    time.seen(newest)
    return time


def test_it_is_the_calls_unless_the_log_is_later() -> None:
    assert at(NOW).of(NOW - 5, NOW - 7) == NOW - 5
    assert at(NOW).of(NOW - 7, NOW - 5) == NOW - 5


def test_a_gateway_whose_clock_is_ahead_is_held_to_the_deciders() -> None:
    assert at(NOW).of(NOW + AHEAD_US, NOW) == NOW + AHEAD_US
    assert at(NOW).of(NOW + 3650 * DAY_US, NOW - 5) == NOW
    assert at(NOW).of(2**62, NOW + 5) == NOW + 5


def test_a_log_that_a_wrong_clock_left_ahead_does_not_stay_there() -> None:
    assert at(NOW).of(NOW - 5, NOW + 3650 * DAY_US) == NOW
    assert at(NOW).of(NOW + 5, 2**62) == NOW + 5


def test_a_clock_that_was_never_set_says_nothing() -> None:
    assert at(0).of(0, NOW) == NOW
    assert at(NOT_BEFORE_US - 1).of(5, NOW) == NOW
    assert at(NOW, newest=5).of(NOW, 5) == NOW  # It is set while the log is of 1970.


def test_a_clock_that_is_years_ahead_of_the_log_is_not_believed() -> None:
    late = NOW + 3650 * DAY_US
    with pytest.raises(Refused) as refused:
        at(late, newest=NOW).of(late, NOW)
    assert f"The clock shows {iso(late)} UTC" in refused.value.sentence
    assert "3,650 days before" in refused.value.sentence
    assert "MNEMOLOG_ACCEPT_CLOCK=true" in refused.value.sentence
    assert at(late, newest=NOW, leap=True).of(late, NOW) == late
    assert at(late).of(late, 0) == late  # The first call of all.


def test_what_another_partition_has_seen_counts() -> None:
    """A collection that nobody used for years is used again."""
    late = NOW + 3650 * DAY_US
    assert at(late, newest=late - DAY_US).of(late, NOW) == late


@given(
    received=st.integers(-(2**63), 2**63 - 1),
    head=st.integers(0, 2**63 - 1),
    now=st.integers(0, 2**62),
)
def test_it_is_never_far_ahead_of_a_clock_that_was_set(received: int, head: int, now: int) -> None:
    try:
        found = at(now).of(received, head)
    except Refused:
        assert max(received, head) > head + LEAP_US
        return
    assert found <= max(received, head)
    if now >= NOT_BEFORE_US:
        assert found <= now + AHEAD_US
    else:
        assert found >= head


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_time_can_be_shown(at_us: int) -> None:
    assert len(iso(at_us)) == len("2026-11-18T00:00:00")
