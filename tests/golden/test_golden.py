"""Old records decode for ever, and today's program still writes them so."""

from __future__ import annotations

import pytest

from mnemolog.events.codec import decode_call, decode_decision, encode_fact, tag_of
from tests.families import FACTS as KNOWN
from tests.golden.records import CALLS, DECISIONS, FACTS, FOLDER, OLD_FACTS, body, encoded, golden


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_read(name: str) -> None:
    assert decode_call(golden(name)) == CALLS[name]


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_read(name: str) -> None:
    decision = decode_decision(golden(name))
    assert decision == DECISIONS[name]
    assert KNOWN.decode(decision.facts) == KNOWN.decode(DECISIONS[name].facts)


@pytest.mark.parametrize("name", FACTS)
def test_a_fact_is_read(name: str) -> None:
    assert KNOWN.decode_one(golden(name)) == FACTS[name]


@pytest.mark.parametrize("name", OLD_FACTS)
def test_a_fact_of_an_earlier_version_is_lifted(name: str) -> None:
    assert KNOWN.decode_one(golden(name)) == OLD_FACTS[name]
    assert bytes(encode_fact(OLD_FACTS[name])) != golden(name)


@pytest.mark.parametrize("name", encoded())
def test_it_is_still_written_so(name: str) -> None:
    assert encoded()[name] == golden(name)


def test_every_fact_there_is_has_golden_bytes() -> None:
    assert {tag_of(type(fact)) for fact in FACTS.values()} == set(KNOWN.tags)


def test_no_golden_file_is_left_without_its_value() -> None:
    assert {path.name.removesuffix(".hex") for path in FOLDER.glob("*.hex")} == {
        *encoded(),
        *OLD_FACTS,
    }


def test_the_records_shape() -> None:
    """Kind and version come first, so that a newer record is recognised by any version."""
    kind, version, rest = body(golden("call.least"))
    assert (kind, version) == ("call", 1)
    assert set(rest) == {"id", "tool", "arguments", "space", "received_at_us"}, (
        "defaults cost nothing"
    )
    assert body(golden("call.refused"))[:2] == ["call", 2], (
        "an earlier program does not carry it out"
    )
    kind, version, _ = body(golden("decision.least"))
    assert (kind, version) == ("decision", 1)
    assert body(golden("robot.memory_forgotten")) == {
        "type": "robot.memory_forgotten",
        "memory_id": 3,
        "reason": "Sensor calibration error",
    }
