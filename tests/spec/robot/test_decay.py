"""end_session lets the memories of its collection fade.

confidence × (1 - rate) ^ days, where more than one day has gone by since the memory was last
recalled (else made, else faded) and its confidence is over 0.05.
"""

from __future__ import annotations

import pytest

from mnemolog.events.robot import MemoriesDecayed, SessionEnded
from mnemolog.services.families.robot.rules import RobotRules
from tests.spec.given import (
    DAY_US,
    NOW_US,
    S1,
    S2,
    Robot,
    days,
    end_session,
    forgotten,
    learned,
    perceived,
    recalled,
    start_session,
    started,
    superseded,
    update,
)

SPARED = ["constraint", "gotcha", "postmortem"]
DECAY = MemoriesDecayed(collection="default", rate=0.01, min_days=1.0, floor=0.05, spared=SPARED)


def test_the_formula(robot: Robot) -> None:
    robot.given(started(S1), learned(1, "alpha"), learned(2, "bravo", confidence=0.5)).when(
        end_session(S1, at_us=days(10))
    ).then(DECAY, SessionEnded(session_id=S1)).then_reply_has(decayed_count=2)
    assert robot.memory(1).confidence == round(0.8 * 0.99**10, 6)
    assert robot.memory(2).confidence == round(0.5 * 0.99**10, 6)


def test_days_are_counted_in_fractions(robot: Robot) -> None:
    robot.given(started(S1), learned(1, "alpha")).when(end_session(S1, at_us=days(2.25)))
    assert robot.memory(1).confidence == round(0.8 * 0.99**2.25, 6)


def test_one_day_exactly_is_not_more_than_one(robot: Robot) -> None:
    robot.given(started(S1), learned(1, "alpha")).when(end_session(S1, at_us=NOW_US + DAY_US)).then(
        SessionEnded(session_id=S1)
    ).then_reply_has(decayed_count=0)
    assert robot.memory(1).confidence == 0.8


def test_a_moment_more_than_a_day_is(robot: Robot) -> None:
    robot.given(started(S1), learned(1, "alpha")).when(
        end_session(S1, at_us=NOW_US + DAY_US + 1)
    ).then_reply_has(decayed_count=1)
    assert robot.memory(1).confidence == round(0.8 * 0.99, 6)


def test_what_has_faded_to_the_floor_fades_no_further(robot: Robot) -> None:
    robot.given(
        started(S1),
        learned(1, "alpha", confidence=0.05),
        learned(2, "bravo", confidence=0.051),
        learned(3, "charlie", confidence=0.01),
    ).when(end_session(S1, at_us=days(10))).then_reply_has(decayed_count=1)
    assert [robot.memory(n).confidence for n in (1, 2, 3)] == [
        0.05,
        0.05,
        0.01,
    ]


@pytest.mark.parametrize("category", ["constraint", "postmortem", "gotcha"])
def test_protected_categories_do_not_fade(robot: Robot, category: str) -> None:
    robot.given(started(S1), learned(1, "alpha", category=category)).when(
        end_session(S1, at_us=days(100))
    ).then_reply_has(decayed_count=0)
    assert robot.memory(1).confidence == 0.8


@pytest.mark.parametrize(
    "category",
    [
        "preference",
        "worldview",
        "tradeoff",
        "root_cause",
        "decision",
        "pattern",
        "observation",
        "code",
    ],
)
def test_all_others_do(robot: Robot, category: str) -> None:
    robot.given(started(S1), learned(1, "alpha", category=category)).when(
        end_session(S1, at_us=days(3))
    ).then_reply_has(decayed_count=1)


def test_perceptions_fade_too(robot: Robot) -> None:
    robot.given(started(S1), perceived(1, "a red cup")).when(
        end_session(S1, at_us=days(10))
    ).then_reply_has(decayed_count=1)
    assert robot.memory(1).confidence == round(0.9 * 0.99**10, 6)


def test_the_last_recall_counts_when_there_was_one(robot: Robot) -> None:
    robot.given(
        started(S1),
        learned(1, "alpha"),
        learned(2, "bravo"),
        recalled(1, at_us=days(4)),
        recalled(2, at_us=days(9.5)),
    ).when(end_session(S1, at_us=days(10))).then_reply_has(decayed_count=1)
    assert robot.memory(1).confidence == round(0.8 * 0.99**6, 6)
    assert robot.memory(2).confidence == 0.8


