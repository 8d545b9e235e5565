"""What holds for every decision: its key, its time, its ids, and that there always is one."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from mnemolog.events.codec import encode_call
from mnemolog.events.envelope import Answered, Call, Truncated, sha256
from mnemolog.events.ids import partition_of_id
from mnemolog.projections.state import store
from mnemolog.projections.state.store import KEYS_KEPT_US, OWN_KEYS_KEPT
from mnemolog.projections.state.view import Outcome
from mnemolog.services.decider.decide import Inputs
from tests.families import CATALOGUE, deciding
from tests.spec.given import (
    MODEL,
    NORTH,
    NOW_US,
    S1,
    Ask,
    Robot,
    ask,
    collection_in,
    days,
    end_session,
    forget,
    learn,
    learned,
    save_perception,
    start_session,
    started,
    update,
)

CALL = Call(
    id="c-1",
    tool="learn",
    arguments=b'{"insight": "approach slowly"}',
    space="default/robot/default",
    received_at_us=NOW_US,
)


# --- idempotency keys ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        learn("something new", key="k"),
        learn("approach slowly", key="k"),
        save_perception("a red cup", key="k"),
        update(1, "approach quickly", key="k"),
        forget(1, "wrong", key="k"),
        start_session(key="k"),
        end_session(S1, key="k"),
    ],
    ids=lambda asked: asked.tool,
)
def test_the_same_call_under_the_same_key_gets_the_same_reply_and_changes_nothing(
    robot: Robot, asked: Ask
) -> None:
    robot.given(started(S1), learned(1, "approach slowly"))
    reply = robot.when(asked).reply
    robot.when(replace(asked, at_us=days(1))).then().then_reply(reply).then_nothing_changed()


def test_without_a_key_the_calls_id_is_the_key(robot: Robot) -> None:
    reply = robot.when(learn("approach slowly", call_id="c-1")).reply
    robot.when(learn("approach slowly", call_id="c-1")).then().then_reply(reply)
    robot.when(learn("approach slowly", call_id="c-2")).then_duplicate(1, "exact", 1.0)


def test_other_arguments_under_the_same_key_are_refused(robot: Robot) -> None:
    robot.when(learn("approach slowly", key="k"))
    robot.when(learn("approach quickly", key="k")).then_refused(
        "The idempotency key 'k' was used for another call; use a new key for new arguments"
    )


def test_the_order_of_the_arguments_makes_no_other_call(robot: Robot) -> None:
    said = {"insight": "approach slowly", "context": {"task": "grip", "env": {"a": 1, "b": 2}}}
    reply = robot.when(ask("learn", key="k", **said)).reply
    other = {"context": {"env": {"b": 2, "a": 1}, "task": "grip"}, "insight": "approach slowly"}
    robot.when(ask("learn", key="k", **other)).then().then_reply(reply)


def test_an_outcome_of_the_first_version_is_known_again(robot: Robot) -> None:
    """It was kept under a fingerprint of the arguments as they were written."""
    said = {"insight": "approach slowly", "context": {"b": 2, "a": 1}}
    reply = robot.when(ask("learn", key="k", **said)).reply
    arguments = msgspec.json.encode(said)
    call = Call(id="x", tool="learn", arguments=arguments, space="s", received_at_us=1)
    assert call.fingerprint_v1 != call.fingerprint
    robot.state.view.run("UPDATE outcome SET fingerprint = ?", call.fingerprint_v1)
    robot.when(ask("learn", key="k", **said)).then().then_reply(reply)


def test_another_tool_under_the_same_key_is_refused(robot: Robot) -> None:
    robot.when(start_session(key="k"))
    robot.when(learn("grip softly", key="k")).then_refused("The idempotency key 'k' was used…")


def test_a_refused_call_can_be_corrected_under_its_key(robot: Robot) -> None:
    robot.when(learn("  ", key="k")).then_refused("insight must not be empty…")
    robot.when(learn("approach slowly", key="k")).then_created(1)


def test_a_refused_call_can_be_asked_again_under_its_key(robot: Robot) -> None:
    robot.when(forget(1, "wrong", key="k")).then_refused("Memory 1 does not exist")
    robot.given(learned(1, "approach slowly"))
    robot.when(forget(1, "wrong", key="k")).then_reply_has(status="forgotten")


def test_every_space_has_keys_of_its_own(robot: Robot) -> None:
    """A decision looks into no other space, whichever of them share a partition."""
    robot.when(learn("approach slowly", key="k")).then_created(1)
    robot.when(learn("grip softly", key="k", collection="kitchen")).then_created(2)
    robot.when(forget(2, "wrong", key="k")).then_reply_has(status="forgotten")
    robot.when(forget(2, "wrong", key="k")).then_reply_has(status="forgotten")
    robot.when(forget(1, "wrong", key="k")).then_refused("The idempotency key 'k' was used…")


def test_a_key_of_an_earlier_version_holds_for_the_whole_tenant(robot: Robot) -> None:
    """It was kept without a space, and is known again until it is forgotten."""
    robot.when(learn("approach slowly", key="k")).then_created(1)
    robot.state.view.run("UPDATE outcome SET space = ''")
    robot.when(learn("approach slowly", key="k")).then_created(1)
    robot.when(learn("grip softly", key="k", collection="kitchen")).then_refused(
        "The idempotency key 'k' was used…"
    )


def test_every_tenant_has_keys_of_its_own(robot: Robot) -> None:
    robot.when(learn("approach slowly", key="k")).then_created(1)
    robot.when(learn("grip softly", key="k", tenant="rival")).then_created(2)


def test_a_key_is_kept_for_thirty_days(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEYS_KEPT", 1)
    last = NOW_US + KEYS_KEPT_US
    robot.when(learn("approach slowly", key="old"))
    robot.when(learn("grip softly", key="second", at_us=last))
    robot.when(learn("approach slowly", key="old", at_us=last)).then_created(1)
    robot.when(learn("look twice", key="third", at_us=last + 1))
    robot.when(learn("approach slowly", key="old", at_us=last + 1)).then_duplicate(1, "exact", 1.0)


def test_a_key_is_kept_for_a_thousand_calls_however_long_they_take(robot: Robot) -> None:
    robot.when(learn("approach slowly", key="old"))
    for number in range(1, 4):
        robot.when(learn(f"mark {number}{number}", key=f"{number}", at_us=days(40 * number)))
    assert outcome(robot, "old") is not None


def outcome(robot: Robot, key: str) -> Outcome | None:
    return robot.state.view.outcome("default", "default/robot/default", key)


def test_a_call_without_a_key_is_known_again_for_a_thousand_calls(robot: Robot) -> None:
    robot.when(start_session(call_id="first"))
    robot.state.begin()
    for number in range(OWN_KEYS_KEPT - 1):
        data = encode_call(replace(CALL, id=f"n-{number}"))
        robot.log.append(robot.decider.decide(data, robot.decider.read(data), Inputs()).encoded)
    robot.state.commit()
    assert outcome(robot, "first") is not None
    robot.when(start_session(call_id="the thousandth after it"))
    assert outcome(robot, "first") is None


# --- time ----------------------------------------------------------------------------------------


def test_a_decision_has_the_time_of_its_call(robot: Robot) -> None:
    robot.when(learn("approach slowly", at_us=days(3)))
    assert robot.decision is not None
    assert robot.decision.at_us == days(3) == robot.memory(1).created_at_us


def test_time_never_runs_backwards(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly", at_us=days(5)))
    robot.when(learn("grip softly", at_us=days(3)))
    assert robot.decision is not None
    assert robot.decision.at_us == days(5) == robot.memory(2).created_at_us
    robot.when(learn("  ", at_us=days(4)))
    assert robot.decision.at_us == days(5)
    robot.when(learn("look twice", at_us=days(6)))
    assert robot.decision.at_us == days(6)


# --- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("partition", "ids"), [(0, [1, 4, 7]), (1, [2, 5, 8]), (2, [3, 6, 9])])
def test_ids_tell_their_partition(partition: int, ids: list[int]) -> None:
    robot, collection = Robot(partition=partition, partitions=3), collection_in(partition, 3)
    for word, number in zip(("alpha", "bravo", "charlie"), ids, strict=True):
        robot.when(learn(word, collection=collection)).then_created(number)
        assert partition_of_id(number, 3) == partition
    seen = save_perception("a red cup", collection=collection)
    robot.when(seen).then_reply_has(memory_id=ids[-1] + 3)


def test_a_call_that_went_into_the_wrong_partition_is_refused() -> None:
    robot = Robot(partition=1, partitions=3)
    robot.when(learn("astray", collection=collection_in(2, 3))).then_refused(
        "This call belongs into partition 2, not 1"
    ).then_nothing_changed()


def test_collections_of_a_partition_share_its_ids(robot: Robot) -> None:
    robot.when(learn("approach slowly")).then_created(1)
    robot.when(learn("approach slowly", collection="kitchen")).then_created(2)
    robot.when(learn("approach slowly", tenant="rival")).then_created(3)


# --- there always is a decision ------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no record",
        b"\x93\xa4call\x01\x80",
        b"\x93\xa4\xff\xff\xff\xff\x01\x80",
        b"\x93\xa4call\x01" + b"\x91" * 5000 + b"\xc0",
    ],
)
def test_what_cannot_be_read_is_refused_and_the_next_call_is_decided(
    robot: Robot, data: bytes
) -> None:
    robot.given(learned(1, "approach slowly")).when_bytes(data).then_refused("Unreadable call: …")
    assert robot.decision is not None
    assert robot.decision.call_hash == sha256(data)
    assert robot.decision.call_offset == 1
    robot.when(learn("grip softly")).then_created(2)


def test_a_call_of_a_newer_version_is_refused_and_says_why(robot: Robot) -> None:
    robot.when_bytes(b"\x93\xa4call\x03\x80").then_refused(
        "Unreadable call: a call of version 3 was written by a newer mnemolog; "
        "this one reads up to version 2: upgrade it"
    )


def test_an_unknown_tool(robot: Robot) -> None:
    robot.when(ask("lern", insight="x")).then_refused("Unknown tool 'lern'")
    assert robot.decision is not None
    assert robot.decision.code == -32602


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (b"", "The arguments are not valid JSON: …"),
        (b"{", "The arguments are not valid JSON: …"),
        (b"\xff\xfe", "The arguments are not valid JSON: …"),
        (b'{"a": 1', "The arguments are not valid JSON: …"),
        (b"[1]", "The arguments must be a JSON object, not a list"),
        (b'"x"', "The arguments must be a JSON object, not text"),
        (b"null", "The arguments must be a JSON object, not null"),
    ],
)
def test_arguments_that_are_no_object(robot: Robot, arguments: bytes, sentence: str) -> None:
    robot.when_bytes(encode_call(replace(CALL, arguments=arguments))).then_refused(sentence)


def nested(levels: int) -> str:
    """A JSON object of that many levels."""
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


@pytest.mark.parametrize("levels", [101, 500, *range(970, 1010), 100_000])
def test_json_that_is_nested_too_deeply_is_refused_whatever_the_stack_allows(
    robot: Robot, levels: int
) -> None:
    robot.when(learn("approach slowly", context=nested(levels))).then_refused(
        "context is nested too deeply; at most 100 levels are allowed"
    )
    arguments = b'{"insight": "approach slowly", "context": %s}' % nested(levels).encode()
    robot.when_bytes(encode_call(replace(CALL, arguments=arguments))).then_refused(
        "The arguments are nested too deeply; at most 100 levels are allowed"
    )


def test_json_that_is_nested_as_deeply_as_allowed_is_kept(robot: Robot) -> None:
    robot.when(learn("approach slowly", context=nested(100))).then_created(1)
    robot.given(started(S1), learned(2, "approach", session=S1))
    robot.when(end_session(S1)).then_reply_has(status="ended")


def test_a_call_that_was_cut_is_refused_with_the_reason(robot: Robot) -> None:
    cut = replace(CALL, truncated=Truncated("The arguments are too large", 5_000_000, bytes(32)))
    robot.when_bytes(encode_call(cut)).then_refused("The arguments are too large")


@pytest.mark.parametrize("received_at_us", [2**63, 2**64 - 1, -1, -(2**63)])
def test_a_time_that_no_clock_shows_does_not_stop_the_partition(
    robot: Robot, received_at_us: int
) -> None:
    robot.when_bytes(encode_call(replace(CALL, received_at_us=received_at_us)))
    robot.when(learn("grip softly")).then_reply_has(status="created")


def test_ids_that_nothing_can_have_do_not_stop_the_partition(robot: Robot) -> None:
    strange = Answered(ids=[2**64 - 1, -(2**63), 0], mode="hybrid")
    recall = replace(CALL, tool="recall", arguments=b'{"query": "cups"}', answered=strange)
    robot.when_bytes(encode_call(recall))
    robot.when(learn("grip softly")).then_created(1)


# --- purity --------------------------------------------------------------------------------------


def test_deciding_changes_nothing_and_gives_the_same_every_time(robot: Robot) -> None:
    robot.given(started(S1), learned(1, "hold mugs softly", vector=NORTH))
    before = robot.state.digest()
    for tool in ("learn", "end_session"):
        arguments = {
            "learn": b'{"insight": "be gentle"}',
            "end_session": b'{"session_id": "%s"}' % S1.encode(),
        }[tool]
        data = encode_call(replace(CALL, tool=tool, arguments=arguments))
        inputs = Inputs(MODEL, {"be gentle": NORTH})
        first, second = (
            deciding().decide(
                robot.state.view, robot.state.head, 2, data, robot.decider.read(data), inputs, 7
            )
            for _ in range(2)
        )
        assert first == second
        assert not first.refused
    assert robot.state.digest() == before


def test_seven_tools_and_one_of_the_services_own() -> None:
    assert {tool.name for tool in CATALOGUE.families["robot"].tools if not tool.internal} == {
        "learn",
        "recall",
        "save_perception",
        "forget",
        "update",
        "start_session",
        "end_session",
    }
    assert [tool.name for tool in CATALOGUE.families["robot"].tools if tool.internal] == [
        "mnemolog.embed_missing"
    ]
