"""W3C trace context: what is taken, and what is taken for nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.events.envelope import Trace
from mnemolog.events.trace import (
    MAX_MEMBERS,
    MAX_STATE,
    current,
    headers,
    is_trace,
    read_trace,
    trace_id,
    within,
)

IDS = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
PARENT = f"00-{IDS}-01"
WRONG: list[Any] = [
    "",
    None,
    7,
    ["00"],
    f"ff-{IDS}-01",
    f"00-{IDS}",
    f"00-{IDS}-1",
    f"00-{IDS}-01-more",
    f"00-{IDS.upper()}-01",
    f"00-{'0' * 32}-00f067aa0ba902b7-01",
    f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    f" {PARENT}",
    f"{PARENT}\n",
    PARENT.replace("4", "\u0664"),
    f"01-{IDS}-01-{'x' * 300}",
    f"01-{IDS}-01-\x1b[2J",
]
STATES_WRONG: list[Any] = [
    None,
    7,
    "no-value",
    "UPPER=1",
    "a=1,a=2",
    "a=\x1b[2J",
    "a=b=c",
    "a=ü",
    ",".join(f"k{n}=v" for n in range(MAX_MEMBERS + 1)),
    f"a={'x' * MAX_STATE}",
]


@pytest.mark.parametrize("parent", WRONG)
def test_what_is_not_well_formed_is_taken_for_nothing(parent: Any) -> None:
    assert read_trace(parent, "a=1") is None


@pytest.mark.parametrize("state", STATES_WRONG)
def test_a_state_that_is_not_well_formed_is_left_out(state: Any) -> None:
    assert read_trace(PARENT, state) == Trace(PARENT)


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("rojo=00f067,congo=t61rcW", "rojo=00f067,congo=t61rcW"),
        (" a=1 ,, b@c=x y ", "a=1,b@c=x y"),
        ("1tenant@vendor=x", "1tenant@vendor=x"),
    ],
)
def test_one_that_is_stays(state: str, kept: str) -> None:
    assert read_trace(PARENT, state) == Trace(PARENT, kept)


def test_a_later_version_goes_on_as_the_first() -> None:
    assert read_trace(f"cc-{IDS}-01-what-comes-later") == Trace(PARENT)


def test_the_trace_has_an_id() -> None:
    assert trace_id(Trace(PARENT)) == "4bf92f3577b34da6a3ce929d0e0e4736"


@given(st.text() | st.from_regex(r"[0-9a-f-]{40,60}"), st.text())
def test_whatever_is_sent_what_is_taken_is_well_formed(parent: str, state: str) -> None:
    for found in (read_trace(parent, state), read_trace(PARENT, state)):
        if found is not None:
            assert is_trace(found)
            assert found.parent.isascii() and found.state.isascii()
            assert len(found.parent) == 55 and len(found.state) <= MAX_STATE


def test_requests_to_others_carry_it() -> None:
    assert headers() == {}
    with within(Trace(PARENT, "a=1")):
        assert headers() == {"traceparent": PARENT, "tracestate": "a=1"}
        with within(None):
            assert current() is None
        assert current() == Trace(PARENT, "a=1")
    assert headers() == {}
