"""forget: a wrong memory is invalidated once, with a reason, by its own tenant."""

from __future__ import annotations

import pytest

from mnemolog.events.robot import MemoryForgotten
from tests.spec.given import (
    NORTH,
    Robot,
    ask,
    days,
    forget,
    forgotten,
    learned,
    perceived,
    start_session,
    superseded,
)


def test_a_memory_is_forgotten_with_its_reason(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N")).when(
        forget(1, "  Sensor calibration error ", at_us=days(2))
    ).then(MemoryForgotten(memory_id=1, reason="Sensor calibration error")).then_reply(
        {
            "status": "forgotten",
            "memory_id": 1,
            "content": "grip at 15N",
            "reason": "Sensor calibration error",
        }
    )
    memory = robot.memory(1)
    assert (memory.status, memory.forgotten_because) == ("invalidated", "Sensor calibration error")
    assert (memory.content, memory.updated_at_us) == ("grip at 15N", days(2))


def test_the_reply_shows_long_contents_whole(robot: Robot) -> None:
    robot.given(learned(1, "x" * 300)).when(forget(1, "wrong")).then_reply_has(content="x" * 300)


def test_a_perception_can_be_forgotten(robot: Robot) -> None:
    robot.given(perceived(1, "a red cup", vector=NORTH)).when(forget(1, "blurred")).then(
        MemoryForgotten(memory_id=1, reason="blurred")
    )


def test_a_forgotten_memory_no_longer_counts_as_active(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N"), learned(2, "approach slowly"), forgotten(1)).when(
        start_session()
    ).then_reply_has(active_memories_count=1)


def test_a_forgotten_memory_is_not_forgotten_twice(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N"), forgotten(1, "out of date")).when(
        forget(1, "again")
    ).then_refused("Memory 1 was already forgotten: out of date")


def test_a_superseded_memory_is_not_forgotten(robot: Robot) -> None:
    robot.given(
        learned(1, "grip at 15N"), learned(2, "grip at 15N, softly"), superseded(1, by=2)
    ).when(forget(1, "wrong")).then_refused("Memory 1 was merged into memory 2")


def test_an_unknown_memory_is_not_forgotten(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N")).when(forget(2, "wrong")).then_refused(
        "Memory 2 does not exist"
    )


def test_another_tenants_memory_does_not_exist(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N", tenant="rival")).when(forget(1, "wrong")).then_refused(
        "Memory 1 does not exist"
    )


def test_a_tenant_whose_name_begins_with_anothers_is_another(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N", tenant="acme-labs")).when(
        forget(1, "wrong", tenant="acme")
    ).then_refused("Memory 1 does not exist")


def test_a_reason_is_needed(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N"))
    robot.when(forget(1, "  ")).then_refused(
        "reason must not be empty: say why the memory is wrong"
    )
    robot.when(forget(1, "")).then_refused("reason must be text of 1 to 1000 characters, not ''")
    robot.when(forget(1, "x" * 1001)).then_refused("reason must be text of 1 to 1000 characters…")
    robot.when(ask("forget", memory_id=1)).then_refused("reason is required…")


@pytest.mark.parametrize("number", [0, -1, 2**53, 1.5, "1", None, True])
def test_an_id_is_a_positive_whole_number(robot: Robot, number: object) -> None:
    robot.given(learned(1, "grip at 15N")).when(
        ask("forget", memory_id=number, reason="wrong")
    ).then_refused("memory_id must be a whole number greater than 0 and up to 9007199254740991…")
