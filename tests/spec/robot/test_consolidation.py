"""end_session merges what the session said more than once."""

from __future__ import annotations

from typing import Any

import pytest

from mnemolog.events.robot import MemoriesConsolidated
from mnemolog.projections.language import jaccard, token_set
from tests.spec.given import (
    S1,
    S2,
    Given,
    Robot,
    end_session,
    forgotten,
    learned,
    perceived,
    recalled,
    start_session,
    started,
)

FOUR = "alpha bravo charlie delta"
FIVE = "alpha bravo charlie delta echo"
OTHER = "whiskey xray yankee zulu"


def inside(number: int, content: str, **more: Any) -> Given:
    """A memory of session S1."""
    return learned(number, content, session=S1, **more)


def merges(robot: Robot) -> list[MemoriesConsolidated]:
    assert robot.decision is not None
    return [one for one in robot.decode(robot.decision) if isinstance(one, MemoriesConsolidated)]


def test_similar_memories_are_merged_into_one(robot: Robot) -> None:
    robot.given(started(S1), inside(1, FOUR, confidence=0.9), inside(2, FIVE), inside(3, OTHER))
    robot.when(end_session(S1)).then_reply_has(
        consolidated={
            "merged_groups": 1,
            "superseded_count": 1,
            "compression_ratio": 0.3333,
            "avg_similarity": 0.8,
        }
    )
    assert merges(robot) == [MemoriesConsolidated(session_id=S1, kept=1, superseded=[2])]


def test_a_superseded_memory_points_to_the_one_that_is_kept(robot: Robot) -> None:
    robot.given(started(S1), inside(1, FOUR, confidence=0.9), inside(2, FIVE), inside(3, OTHER))
    robot.when(end_session(S1))
    assert (robot.memory(2).status, robot.memory(2).superseded_by) == ("superseded", 1)
    assert robot.memory(2).content == FIVE, "nothing is lost"
    assert robot.memory(1).status == "active"
    robot.when(start_session()).then_reply_has(active_memories_count=2)


def test_the_ratio_is_of_what_could_be_merged(robot: Robot) -> None:
    robot.given(
        started(S1),
        inside(1, FOUR),
        inside(2, FIVE),
        inside(3, OTHER),
        inside(4, "hotel india"),
        perceived(5, "a red cup", session=S1),
        inside(6, "kilo lima", category="gotcha"),
    )
    robot.when(end_session(S1))
    assert robot.reply["summary"]["memory_count"] == 6
    assert robot.reply["consolidated"]["compression_ratio"] == 0.25


def test_several_groups(robot: Robot) -> None:
    robot.given(
        started(S1),
        inside(1, FOUR, confidence=0.9),
        inside(2, FIVE),
        inside(3, f"{FIVE} foxtrot"),
        inside(4, OTHER, confidence=0.9),
        inside(5, f"{OTHER} victor"),
        inside(6, "hotel india"),
    )
    robot.when(end_session(S1)).then_reply_has(
        consolidated={
            "merged_groups": 2,
            "superseded_count": 3,
            "compression_ratio": 0.5,
            "avg_similarity": round((0.8 + 4 / 6 + 0.8) / 3, 4),
        }
    )
    assert merges(robot) == [
        MemoriesConsolidated(session_id=S1, kept=4, superseded=[5]),
        MemoriesConsolidated(session_id=S1, kept=1, superseded=[2, 3]),
    ]


# --- when it begins ------------------------------------------------------------------------------


def test_two_memories_are_left_alone(robot: Robot) -> None:
    robot.given(started(S1), inside(1, FOUR), inside(2, FIVE)).when(end_session(S1))
    assert merges(robot) == []
    assert robot.reply["consolidated"]["compression_ratio"] == 0.0


@pytest.mark.parametrize(
    "third",
    [
        inside(3, OTHER, category="constraint"),
        inside(3, OTHER, category="postmortem"),
        inside(3, OTHER, category="gotcha"),
        inside(3, OTHER, confidence=0.95),
        perceived(3, OTHER, session=S1),
        learned(3, OTHER),
    ],
)
def test_only_what_could_be_merged_counts_towards_three(robot: Robot, third: Given) -> None:
    robot.given(started(S1), inside(1, FOUR), inside(2, FIVE), third).when(end_session(S1))
    assert merges(robot) == []


def test_a_forgotten_memory_does_not_count(robot: Robot) -> None:
    robot.given(started(S1), inside(1, FOUR), inside(2, FIVE), inside(3, OTHER), forgotten(3)).when(
        end_session(S1)
    )
    assert merges(robot) == []


