"""The codec: what was written is read back, and what cannot be read is said to be so."""

from __future__ import annotations

import types
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemolog.events.codec import (
    NEWEST,
    Fact,
    NewerVersion,
    Undecodable,
    decode_call,
    decode_decision,
    encode_call,
    encode_decision,
    encode_fact,
    tag_of,
)
from mnemolog.events.envelope import Answered, Call, Decision, Embedding, Truncated
from mnemolog.events.episodes import LANGUAGE as EPISODES
from mnemolog.events.graph import LANGUAGE as GRAPH
from mnemolog.events.language import Facts, Language, Upcast
from mnemolog.events.robot import LANGUAGE as ROBOT
from mnemolog.events.robot import MemoryForgotten

FACT_TYPES = [*ROBOT.facts, *GRAPH.facts, *EPISODES.facts]
KNOWN = Facts([ROBOT, GRAPH, EPISODES])
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=20),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    type(None): st.none(),
    Any: st.one_of(st.none(), st.booleans(), st.text(max_size=20)),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Anything that a field of this type may hold."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return values(inner[0])
    if origin is list:
        return st.lists(values(inner[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=3)
    if origin in (Union, types.UnionType):
        return st.one_of([values(one) for one in inner])
    if hint is msgspec.Raw:
        return st.one_of([values(one) for one in FACT_TYPES]).map(encode_fact)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint, include_extras=True)
        fields = {name: values(hints[name]) for name in hint.__struct_fields__}
        return st.fixed_dictionaries(fields).map(lambda given: hint(**given))
    return PLAIN[hint]


CALLS: st.SearchStrategy[Call] = values(Call)
DECISIONS: st.SearchStrategy[Decision] = values(Decision)
FACTS: st.SearchStrategy[Fact] = st.one_of([values(one) for one in FACT_TYPES])


# --- there and back ------------------------------------------------------------------------------


@given(CALLS)
def test_a_call_is_read_back_as_it_was(call: Call) -> None:
    assert decode_call(encode_call(call)) == call


@given(DECISIONS)
def test_a_decision_is_read_back_as_it_was(decision: Decision) -> None:
    again = decode_decision(encode_decision(decision))
    assert again == decision
    assert encode_decision(again) == encode_decision(decision)
    assert [bytes(one) for one in again.facts] == [bytes(one) for one in decision.facts]


@pytest.mark.parametrize("fact_type", FACT_TYPES, ids=tag_of)
def test_every_fact_is_read_back_as_it_was(fact_type: type[Fact]) -> None:
    @given(values(fact_type))
    def check(fact: Fact) -> None:
        assert KNOWN.decode_one(bytes(encode_fact(fact))) == fact
        assert KNOWN.decode([encode_fact(fact)] * 2) == [fact, fact]

    check()


# --- what is no record ---------------------------------------------------------------------------


def decodes_or_says_so(data: bytes) -> None:
    for decode in (decode_call, decode_decision, KNOWN.decode_one):
        try:
            decode(data)
        except (Undecodable, NewerVersion) as error:
            assert str(error)


DEEP = b"\x91" * 50_000 + b"\xc0"


@given(st.binary(max_size=200))
@example(b"")
@example(b"\x93\xa4call\x01" + DEEP)
@example(b"\x93\xa8decision\x01" + DEEP)
@example(b"\x82\xa1a" + DEEP + b"\xa4type\xa1x")
@example(b"\x93\xa4\xff\xff\xff\xff\x01\xc0")
@example(b"\x81\xa4type\xa2\xff\xff")
@example(b"\x81\xa4type\xa3\xed\xa0\x80")
@example(b"\x93\xa4call\xcf" + b"\xff" * 8 + b"\x80")
def test_any_bytes_are_read_or_said_to_be_unreadable(data: bytes) -> None:
    decodes_or_says_so(data)


@given(
    st.one_of(
        CALLS.map(encode_call),
        DECISIONS.map(encode_decision),
        FACTS.map(encode_fact).map(bytes),
    ),
    st.data(),
)
def test_damaged_records_are_read_or_said_to_be_unreadable(record: bytes, data: Any) -> None:
    place = data.draw(st.integers(0, len(record) - 1))
    byte = data.draw(st.integers(0, 255))
    decodes_or_says_so(record[:place] + bytes([byte]) + record[place + 1 :])
    decodes_or_says_so(record[:place])
    decodes_or_says_so(record[:place] + record[place + 1 :])


@given(CALLS, DECISIONS)
def test_a_call_is_no_decision(call: Call, decision: Decision) -> None:
    with pytest.raises(Undecodable, match="expected a decision, found a call"):
        decode_decision(encode_call(call))
    with pytest.raises(Undecodable, match="expected a call, found a decision"):
        decode_call(encode_decision(decision))


@pytest.mark.parametrize("version", [0, -1])
def test_no_version_came_before_the_first(version: int) -> None:
    with pytest.raises(Undecodable, match=f"of version {version}"):
        decode_call(msgspec.msgpack.encode(("call", version, {})))


@pytest.mark.parametrize(
    ("field", "too_large", "place"),
    [
        ("received_at_us", 2**63, r"\$\.received_at_us"),
        ("answered", {"ids": [1, 2**63]}, r"\$\.answered\.ids\[1\]"),
        ("answered", {"ids": [2**64 - 1]}, r"\$\.answered\.ids\[0\]"),
    ],
)
def test_a_call_holds_no_number_that_a_store_cannot(field: str, too_large: Any, place: str) -> None:
    """Smaller ones than a store can hold have no room in the encoding itself."""
    call = Call(id="c", tool="t", arguments=b"{}", space="s", received_at_us=1)
    body = msgspec.structs.asdict(call)
    assert decode_call(msgspec.msgpack.encode(("call", 1, body))) == call
    with pytest.raises(Undecodable, match=f"Expected `int` <= 9223372036854775807 - at `{place}`"):
        decode_call(msgspec.msgpack.encode(("call", 1, {**body, field: too_large})))


# --- what is newer -------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "decode"), [("call", decode_call), ("decision", decode_decision)])
@pytest.mark.parametrize("body", [{"id": "x"}, [1, 2], None, "anything"])
def test_a_record_of_a_newer_version_asks_for_an_upgrade(kind: str, decode: Any, body: Any) -> None:
    with pytest.raises(
        NewerVersion,
        match=f"a {kind} of version {NEWEST[kind] + 1} was written by a newer mnemolog; "
        f"this one reads up to version {NEWEST[kind]}: upgrade it",
    ):
        decode(msgspec.msgpack.encode((kind, NEWEST[kind] + 1, body)))


def test_an_unknown_fact_asks_for_an_upgrade() -> None:
    data = msgspec.msgpack.encode({"type": "robot.memory_learned/2", "memory_id": 1})
    with pytest.raises(
        NewerVersion,
        match=r"the fact 'robot\.memory_learned/2' is not known to this version; "
        "upgrade mnemolog to read this log",
    ):
        KNOWN.decode_one(data)


def test_a_field_that_is_not_known_yet_does_no_harm() -> None:
    data = msgspec.msgpack.encode(
        {"type": "robot.memory_forgotten", "memory_id": 1, "reason": "old", "mood": "sad"}
    )
    assert KNOWN.decode_one(data) == MemoryForgotten(memory_id=1, reason="old")


# --- what is older -------------------------------------------------------------------------------


def gone_v1_v2(body: dict[str, Any]) -> dict[str, Any]:
    return {"memory": body["number"], "reason": body["why"]}


def gone_v2_v3(body: dict[str, Any]) -> dict[str, Any]:
    return {"memory_id": body["memory"], "reason": body["reason"].strip()}


LIFTED = Facts(
    [
        Language(
            name="robot",
            facts=(MemoryForgotten,),
            upcasts=(
                Upcast("robot.gone", "robot.gone/2", gone_v1_v2),
                Upcast("robot.gone/2", "robot.memory_forgotten", gone_v2_v3),
            ),
        )
    ]
)
"""With two made-up old versions of a fact."""


def test_old_facts_are_lifted_one_version_at_a_time() -> None:
    expected = MemoryForgotten(memory_id=7, reason="old")
    first = {"type": "robot.gone", "number": 7, "why": " old "}
    second = {"type": "robot.gone/2", "memory": 7, "reason": "old "}
    today = {"type": "robot.memory_forgotten", "memory_id": 7, "reason": "old"}
    raw = [msgspec.Raw(msgspec.msgpack.encode(one)) for one in (first, second, today)]
    assert LIFTED.decode(raw) == [expected] * 3


@pytest.mark.parametrize("rest", [{}, {"number": 7, "why": 3}, {"number": "seven", "why": "x"}])
def test_an_old_fact_that_cannot_be_lifted_is_said_to_be_unreadable(rest: dict[str, Any]) -> None:
    with pytest.raises(Undecodable):
        LIFTED.decode_one(msgspec.msgpack.encode({"type": "robot.gone", **rest}))


# --- tags ----------------------------------------------------------------------------------------


class Another(Fact, frozen=True, tag="robot.memory_forgotten"):
    pass


class Strange(Fact, frozen=True, tag="kitchen.cup_broken"):
    pass


@pytest.mark.parametrize(
    ("language", "problem"),
    [
        ({"facts": (MemoryForgotten, Another)}, "two facts of the family robot have one tag"),
        ({"facts": (Strange,)}, r"kitchen\.cup_broken is no tag of the family robot"),
        (
            {"facts": (), "upcasts": (Upcast("robot.a", "robot.b", dict),)},
            r"an upcast leads to robot\.b, which the family does not know",
        ),
    ],
)
def test_a_language_that_is_not_whole_is_not_made(language: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Language(name="robot", **language)


def test_two_languages_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="two languages have one name"):
        Facts([ROBOT, Language(name="robot", facts=())])


def test_who_knows_one_language_does_not_know_another() -> None:
    """What can be read is what was asked for, whatever has been imported."""
    data = bytes(encode_fact(MemoryForgotten(memory_id=1, reason="old")))
    assert Facts([ROBOT]).decode_one(data) == MemoryForgotten(memory_id=1, reason="old")
    with pytest.raises(NewerVersion, match="is not known to this version"):
        Facts([GRAPH]).decode_one(data)


@pytest.mark.parametrize("struct", [Answered, Truncated, Embedding])
def test_a_struct_of_the_envelope_is_read_back_as_it_was(struct: type[msgspec.Struct]) -> None:
    """Their strategies are made from their types: a new struct needs no new test."""

    @given(values(struct))
    def check(one: msgspec.Struct) -> None:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=struct) == one

    check()
