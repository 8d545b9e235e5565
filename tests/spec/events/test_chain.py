"""Which decisions count: those that extend the chain's head and decide the next call."""

from __future__ import annotations

from msgspec.structs import replace

from mnemolog.events.chain import Head, extend, void_reason
from mnemolog.events.codec import encode_decision
from mnemolog.events.envelope import GENESIS, Call, Decision, sha256

FIRST = Decision(
    call_id="c-0",
    call_offset=0,
    call_hash=sha256(b"call"),
    previous=GENESIS,
    at_us=5,
    tool="learn",
    tenant="default",
    space="default/robot/default",
    reply=b"{}",
)


def test_the_first_decision_follows_nothing() -> None:
    assert Head() == Head(bytes(32), 0, 0)
    assert void_reason(Head(), FIRST) is None


def test_the_next_one_names_the_hash_of_the_bytes_before_it() -> None:
    data = encode_decision(FIRST)
    head = extend(Head(), FIRST, data)
    assert head == Head(sha256(data), 1, 5)
    assert void_reason(head, replace(FIRST, previous=sha256(data), call_offset=1)) is None


def test_the_same_decision_does_not_count_twice() -> None:
    head = extend(Head(), FIRST, encode_decision(FIRST))
    assert void_reason(head, FIRST) == "it does not follow the last counting decision"


def test_a_call_is_neither_skipped_nor_decided_again() -> None:
    head = extend(Head(), FIRST, encode_decision(FIRST))
    for offset in (0, 2):
        assert (
            void_reason(head, replace(FIRST, previous=head.hash, call_offset=offset))
            == f"its call is number {offset}, the next undecided is 1"
        )


def test_the_heads_time_is_its_decisions() -> None:
    """Also when that is earlier than the one before: a clock that was wrong is no longer."""
    earlier = replace(FIRST, at_us=3)
    assert extend(Head(at_us=9), earlier, encode_decision(earlier)).at_us == 3


def test_a_changed_byte_breaks_the_chain() -> None:
    data = encode_decision(FIRST)
    other = encode_decision(replace(FIRST, reply=b"[]"))
    assert extend(Head(), FIRST, data).hash != extend(Head(), FIRST, other).hash


def test_a_calls_fingerprint_tells_tool_and_arguments() -> None:
    call = Call(id="a", tool="learn", arguments=b"{}", space="s", received_at_us=1)
    same = replace(call, id="b", received_at_us=2, actor="somebody")
    assert call.fingerprint == same.fingerprint
    assert call.fingerprint != replace(call, tool="forget").fingerprint
    assert call.fingerprint != replace(call, arguments=b'{"a": 1}').fingerprint
    assert call.fingerprint == replace(call, arguments=b"{ }").fingerprint
    assert call.fingerprint != replace(call, arguments=b"{").fingerprint
