"""How often clients may ask: what is granted, what is remembered, what the settings may say, and
what each tool counts as."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.services.api import Unavailable
from mnemolog.services.catalogue import load
from mnemolog.services.families import FAMILIES
from mnemolog.services.gateway.auth.failures import FAILURES, Failures
from mnemolog.services.gateway.auth.needs import needs
from mnemolog.services.gateway.limits import (
    DEFAULT,
    Buckets,
    Limits,
    Rate,
    of_address,
    read_limits,
)
from mnemolog.services.gateway.tools import Offer

NOW_S = 1_700_000_000.0

READS = [
    "health_check",
    "get_metrics",
    "quality_metrics",
    "query_memory",
    "search_patterns",
    "recommend_patterns",
    "get_episode",
    "get_episode_timeline",
    "bulk_episodes",
    "batch_query_episodes",
    "get_episode_tags",
    "search_episodes_by_tags",
    "get_episode_relationships",
    "find_related_episodes",
    "check_relationship_exists",
    "get_dependency_graph",
    "validate_no_cycles",
    "get_topological_order",
]
WRITES = [
    "create_episode",
    "add_episode_step",
    "complete_episode",
    "delete_episode",
    "analyze_patterns",
    "advanced_pattern_analysis",
    "batch_pattern_analysis",
    "batch_compare_episodes",
    "add_episode_tags",
    "remove_episode_tags",
    "set_episode_tags",
    "add_episode_relationship",
    "remove_episode_relationship",
    "configure_embeddings",
    "execute_agent_code",
]
"""As they are documented for the tools of episodes."""


class Clock:
    def __init__(self) -> None:
        self.now_s = 5000.25

    def __call__(self) -> float:
        return self.now_s


def buckets(clock: Clock, most: int = 1000) -> Buckets:
    return Buckets(most, clock, lambda: NOW_S)


def limits(clock: Clock, rate: Rate) -> Limits:
    return Limits({"read": rate, "write": rate}, None, buckets(clock))


RATES = st.builds(
    Rate,
    st.floats(0.001, 10_000, allow_nan=False),
    st.integers(1, 1000).map(float),
)
PAUSES = st.lists(st.one_of(st.just(0.0), st.floats(0, 5, allow_nan=False)), max_size=200)


@given(RATES, PAUSES)
def test_never_more_is_granted_than_the_burst_and_what_grew_since(
    rate: Rate, pauses: list[float]
) -> None:
    clock = Clock()
    limited = limits(clock, rate)
    granted, passed_s = 0, 0.0
    for pause_s in pauses:
        clock.now_s += pause_s
        passed_s += pause_s
        granted += limited.take("robot-7", "read").allowed
        assert granted <= rate.burst + rate.per_s * passed_s + 1e-6


@given(RATES, PAUSES)
def test_who_waits_as_told_is_let_in(rate: Rate, pauses: list[float]) -> None:
    clock = Clock()
    limited = limits(clock, rate)
    for pause_s in pauses:
        clock.now_s += pause_s
        taken = limited.take("robot-7", "read")
        assert 0 <= taken.remaining <= rate.burst
        assert taken.reset_at_s >= NOW_S
        if not taken.allowed:
            assert taken.retry_after_s >= taken.wait_s > 0
            clock.now_s += taken.retry_after_s
            assert limited.take("robot-7", "read").allowed


def test_reads_and_writes_are_counted_apart_and_clients_too() -> None:
    limited = limits(Clock(), Rate(1, 2))
    assert [limited.take("a", "write").allowed for _ in range(3)] == [True, True, False]
    assert limited.take("a", "read").allowed
    assert limited.take("b", "write").allowed
    assert limited.refused == {"read": 0, "write": 1}


def test_who_comes_again_before_it_was_told_to_is_noticed() -> None:
    clock = Clock()
    limited = limits(clock, Rate(20, 1))
    assert limited.take("a", "read").allowed
    assert not limited.take("a", "read").too_early
    assert limited.take("a", "read").too_early
    clock.now_s += 0.05
    assert limited.take("a", "read").allowed, "there is a token, though it was told to wait longer"
    assert limited.take("a", "read").too_early
    clock.now_s += 1
    assert limited.take("a", "read").allowed
    assert not limited.take("a", "read").too_early


def test_what_is_said_of_a_request() -> None:
    clock = Clock()
    limited = limits(clock, Rate(20, 30))
    first = limited.take("a", "write")
    assert first.headers == {
        "X-RateLimit-Limit": "20",
        "X-RateLimit-Remaining": "29",
        "X-RateLimit-Reset": str(int(NOW_S) + 1),
    }
    for _ in range(29):
        limited.take("a", "write")
    refused = limited.take("a", "write")
    assert refused.headers["Retry-After"] == "1"
    reset = int(NOW_S) + 2
    assert refused.data == {"retry_after": 1, "limit": 20, "remaining": 0, "reset": reset}


@given(st.lists(st.integers(0, 50), max_size=300))
def test_so_many_clients_are_remembered_and_the_longest_silent_is_forgotten(
    asking: list[int],
) -> None:
    clock = Clock()
    remembered = buckets(clock, most=8)
    rate = Rate(0.001, 1)
    newest: list[int] = []
    for one in asking:
        known = one in newest
        assert remembered.take(one, rate).allowed is not known
        newest = [*(other for other in newest if other != one), one][-8:]
        assert len(remembered) == len(newest)


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    clock = Clock()
    limited = limits(clock, Rate(1, 2))
    limited.take("a", "read")
    clock.now_s -= 100
    assert limited.take("a", "read").allowed


# --- by address ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("10.0.0.4", "10.0.0.4"),
        ("::ffff:10.0.0.4", "10.0.0.4"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("robot-7", "robot-7"),
        ("", ""),
    ],
)
def test_whoever_has_a_network_of_addresses_is_one_client(address: str, counted: str) -> None:
    assert of_address(address) == counted


def test_a_token_that_was_good_is_looked_at_though_others_of_its_address_are_not() -> None:
    clock = Clock()
    failures = Failures(buckets(clock))
    failures.succeeded("good")
    for number in range(int(FAILURES.burst)):
        assert failures.too_many(f"wrong{number}", "10.0.0.4") is None
        failures.failed(f"wrong{number}", "10.0.0.4")
    refused = failures.too_many("another", "10.0.0.4")
    assert refused is not None and refused.retry_after_s == 1
    assert failures.too_many(None, "10.0.0.4") is not None
    assert failures.too_many("good", "10.0.0.4") is None
    assert failures.too_many("another", "10.0.0.5") is None
    failures.failed("good", "10.0.0.4")  # It was revoked.
    assert failures.too_many("good", "10.0.0.4") is not None
    clock.now_s += 1
    assert failures.too_many("good", "10.0.0.4") is None


# --- the settings --------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["on", "", "ON", " true ", "1", "yes"])
def test_limits_are_on_with_what_is_documented(word: str) -> None:
    found = read_limits(word, "")
    assert found is not None
    assert found.take("a", "read").rate == Rate(100, 150) == DEFAULT["read"]
    assert found.take("a", "write").rate == Rate(20, 30) == DEFAULT["write"]


@pytest.mark.parametrize("word", ["off", "OFF", "false", "0", "no"])
def test_limits_can_be_switched_off(word: str) -> None:
    assert read_limits(word, "robot-7 read=5") is None


def test_rates_of_everybody_and_of_some() -> None:
    found = read_limits("read=5/7", "robot-7 write=0.5/1, 10.0.0.4 read=2 write=3, ::1 read=9")
    assert found is not None
    assert found.take("a", "read").rate == Rate(5, 7)
    assert found.take("a", "write").rate == DEFAULT["write"]
    assert found.take("robot-7", "write").rate == Rate(0.5, 1)
    assert found.take("robot-7", "read").rate == Rate(5, 7)
    assert found.take("10.0.0.4", "read").rate == Rate(2, 3)
    assert found.take(of_address("::1"), "read").rate == Rate(9, 13.5)


@pytest.mark.parametrize(
    ("everybody", "own"),
    [
        ("fast", ""),
        ("read=0", ""),
        ("read=-1", ""),
        ("read=nan", ""),
        ("read=10/0", ""),
        ("read=10 read=20", ""),
        ("read=10,write=5", ""),
        ("read=1e9", ""),
        ("on", "robot-7"),
        ("on", "robot-7 on"),
        ("on", "robot-7 read=5, robot-7 read=6"),
        ("off", "robot-7 fast"),
    ],
)
def test_what_is_no_rate_is_refused_with_what_would_be(everybody: str, own: str) -> None:
    with pytest.raises(Unavailable, match=r"rate_limits can be on, off, or rates .*; not '"):
        read_limits(everybody, own)


# --- what counts as what -------------------------------------------------------------------------


def test_the_tools_of_episodes_count_as_documented() -> None:
    offer = Offer(load(FAMILIES))
    assert {name: needs(offer, "tools/call", name).kind for name in READS + WRITES} == {
        **dict.fromkeys(READS, "read"),
        **dict.fromkeys(WRITES, "write"),
    }


def test_all_other_tools_count_as_what_they_do() -> None:
    offer = Offer(load(FAMILIES))
    others = {name: tool for name, tool in offer.tools.items() if name not in READS + WRITES}
    assert {tool.name for tool in others.values()} >= {"learn", "recall", "search_nodes"}
    for name, tool in others.items():
        expected = "read" if tool.reads else "write"
        assert needs(offer, "tools/call", name).kind == expected, name


def test_what_is_written_down_though_it_is_refused_counts_as_a_write() -> None:
    offer = Offer(load(FAMILIES))
    assert needs(offer, "tools/call", "no_such_tool").kind == "write"
    assert needs(offer, "tools/list").kind == "read"
    assert needs(offer, "resources/read").kind == "read"
