"""save_perception: recordings with a description they can be found by."""

from __future__ import annotations

from typing import get_args

import pytest

from mnemolog.events.robot import MemoryLearned, PerceptionType
from tests.spec.given import NORTH, S1, Robot, ask, ended, save_perception, started

DATA = '{"joints": [0.1, 0.2]}'
METADATA = '{"hz": 50}'


def test_a_perception_is_kept_with_its_data(robot: Robot) -> None:
    robot.given(started(S1)).when(
        ask(
            "save_perception",
            description="  A smooth reach to the tray ",
            perception_type="procedural",
            data=DATA,
            metadata=METADATA,
            session_id=S1,
            vectors={"A smooth reach to the tray": NORTH},
        )
    ).then(
        MemoryLearned(
            memory_id=1,
            collection="default",
            content="A smooth reach to the tray",
            category="observation",
            tags=["observation"],
            confidence=0.9,
            kind="perception",
            session_id=S1,
            perception_type="procedural",
            data=DATA,
            metadata=METADATA,
            embedding=0,
        )
    ).then_reply(
        {
            "memory_id": 1,
            "perception_type": "procedural",
            "collection": "default",
            "has_embedding": True,
        }
    )
    memory = robot.memory(1)
    assert (memory.kind, memory.data, memory.metadata) == ("perception", DATA, METADATA)


def test_the_least_that_can_be_said(robot: Robot) -> None:
    robot.when(save_perception("a cup", collection="kitchen")).then_reply(
        {
            "memory_id": 1,
            "perception_type": "visual",
            "collection": "kitchen",
            "has_embedding": False,
        }
    )
    assert (robot.memory(1).data, robot.memory(1).metadata) == (None, None)


def test_its_words_infer_nothing(robot: Robot) -> None:
    robot.when(save_perception("Never saw config/arm.yaml because of `dust`"))
    memory = robot.memory(1)
    assert (memory.category, memory.confidence, memory.scope_files) == ("observation", 0.9, [])


@pytest.mark.parametrize("sense", get_args(PerceptionType))
def test_the_senses(robot: Robot, sense: str) -> None:
    robot.when(save_perception("something there", perception_type=sense)).then_reply_has(
        perception_type=sense
    )


def test_there_are_five_senses() -> None:
    assert set(get_args(PerceptionType)) == {
        "visual",
        "tactile",
        "auditory",
        "proprioceptive",
        "procedural",
    }


def test_another_sense_is_refused(robot: Robot) -> None:
    robot.when(save_perception("something there", perception_type="smell")).then_refused(
        "perception_type must be one of visual, tactile, auditory, proprioceptive, procedural, "
        "not 'smell'"
    )


def test_a_short_description_is_refused(robot: Robot) -> None:
    robot.when(save_perception("cups")).then_refused(
        "description must be text of 5 to 2000 characters, not 'cups'"
    )
    robot.when(save_perception(" cups ")).then_refused(
        "description must be text of at least 5 characters that says what was perceived, not 'cups'"
    )


def test_a_description_is_not_trimmed_but_limited(robot: Robot) -> None:
    robot.when(save_perception("x" * 2000)).then_reply_has(memory_id=1)
    assert robot.memory(1).content == "x" * 2000
    robot.when(save_perception("x" * 2001)).then_refused(
        "description must be text of 5 to 2000 characters, not a text of 2001 characters"
    )


@pytest.mark.parametrize("name", ["data", "metadata"])
def test_data_and_metadata_are_json_objects(robot: Robot, name: str) -> None:
    robot.when(ask("save_perception", description="a red cup", **{name: "[1]"})).then_refused(
        f"{name} must be a JSON object, not a list"
    )
    robot.when(ask("save_perception", description="a red cup", **{name: "{"})).then_refused(
        f"{name} must be a JSON object as text…"
    )
    robot.when(
        ask("save_perception", description="a red cup", **{name: {"a": [1]}})
    ).then_reply_has(memory_id=1)
    assert getattr(robot.memory(1), name) == '{"a":[1]}'


def test_sessions_hold_for_perceptions_too(robot: Robot) -> None:
    robot.when(save_perception("a red cup", session_id=S1)).then_refused(f"Session {S1!r} does…")
    robot.given(started(S1, collection="kitchen"))
    robot.when(save_perception("a red cup", session_id=S1)).then_refused(
        f"Session {S1} belongs to collection 'kitchen', not 'default'"
    )
    robot.given(ended(S1))
    robot.when(save_perception("a red cup", session_id=S1, collection="kitchen")).then_refused(
        f"Session {S1} has ended; start_session makes a new one"
    )
