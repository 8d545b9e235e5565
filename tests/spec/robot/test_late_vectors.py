"""Vectors that come late hold only for the content they were made of."""

from __future__ import annotations

from typing import Any

from mnemolog.events.robot import Embedded
from mnemolog.projections.language import content_hash
from mnemolog.projections.robot.state import robot_space
from tests.spec.given import (
    NORTH,
    Ask,
    Robot,
    ask,
    forgotten,
    happened,
    learn,
    learned,
    update,
)

SPACE = robot_space("default", "default")


def embed(*memories: tuple[int, str], space: str = SPACE, **more: Any) -> Ask:
    return ask(
        "mnemolog.embed_missing",
        space=space,
        memories=[{"memory_id": number, "content": content} for number, content in memories],
        vectors={content: NORTH for _, content in memories},
        **more,
    )


def late(number: int, content: str, version: int = 1) -> Embedded:
    return Embedded(
        memory_id=number,
        version=version,
        content_hash=content_hash(content),
        confidence=0.8,
        embedding=0,
    )


def test_a_late_vector_takes_part_in_deciding(robot: Robot) -> None:
    robot.given(learned(1, "hold mugs softly"))
    robot.when(learn("be gentle", vector=NORTH)).then_created(2)
    robot.when(embed((1, "hold mugs softly"))).then(late(1, "hold mugs softly")).then_reply(
        {"embedded": 1}
    )
    robot.when(learn("take care", vector=NORTH)).then_duplicate(1, "cosine", 1.0)


def test_what_was_updated_forgotten_or_never_there_is_left_out(robot: Robot) -> None:
    robot.given(learned(1, "one"), learned(2, "two"), forgotten(2), learned(3, "three"))
    robot.when(update(1, "one and a half"))
    robot.when(embed((1, "one"), (2, "two"), (9, "nine"))).then().then_reply({"embedded": 0})
    robot.when(embed((3, "three"), space=robot_space("default", "kitchen"))).then()


def test_a_vector_that_was_overtaken_by_an_update_is_not_kept(robot: Robot) -> None:
    robot.given(learned(1, "one"))
    robot.when(update(1, "two"))
    robot.given(happened(late(1, "one"), vector=NORTH))
    assert robot.state.view.all("SELECT * FROM vector") == []
    robot.when(learn("three", vector=NORTH)).then_created(2)
