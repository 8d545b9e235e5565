"""Same log, same state: however often, in whatever batches, and after whatever failed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mnemolog.events.codec import (
    decode_decision,
    encode_call,
    encode_decision,
    tag_of,
)
from mnemolog.events.envelope import Call, sha256
from mnemolog.projections.state.store import Gap, PartitionState
from mnemolog.services.decider.decide import Inputs
from tests.families import FACTS, PROJECTED
from tests.spec.given import (
    MODEL,
    NORTH,
    NOW_US,
    Ask,
    Robot,
    ask,
    at_cosine,
    days,
    end_session,
    forget,
    learn,
    recall,
    save_perception,
    start_session,
    unit,
    update,
)

# Few of everything, so that duplicates, refusals, merges and repeats really come about.
WORDS = st.sampled_from(["wet", "tray", "slips", "never", "because", "15N", "12N", "抓取", "杯子"])
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
IDS = st.integers(1, 8)
VECTORS = st.sampled_from(
    [None, NORTH, at_cosine(0.9), at_cosine(0.88, 2), unit(0, 1), unit(0.5, 0.5, 0.5, 0.5)]
)
COLLECTIONS = st.sampled_from(["default", "kitchen"])
SESSIONS = st.one_of(st.none(), st.integers(0, 2))
"""The nth session that was started; None is no session."""
ENVELOPE: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"at_us": st.integers(0, 40).map(days)}),
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(["k1", "k2"]),
            "tenant": st.sampled_from(["default", "rival"]),
            "at_us": st.integers(0, 40).map(days),
        },
    ),
)
Plan = list[tuple[tuple[Any, ...], dict[str, Any]]]
BEGINNING: Plan = [
    (("start_session", "default"), {}),
    (("learn", "wet tray slips", NORTH, "default", 0), {}),
    (("learn", "wet tray slips 抓取 杯子", None, "default", 0), {}),
    (("learn", "15N", unit(0, 1), "default", 0), {}),
    (("learn", "抓取", None, "kitchen", None), {}),
    (("save_perception", "tray because wet", None, "default", None), {}),
    (("recall", [1, 2], "default"), {}),
]
"""So that there is something to change, to merge, to embed and to recall."""
WITHOUT_VECTOR = st.sampled_from(
    [(2, "wet tray slips 抓取 杯子", "default"), (4, "抓取", "kitchen")]
)
PLANS = st.lists(
    st.tuples(
        st.one_of(
            st.tuples(st.just("learn"), TEXTS, VECTORS, COLLECTIONS, SESSIONS),
            st.tuples(st.just("learn"), TEXTS, VECTORS, COLLECTIONS, SESSIONS),
            st.tuples(st.just("save_perception"), TEXTS, VECTORS, COLLECTIONS, SESSIONS),
            st.tuples(st.just("update"), IDS, TEXTS, VECTORS),
            st.tuples(st.just("forget"), IDS),
            st.tuples(st.just("recall"), st.lists(IDS, max_size=4), COLLECTIONS),
            st.tuples(st.just("start_session"), COLLECTIONS),
            st.tuples(st.just("end_session"), st.integers(0, 2)),
            st.tuples(st.just("embed"), IDS, TEXTS, COLLECTIONS),
            WITHOUT_VECTOR.map(lambda one: ("embed", *one)),
            st.tuples(st.just("nonsense")),
        ),
        ENVELOPE,
    ),
    min_size=3,
    max_size=20,
).map(lambda rest: [*BEGINNING, *rest])


def asked(step: tuple[Any, ...], envelope: dict[str, Any], sessions: list[str]) -> Ask:
    """The call that a step of a plan stands for."""

    def session(nth: int | None) -> dict[str, Any]:
        return {} if nth is None else {"session_id": nth_session(nth)}

    def nth_session(nth: int) -> str:
        return sessions[nth] if nth < len(sessions) else "unknown"

    match step:
        case ("learn", text, vector, collection, nth):
            return learn(text, vector=vector, collection=collection, **session(nth), **envelope)
        case ("save_perception", text, vector, collection, nth):
            return save_perception(
                text, vector=vector, collection=collection, **session(nth), **envelope
            )
        case ("update", number, text, vector):
            return update(number, text, vector=vector, **envelope)
        case ("forget", number):
            return forget(number, "wrong", **envelope)
        case ("recall", numbers, collection):
            return recall("tray", returned=numbers, collection=collection, **envelope)
        case ("start_session", collection):
            return start_session(collection=collection, **envelope)
        case ("end_session", nth):
            return end_session(nth_session(nth), **envelope)
        case ("embed", number, text, collection):
            return ask(
                "mnemolog.embed_missing",
                space=f"default/robot/{collection}",
                memories=[{"memory_id": number, "content": text}],
                vectors={text: NORTH},
                **envelope,
            )
    return ask("nonsense", **envelope)


def carry_out(robot: Robot, plan: Plan) -> Robot:
    sessions: list[str] = []
    for step, envelope in plan:
        robot.when(asked(step, envelope, sessions))
        if step[0] == "start_session" and "session_id" in robot.reply:
            sessions.append(robot.reply["session_id"])
    return robot


def decided(robot: Robot, data: bytes, inputs: Inputs) -> bytes:
    return robot.decider.decide(data, robot.decider.read(data), inputs).encoded


def everything(state: PartitionState) -> tuple[Any, ...]:
    return state.digest(), state.head, state.next_offset


def test_the_plans_bring_every_kind_of_fact_about() -> None:
    """Beside those of the beginning: what never happens would be tested by none of them."""
    seen: set[str] = set()

    @settings(max_examples=100, derandomize=True, database=None)
    @given(PLANS)
    def look(plan: Plan) -> None:
        for data in carry_out(Robot(), plan).log[len(BEGINNING) :]:
            seen.update(tag_of(type(one)) for one in FACTS.decode(decode_decision(data).facts))

    look()
    assert seen == {tag for tag in FACTS.tags if tag.startswith("robot.")}


@given(PLANS)
def test_a_rebuild_from_the_decisions_equals_what_is_live(plan: Plan) -> None:
    robot = carry_out(Robot(), plan)
    assert everything(robot.rebuilt()) == everything(robot.state)


@settings(max_examples=30)
@given(PLANS, st.integers(1, 9))
def test_the_size_of_the_batches_makes_no_difference(plan: Plan, size: int) -> None:
    robot = carry_out(Robot(partition=1, partitions=3), plan)
    other = PartitionState(None, 1, 3, PROJECTED)
    for start in range(0, len(robot.log), size):
        other.begin()
        for offset in range(start, min(start + size, len(robot.log))):
            assert other.apply(offset, robot.log[offset]) is not None
        other.commit()
    assert everything(other) == everything(robot.state)


@settings(max_examples=30)
@given(PLANS)
def test_delivering_a_decision_twice_changes_nothing(plan: Plan) -> None:
    robot = carry_out(Robot(), plan)
    before = everything(robot.state)
    robot.state.begin()
    for offset, data in enumerate(robot.log):
        assert robot.state.apply(offset, data) is None
        assert (robot.state.head, robot.state.next_offset) == before[1:]
    robot.state.commit()
    assert everything(robot.state) == before


@settings(max_examples=30)
@given(PLANS, st.integers(1, 1000))
def test_a_gap_is_noticed_not_skipped(plan: Plan, ahead: int) -> None:
    robot = carry_out(Robot(), [*plan, (("start_session", "default"), {})])
    before = everything(robot.state)
    end = len(robot.log)
    robot.state.begin()
    with pytest.raises(Gap, match=f"partition 0: expected decision {end}, got {end + ahead}"):
        robot.state.apply(end + ahead, robot.log[-1])
    robot.state.rollback()
    assert everything(robot.state) == before


@settings(max_examples=30)
@given(PLANS, st.binary(min_size=32, max_size=32), st.sampled_from([-1, 1, 5]))
def test_a_void_decision_changes_nothing_but_the_offset(
    plan: Plan, other_hash: bytes, off: int
) -> None:
    robot = carry_out(Robot(), plan)
    ahead = carry_out(Robot(), [*plan, (("learn", "a new thing", NORTH, "default", None), {})])
    counting = decode_decision(ahead.log[-1])
    assume(other_hash != counting.previous)
    voids = [
        replace(counting, previous=other_hash),
        replace(counting, call_offset=counting.call_offset + off),
    ]
    digest, head, end = everything(robot.state)
    for i, void in enumerate(voids):
        robot.state.begin()
        assert robot.state.apply(end + i, encode_decision(void)) is None
        robot.state.commit()
        assert everything(robot.state) == (digest, head, end + i + 1)
    robot.state.begin()
    assert robot.state.apply(end + 2, ahead.log[-1]) is not None
    robot.state.commit()
    assert robot.state.digest() == ahead.state.digest()
    assert robot.state.head == ahead.state.head


@settings(max_examples=60)
@given(PLANS, PLANS)
def test_a_batch_that_is_rolled_back_leaves_no_trace(plan: Plan, batch: Plan) -> None:
    """Vectors that are held in memory included: deciding again gives the same bytes."""
    robot = carry_out(Robot(), plan)
    before = everything(robot.state)
    calls = [_call(number, asked(*step, [])) for number, step in enumerate(batch)]

    def decide_all() -> list[bytes]:
        robot.decider.state.begin()
        return [decided(robot, data, inputs) for data, inputs in calls]

    first = decide_all()
    robot.decider.state.rollback()
    assert everything(robot.state) == before
    second = decide_all()
    robot.decider.state.commit()
    assert second == first

    fresh = Robot()
    fresh.log = [*robot.log, *second]
    assert everything(fresh.rebuilt()) == everything(robot.state)


@settings(max_examples=30)
@given(PLANS, PLANS)
def test_a_decider_that_starts_again_decides_the_same(plan: Plan, batch: Plan) -> None:
    """What a state holds in memory only makes it faster."""
    robot = carry_out(Robot(), plan)
    restarted = Robot()
    restarted.state.begin()
    for offset, data in enumerate(robot.log):
        restarted.state.apply(offset, data)
    restarted.state.commit()
    for number, step in enumerate(batch):
        data, inputs = _call(number, asked(*step, []))
        made = []
        for one in (robot, restarted):
            one.decider.state.begin()
            made.append(decided(one, data, inputs))
            one.decider.state.commit()
        assert made[0] == made[1]


def test_a_state_on_disk_goes_on_where_it_was(tmp_path: Any) -> None:
    robot = Robot()
    for text in ("wet tray", "dry tray"):
        robot.when(learn(text, vector=NORTH if text == "wet tray" else unit(0, 1)))
    path = tmp_path / "state.db"
    kept = PartitionState(path, 0, 1, PROJECTED)
    kept.begin()
    kept.apply(0, robot.log[0])
    kept.commit()
    kept.begin()
    kept.apply(1, robot.log[1])
    kept.close()  # Without a commit: as if the process had been killed here.
    kept = PartitionState(path, 0, 1, PROJECTED)
    assert kept.next_offset == 1
    kept.begin()
    kept.apply(1, robot.log[1])
    kept.commit()
    assert everything(kept) == everything(robot.state)
    kept.close()


def test_the_hash_of_the_state_notices_any_change() -> None:
    robot = Robot().when(learn("wet tray", vector=NORTH))
    before = robot.state.digest()
    for sql, table in [
        ("UPDATE memory SET confidence = 0.81", "memory"),
        ("UPDATE vector SET model = 'other'", "vector"),
        ("UPDATE counter SET n = 2", "counter"),
        ("DELETE FROM posting WHERE token = 'wet'", "posting"),
        ("DELETE FROM outcome", "outcome"),
    ]:
        robot.state.begin()
        robot.state.view.run(sql)
        after = robot.state.digest()
        assert [name for name in before if before[name] != after[name]] == [table]
        robot.state.rollback()
    assert robot.state.digest() == before


def _call(number: int, one: Ask) -> tuple[bytes, Inputs]:
    call = Call(
        id=f"again-{number}-{sha256(one.arguments).hex()[:8]}",
        tool=one.tool,
        arguments=one.arguments,
        space=f"{one.tenant}/robot",
        received_at_us=max(one.at_us, NOW_US),
        tenant=one.tenant,
        idempotency_key=one.key,
        answered=one.answered,
    )
    return encode_call(call), Inputs(MODEL, one.vectors)