# --- what is never merged ------------------------------------------------------------------------

LEFT_ALONE = [
    {"category": "constraint"},
    {"category": "postmortem"},
    {"category": "gotcha"},
    {"confidence": 0.95},
    {"confidence": 0.99},
]


@pytest.mark.parametrize("protected", LEFT_ALONE)
def test_protected_and_trusted_memories(robot: Robot, protected: dict[str, Any]) -> None:
    robot.given(
        started(S1),
        inside(1, FOUR, **protected),
        inside(2, FOUR, **protected),
        inside(3, FOUR, confidence=0.7),
        inside(4, OTHER),
        inside(5, "hotel india"),
    ).when(end_session(S1))
    assert merges(robot) == []


def test_just_under_the_limit_is_merged(robot: Robot) -> None:
    robot.given(started(S1), inside(1, FOUR, confidence=0.9499), inside(2, FIVE), inside(3, OTHER))
    robot.when(end_session(S1))
    assert merges(robot) == [MemoriesConsolidated(session_id=S1, kept=1, superseded=[2])]


def test_perceptions(robot: Robot) -> None:
    robot.given(
        started(S1),
        perceived(1, FOUR, session=S1, category="code", confidence=0.7),
        perceived(2, FOUR, session=S1, category="code", confidence=0.7),
        inside(3, FOUR),
        inside(4, OTHER),
        inside(5, "hotel india"),
    ).when(end_session(S1))
    assert merges(robot) == []


def test_different_categories(robot: Robot) -> None:
    robot.given(
        started(S1),
        inside(1, FOUR, category="pattern"),
        inside(2, FOUR, category="observation"),
        inside(3, OTHER),
    ).when(end_session(S1))
    assert merges(robot) == []


def test_memories_of_other_sessions(robot: Robot) -> None:
    robot.given(
        started(S1),
        started(S2),
        learned(1, FOUR),
        learned(2, FOUR, session=S2),
        inside(3, FIVE),
        inside(4, OTHER),
        inside(5, "hotel india"),
    ).when(end_session(S1))
    assert merges(robot) == []


# --- how similar ---------------------------------------------------------------------------------


def test_half_the_words_exactly_is_not_enough(robot: Robot) -> None:
    eight = f"{FOUR} golf hotel india juliett"
    assert jaccard(token_set(FOUR), token_set(eight)) == 0.5
    robot.given(started(S1), inside(1, FOUR), inside(2, eight), inside(3, OTHER))
    assert merges(robot.when(end_session(S1))) == []


def test_more_than_half_is(robot: Robot) -> None:
    seven = f"{FOUR} golf hotel india"
    robot.given(started(S1), inside(1, FOUR), inside(2, seven), inside(3, OTHER))
    robot.when(end_session(S1))
    assert len(merges(robot)) == 1
    assert robot.reply["consolidated"]["avg_similarity"] == 0.5714


def test_numbers_do_not_keep_memories_apart_here(robot: Robot) -> None:
    robot.given(
        started(S1),
        inside(1, "grip the steel cup with 12.5N"),
        inside(2, "grip the steel cup with 15N"),
        inside(3, OTHER),
    ).when(end_session(S1))
    assert len(merges(robot)) == 1


def test_a_chain_of_small_steps_merges_only_what_is_like_the_kept_one(robot: Robot) -> None:
    robot.given(
        started(S1),
        inside(1, FOUR, confidence=0.9),
        inside(2, "bravo charlie delta echo", confidence=0.8),
        inside(3, "charlie delta echo foxtrot", confidence=0.7),
    ).when(end_session(S1))
    assert merges(robot) == [MemoriesConsolidated(session_id=S1, kept=1, superseded=[2])]


# --- which one is kept ---------------------------------------------------------------------------


def test_the_most_trusted_is_kept(robot: Robot) -> None:
    robot.given(
        started(S1),
        inside(1, FOUR, confidence=0.8),
        inside(2, FIVE, confidence=0.85),
        inside(3, OTHER),
        recalled(1, 1, 1),
    ).when(end_session(S1))
    assert merges(robot)[0].kept == 2


def test_then_the_most_recalled(robot: Robot) -> None:
    robot.given(started(S1), inside(1, FOUR), inside(2, FIVE), inside(3, OTHER), recalled(1)).when(
        end_session(S1)
    )
    assert merges(robot)[0].kept == 1


def test_then_the_newest(robot: Robot) -> None:
    robot.given(started(S1), inside(1, FOUR), inside(2, FIVE), inside(3, OTHER)).when(
        end_session(S1)
    )
    assert merges(robot)[0].kept == 2
