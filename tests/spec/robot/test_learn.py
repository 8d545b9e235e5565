"""learn: what becomes a memory, what is said of it, and what is refused."""

from __future__ import annotations

import pytest

from mnemolog.events.robot import MemoryLearned
from tests.spec.given import (
    NORTH,
    NOW_US,
    S1,
    Robot,
    ask,
    ended,
    learn,
    started,
)


def test_a_first_memory(robot: Robot) -> None:
    robot.when(learn("Found that red cups require more force")).then(
        MemoryLearned(
            memory_id=1,
            collection="default",
            content="Found that red cups require more force",
            category="observation",
            tags=["observation"],
            confidence=0.8,
        )
    ).then_reply(
        {
            "status": "created",
            "memory_id": 1,
            "auto_inferred": {
                "category": "observation",
                "confidence": 0.8,
                "tags": ["observation"],
                "scope_files": [],
            },
        }
    )


def test_everything_that_is_inferred(robot: Robot) -> None:
    context = '{"log": "runs/7/grip.csv", "robot": {"type": "UR5e"}}'
    insight = "The gripper slipped because grip_control.py never calls `retry()`"
    robot.when(learn(insight, context=context, vector=NORTH)).then(
        MemoryLearned(
            memory_id=1,
            collection="default",
            content=insight,
            context=context,
            category="constraint",
            tags=["constraint", "root_cause"],
            confidence=0.95,
            scope_files=["grip_control.py", "runs/7/grip.csv"],
            embedding=0,
        )
    ).then_reply_has(
        auto_inferred={
            "category": "constraint",
            "confidence": 0.95,
            "tags": ["constraint", "root_cause"],
            "scope_files": ["grip_control.py", "runs/7/grip.csv"],
        }
    )


def test_what_is_kept_of_it(robot: Robot) -> None:
    context = '{"task": {"success": true}}'
    memory = robot.when(learn("Approach from the left", context=context)).memory(1)
    assert (memory.content, memory.context, memory.kind) == (
        "Approach from the left",
        context,
        "fact",
    )
    assert (memory.status, memory.version, memory.access_count) == ("active", 1, 0)
    assert (memory.created_at_us, memory.accessed_at_us) == (NOW_US, None)


def test_ids_count_from_1_and_are_not_used_up_by_refusals_and_duplicates(robot: Robot) -> None:
    robot.when(learn("Approach from the left")).then_created(1)
    robot.when(learn("Approach from the left")).then_duplicate(1, "exact", 1.0)
    robot.when(learn("   ")).then_refused("insight must not be empty…")
    robot.when(learn("Calibrate the wrist camera")).then_created(2)


def test_the_context_may_be_an_object(robot: Robot) -> None:
    robot.when(learn("Approach from the left", context={"task": {"success": True}}))
    assert robot.memory(1).context == '{"task":{"success":true}}'


def test_space_around_the_insight_is_dropped(robot: Robot) -> None:
    robot.when(learn("  Approach from the left \n"))
    assert robot.memory(1).content == "Approach from the left"
    assert "trimmed" not in robot.reply


def test_300_characters_are_kept_whole(robot: Robot) -> None:
    robot.when(learn("x" * 300))
    assert robot.memory(1).content == "x" * 300
    assert "trimmed" not in robot.reply


def test_longer_insights_are_trimmed_and_the_reply_says_so(robot: Robot) -> None:
    robot.when(learn("x" * 301)).then_reply_has(status="created", trimmed=True)
    assert robot.memory(1).content == "x" * 300


def test_a_trimmed_insight_has_the_vector_of_what_was_kept(robot: Robot) -> None:
    robot.when(ask("learn", insight="y" * 400, vectors={"y" * 300: NORTH}))
    assert robot.decision is not None
    assert robot.decision.inputs[0].vector == NORTH
    assert robot.state.view.one("SELECT memory, vector FROM vector") == (1, NORTH)


@pytest.mark.parametrize("empty", ["   ", "\n\t", "　"])
def test_an_empty_insight_is_refused(robot: Robot, empty: str) -> None:
    robot.when(learn(empty)).then_refused(
        "insight must not be empty: say in 1 to 300 characters what was learned"
    )


def test_no_insight_at_all_is_refused(robot: Robot) -> None:
    robot.when(learn("")).then_refused("insight must be text of at least 1 characters, not ''")
    robot.when(ask("learn")).then_refused("insight is required: text of at least 1 characters")
    robot.when(ask("learn", insight=7)).then_refused("insight must be text…")


def test_a_context_that_is_no_json_is_refused(robot: Robot) -> None:
    robot.when(learn("Approach from the left", context="{task: 1}")).then_refused(
        "context must be a JSON object as text, for example…"
    )


@pytest.mark.parametrize("context", ["[1, 2]", '"text"', "7", "null", "true"])
def test_a_context_that_is_no_object_is_refused(robot: Robot, context: str) -> None:
    robot.when(learn("Approach from the left", context=context)).then_refused(
        "context must be a JSON object, not …"
    )


def test_an_unknown_argument_is_refused_with_those_that_exist(robot: Robot) -> None:
    robot.when(learn("Approach from the left", colection="lab")).then_refused(
        "Unknown argument 'colection'; there are insight, context, collection, session_id"
    )


@pytest.mark.parametrize("collection", ["", "  ", "a\nb", "x" * 129])
def test_a_collection_has_a_readable_name(robot: Robot, collection: str) -> None:
    robot.when(learn("Approach from the left", collection=collection)).then_refused(
        "collection must be text of 1 to 128 characters that is not blank and has no control …"
    )


# --- sessions ------------------------------------------------------------------------------------


def test_a_memory_is_linked_to_its_session(robot: Robot) -> None:
    robot.given(started(S1)).when(learn("Approach from the left", session_id=S1)).then_created(1)
    assert robot.memory(1).session == S1


def test_an_empty_session_is_none(robot: Robot) -> None:
    robot.when(learn("Approach from the left", session_id="")).then_created(1)
    assert robot.memory(1).session is None


@pytest.mark.parametrize("session", [S1, "not-a-session"])
def test_an_unknown_session_is_refused(robot: Robot, session: str) -> None:
    robot.when(learn("Approach from the left", session_id=session)).then_refused(
        f"Session {session!r} does not exist in collection 'default'; start_session makes one"
    )


def test_an_ended_session_is_refused(robot: Robot) -> None:
    robot.given(started(S1), ended(S1)).when(
        learn("Approach from the left", session_id=S1)
    ).then_refused(f"Session {S1} has ended; start_session makes a new one")


def test_the_session_of_another_collection_is_refused(robot: Robot) -> None:
    robot.given(started(S1, collection="kitchen")).when(
        learn("Approach from the left", session_id=S1)
    ).then_refused(f"Session {S1} belongs to collection 'kitchen', not 'default'")


def test_another_tenants_session_does_not_exist(robot: Robot) -> None:
    robot.given(started(S1, tenant="rival")).when(
        learn("Approach from the left", session_id=S1)
    ).then_refused(
        f"Session {S1!r} does not exist in collection 'default'; start_session makes one"
    )


def test_a_duplicate_in_an_unknown_session_is_refused_not_found(robot: Robot) -> None:
    robot.when(learn("Approach from the left"))
    robot.when(learn("Approach from the left", session_id=S1)).then_refused(
        f"Session {S1!r} does not exist in collection 'default'; start_session makes one"
    )
