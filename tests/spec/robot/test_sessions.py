"""start_session and end_session: opening, closing, the summary, and what is related."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from mnemolog.events.ids import partition_of_session, session_id
from mnemolog.events.robot import (
    MemoriesConsolidated,
    MemoriesDecayed,
    SessionEnded,
    SessionStarted,
)
from mnemolog.services.families.robot.rules import RobotRules
from tests.spec.given import (
    NORTH,
    S1,
    S2,
    Robot,
    at_cosine,
    collection_in,
    days,
    end_session,
    ended,
    forgotten,
    learned,
    perceived,
    start_session,
    started,
    unit,
)

NOTHING_MERGED = {
    "merged_groups": 0,
    "superseded_count": 0,
    "compression_ratio": 0.0,
    "avg_similarity": 0.0,
}


# --- start_session -------------------------------------------------------------------------------


def test_a_session_is_started(robot: Robot) -> None:
    made = session_id("call-1", 0)
    robot.given(
        learned(1, "one"),
        perceived(2, "two cups"),
        learned(3, "three"),
        forgotten(3),
        learned(4, "four", collection="kitchen"),
    ).when(start_session(context='{"robot": "UR5e"}')).then(
        SessionStarted(session_id=made, collection="default", context='{"robot": "UR5e"}')
    ).then_reply({"session_id": made, "collection": "default", "active_memories_count": 2})


def test_a_session_in_a_collection_nobody_used_yet(robot: Robot) -> None:
    robot.when(start_session(collection="kitchen")).then_reply_has(
        collection="kitchen", active_memories_count=0
    )


def test_a_sessions_id_follows_from_its_call_and_tells_its_partition() -> None:
    ids = set()
    for partition in range(4):
        robot = Robot(partition=partition, partitions=4)
        asked = start_session(call_id="c-77", collection=collection_in(partition, 4))
        made = robot.when(asked).reply["session_id"]
        again = Robot(partition=partition, partitions=4)
        assert again.when(asked).reply["session_id"] == made
        assert partition_of_session(made, 4) == partition
        assert str(uuid.UUID(made)) == made
        ids.add(made)
    assert len(ids) == 4
    assert Robot().when(start_session(call_id="other")).reply["session_id"] not in ids


def test_the_context_of_a_session_is_an_object(robot: Robot) -> None:
    robot.when(start_session(context="[]")).then_refused(
        "context must be a JSON object, not a list"
    )
    robot.when(start_session(context={"a": 1})).then_reply_has(collection="default")
    assert robot.state.view.one("SELECT context FROM session")[0] == '{"a":1}'


# --- end_session ---------------------------------------------------------------------------------


def test_an_empty_session(robot: Robot) -> None:
    robot.given(started(S1)).when(end_session(S1)).then(SessionEnded(session_id=S1)).then_reply(
        {
            "status": "ended",
            "session_id": S1,
            "summary": {"memory_count": 0, "by_type": {}, "by_category": {}},
            "decayed_count": 0,
            "consolidated": NOTHING_MERGED,
            "related_memories": [],
        }
    )


def test_the_summary_counts_what_the_session_holds(robot: Robot) -> None:
    robot.given(
        started(S1),
        learned(1, "alpha", session=S1, category="pattern"),
        learned(2, "bravo", session=S1, category="observation"),
        perceived(3, "charlie", session=S1),
        learned(4, "delta", session=S1),
        forgotten(4),
        learned(5, "echo"),
    ).when(end_session(S1)).then_reply_has(
        summary={
            "memory_count": 3,
            "by_type": {"fact": 2, "perception": 1},
            "by_category": {"pattern": 1, "observation": 2},
        }
    )


@pytest.mark.parametrize("score", [0.0, 0.75, 1.0])
def test_the_outcome_score_is_kept_and_shown(robot: Robot, score: float) -> None:
    robot.given(started(S1)).when(end_session(S1, outcome_score=score, at_us=days(1))).then(
        SessionEnded(session_id=S1, outcome_score=score)
    )
    assert robot.reply["summary"]["outcome_score"] == score
    assert robot.state.view.one("SELECT ended_at_us, outcome_score FROM session") == (
        days(1),
        score,
    )


@pytest.mark.parametrize("score", [-0.01, 1.01, "high"])
def test_an_outcome_score_lies_between_0_and_1(robot: Robot, score: Any) -> None:
    robot.given(started(S1)).when(end_session(S1, outcome_score=score)).then_refused(
        "outcome_score must be a number from 0.0 to 1.0, not …"
    )


def test_fading_comes_first_then_merging_then_the_end(robot: Robot) -> None:
    robot.given(
        started(S1),
        learned(1, "alpha bravo charlie", session=S1),
        learned(2, "alpha bravo charlie delta", session=S1),
        learned(3, "whiskey xray", session=S1),
    ).when(end_session(S1, at_us=days(2))).then(
        MemoriesDecayed(
            collection="default",
            rate=0.01,
            min_days=1.0,
            floor=0.05,
            spared=["constraint", "gotcha", "postmortem"],
        ),
        MemoriesConsolidated(session_id=S1, kept=2, superseded=[1]),
        SessionEnded(session_id=S1),
    )


def test_a_session_ends_once(robot: Robot) -> None:
    robot.given(started(S1), ended(S1)).when(end_session(S1)).then_refused(
        f"Session {S1} has already ended"
    )


@pytest.mark.parametrize("session", [S1, "no-such-session"])
def test_an_unknown_session_cannot_end(robot: Robot, session: str) -> None:
    robot.given(started(S2)).when(end_session(session)).then_refused(
        f"Session {session!r} does not exist; start_session makes one"
    )


def test_another_tenants_session_does_not_exist(robot: Robot) -> None:
    robot.given(started(S1, tenant="rival")).when(end_session(S1)).then_refused(
        f"Session {S1!r} does not exist; start_session makes one"
    )


# --- related memories ----------------------------------------------------------------------------


def related(robot: Robot) -> list[int]:
    return [one["id"] for one in robot.reply["related_memories"]]


def test_related_memories_come_from_outside_the_session(robot: Robot) -> None:
    robot.given(
        learned(1, "wet trays slip"),
        learned(2, "unrelated"),
        started(S1),
        learned(3, "the tray was wet", session=S1),
        learned(4, "wet wet wet", session=S1),
    ).when(end_session(S1)).then_reply_has(
        related_memories=[{"id": 1, "content": "wet trays slip", "_rrf_score": 1.0}]
    )


def test_at_most_five_best_first_from_1(robot: Robot) -> None:
    robot.given(
        *(learned(n, f"wet tray number{n} " + "pad " * n) for n in range(1, 9)),
        started(S1),
        learned(9, "wet tray", session=S1),
    ).when(end_session(S1))
    scores = [one["_rrf_score"] for one in robot.reply["related_memories"]]
    assert len(scores) == 5
    assert scores[0] == 1.0
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


def test_how_many_is_a_rule() -> None:
    robot = Robot(RobotRules(related=2)).given(
        *(learned(n, f"wet tray number{n}") for n in range(1, 9)),
        started(S1),
        learned(9, "wet tray", session=S1),
    )
    assert len(related(robot.when(end_session(S1)))) == 2


def test_related_by_meaning(robot: Robot) -> None:
    robot.given(
        learned(1, "spilled liquid makes plates slide", vector=at_cosine(0.8)),
        learned(2, "the moon is far", vector=unit(0, 0, 1)),
        started(S1),
        learned(3, "wet tray", session=S1, vector=NORTH),
    ).when(end_session(S1))
    assert related(robot)[0] == 1


def test_found_both_ways_is_best(robot: Robot) -> None:
    robot.given(
        learned(1, "wet tray in the morning"),
        learned(2, "slippery when wet", vector=at_cosine(0.7)),
        learned(3, "spilled liquid", vector=at_cosine(0.9)),
        started(S1),
        learned(4, "wet tray", session=S1, vector=NORTH),
    ).when(end_session(S1))
    assert related(robot)[0] == 2


def test_the_real_world_weighs_more(robot: Robot) -> None:
    robot.given(
        learned(1, "wet tray slips", context='{"env": {"sim_or_real": "real"}}'),
        learned(2, "wet tray slips more", context='{"env": {"sim_or_real": "sim"}}'),
        learned(3, "wet tray"),
        started(S1),
        learned(4, "wet tray", session=S1),
    ).when(end_session(S1))
    assert related(robot)[0] == 1


def test_only_active_memories_of_the_collection_are_related(robot: Robot) -> None:
    robot.given(
        learned(1, "wet tray", collection="kitchen", vector=NORTH),
        learned(2, "wet tray", tenant="rival", vector=NORTH),
        learned(3, "wet tray", vector=NORTH),
        forgotten(3),
        started(S1),
        learned(4, "wet tray", session=S1, vector=NORTH),
    ).when(end_session(S1)).then_reply_has(related_memories=[])


def test_a_session_that_learned_nothing_is_related_to_nothing(robot: Robot) -> None:
    robot.given(learned(1, "wet tray"), started(S1)).when(end_session(S1)).then_reply_has(
        related_memories=[]
    )