def test_no_day_is_counted_twice(robot: Robot) -> None:
    robot.given(started(S1), started(S2), learned(1, "alpha"))
    robot.when(end_session(S1, at_us=days(10))).then_reply_has(decayed_count=1)
    robot.when(end_session(S2, at_us=days(10))).then_reply_has(decayed_count=0)
    assert robot.memory(1).confidence == round(0.8 * 0.99**10, 6)


def test_fading_goes_on_from_the_last_time(robot: Robot) -> None:
    robot.given(started(S1), started(S2), learned(1, "alpha"))
    robot.when(end_session(S1, at_us=days(10)))
    robot.when(end_session(S2, at_us=days(15))).then_reply_has(decayed_count=1)
    assert robot.memory(1).confidence == round(round(0.8 * 0.99**10, 6) * 0.99**5, 6)


def test_a_recall_after_fading_counts_from_the_recall(robot: Robot) -> None:
    robot.given(started(S1), started(S2), learned(1, "alpha"))
    robot.when(end_session(S1, at_us=days(10)))
    robot.given(recalled(1, at_us=days(14)))
    robot.when(end_session(S2, at_us=days(16)))
    assert robot.memory(1).confidence == round(round(0.8 * 0.99**10, 6) * 0.99**2, 6)


def test_only_the_sessions_collection_fades(robot: Robot) -> None:
    robot.given(
        started(S1),
        learned(1, "alpha"),
        learned(2, "bravo", collection="kitchen"),
        learned(3, "charlie", tenant="rival"),
    ).when(end_session(S1, at_us=days(10))).then_reply_has(decayed_count=1)
    assert [robot.memory(n).confidence for n in (2, 3)] == [0.8, 0.8]


def test_a_session_need_not_hold_what_fades(robot: Robot) -> None:
    robot.given(learned(1, "alpha"))
    session = robot.when(start_session(at_us=days(5))).reply["session_id"]
    robot.when(end_session(session, at_us=days(5))).then_reply_has(decayed_count=1)


def test_forgotten_and_superseded_memories_stay_as_they_were(robot: Robot) -> None:
    robot.given(
        started(S1),
        learned(1, "alpha"),
        forgotten(1),
        learned(2, "bravo"),
        learned(3, "charlie", category="gotcha"),
        superseded(2, by=3),
    ).when(end_session(S1, at_us=days(10))).then_reply_has(decayed_count=0)
    assert [robot.memory(n).confidence for n in (1, 2)] == [0.8, 0.8]


def test_rate_and_limits_are_rules_and_the_fact_carries_them() -> None:
    robot = Robot(RobotRules(decay_rate=0.1, decay_after_days=5.0, decay_floor=0.2)).given(
        started(S1),
        learned(1, "alpha"),
        learned(2, "bravo", confidence=0.2),
        learned(3, "charlie"),
        recalled(3, at_us=days(5)),
    )
    robot.when(end_session(S1, at_us=days(10))).then(
        MemoriesDecayed(collection="default", rate=0.1, min_days=5.0, floor=0.2, spared=SPARED),
        SessionEnded(session_id=S1),
    ).then_reply_has(decayed_count=1)
    assert [robot.memory(n).confidence for n in (1, 2, 3)] == [round(0.8 * 0.9**10, 6), 0.2, 0.8]


def test_what_is_protected_later_does_not_change_what_has_faded() -> None:
    """The fact carries whom the rules of its time spared; a replay goes by that."""
    robot = Robot(RobotRules(protected=("code",))).given(
        started(S1), learned(1, "alpha"), learned(2, "bravo", category="constraint")
    )
    robot.when(end_session(S1, at_us=days(10))).then(
        MemoriesDecayed(collection="default", rate=0.01, min_days=1.0, floor=0.05, spared=["code"]),
        SessionEnded(session_id=S1),
    ).then_reply_has(decayed_count=1)
    faded = round(0.8 * 0.99**10, 6)
    assert [robot.memory(n).confidence for n in (1, 2)] == [0.8, faded]
    later = Robot(RobotRules(protected=("constraint",)))
    for data in robot.log:
        later._take(data)
    assert [later.memory(n).confidence for n in (1, 2)] == [0.8, faded]
    later.given(started(S2)).when(end_session(S2, at_us=days(20), call_id="later"))
    later.then_reply_has(decayed_count=1)
    assert [later.memory(n).confidence for n in (1, 2)] == [round(0.8 * 0.99**20, 6), faded]


def test_a_corrected_memory_fades_from_its_correction_on(robot: Robot) -> None:
    robot.given(started(S1), learned(1, "alpha"))
    robot.when(update(1, "bravo", at_us=days(100)))
    robot.when(end_session(S1, at_us=days(110)))
    assert robot.memory(1).confidence == round(0.8 * 0.99**10, 6)
