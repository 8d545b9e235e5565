"""update: a memory says something else from now on, and is inferred anew."""

from __future__ import annotations

from mnemolog.events.robot import MemoryUpdated
from tests.spec.given import (
    NORTH,
    S1,
    Robot,
    days,
    forgotten,
    learn,
    learned,
    perceived,
    recalled,
    started,
    superseded,
    unit,
    update,
)

CONTEXT = '{"robot": {"type": "UR5e"}, "task": {"success": true}}'


def test_content_and_everything_inferred_are_made_anew(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly", vector=NORTH)).when(
        update(1, "Never exceed 15N because config/grip.yaml says so", vector=unit(0, 1))
    ).then(
        MemoryUpdated(
            memory_id=1,
            version=2,
            content="Never exceed 15N because config/grip.yaml says so",
            context="",
            category="constraint",
            tags=["constraint", "root_cause"],
            confidence=0.9,
            scope_files=["config/grip.yaml"],
            embedding=0,
        )
    ).then_reply(
        {
            "status": "updated",
            "memory_id": 1,
            "old_content": "approach slowly",
            "new_content": "Never exceed 15N because config/grip.yaml says so",
            "auto_inferred": {
                "category": "constraint",
                "confidence": 0.9,
                "tags": ["constraint", "root_cause"],
                "scope_files": ["config/grip.yaml"],
            },
        }
    )
    assert robot.state.view.all("SELECT memory, vector FROM vector") == [(1, unit(0, 1))]


def test_what_stays(robot: Robot) -> None:
    robot.given(started(S1), learned(1, "approach slowly", session=S1), recalled(1))
    before = robot.memory(1)
    robot.when(update(1, "approach from the left", at_us=days(3)))
    memory = robot.memory(1)
    assert (memory.id, memory.space, memory.session) == (1, before.space, S1)
    assert (memory.created_at_us, memory.updated_at_us) == (before.created_at_us, days(3))
    assert (memory.access_count, memory.accessed_at_us) == (1, before.accessed_at_us)


def test_versions_count_up(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly"))
    for version in (2, 3, 4):
        robot.when(update(1, f"approach in lane {version}"))
        assert robot.memory(1).version == version


def test_without_a_vector_the_old_one_does_not_stay(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly", vector=NORTH)).when(update(1, "approach quickly"))
    assert robot.state.view.all("SELECT * FROM vector") == []
    robot.when(learn("creep towards it", vector=NORTH)).then_created(2)


def test_an_empty_context_keeps_the_old_one(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly", context=CONTEXT))
    robot.when(update(1, "approach quickly"))
    assert robot.memory(1).context == CONTEXT
    assert robot.memory(1).confidence == 0.85, "the context that was kept counts"
    robot.when(update(1, "approach gently", context="  "))
    assert robot.memory(1).context == CONTEXT


def test_a_new_context_takes_the_place_of_the_old(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly", context=CONTEXT)).when(
        update(1, "approach slowly", context='{"a": 1}')
    )
    assert robot.memory(1).context == '{"a": 1}'


def test_long_contents_are_trimmed_and_the_reply_says_so(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly")).when(update(1, "x" * 301)).then_reply_has(
        new_content="x" * 300, trimmed=True
    )


def test_an_empty_content_is_refused(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly")).when(update(1, " \n")).then_refused(
        "new_content must not be empty: say in 1 to 300 characters what is right"
    )


def test_a_context_that_is_no_object_is_refused(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly"))
    robot.when(update(1, "approach quickly", context="[]")).then_refused(
        "context must be a JSON object, not a list"
    )
    robot.when(update(1, "approach quickly", context="{")).then_refused(
        "context must be a JSON object as text…"
    )


# --- similar_to ----------------------------------------------------------------------------------


def test_an_update_that_comes_to_equal_another_memory_is_made_and_names_it(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly"), learned(2, "grip at 15N")).when(
        update(2, "Approach slowly.")
    ).then_reply_has(
        status="updated",
        similar_to={"existing_id": 1, "method": "exact", "similarity": 1.0},
    )
    assert robot.memory(2).content == "Approach slowly."


def test_similar_words_and_similar_meaning_are_named_too(robot: Robot) -> None:
    words = "alpha bravo charlie delta echo foxtrot golf hotel india juliett"
    robot.given(
        learned(1, words), learned(2, "hold mugs softly", vector=NORTH), learned(3, "x y z")
    )
    robot.when(update(3, f"{words} kilo")).then_reply_has(
        similar_to={"existing_id": 1, "method": "jaccard", "similarity": 0.9091}
    )
    robot.when(update(3, "be gentle with cups", vector=NORTH)).then_reply_has(
        similar_to={"existing_id": 2, "method": "cosine", "similarity": 1.0}
    )


def test_a_memory_is_not_similar_to_itself(robot: Robot) -> None:
    robot.given(learned(1, "approach slowly from the left side", vector=NORTH))
    for content in (
        "approach slowly from the left side",
        "approach slowly from the left side now",
        "creep",
    ):
        robot.when(update(1, content, vector=NORTH))
        assert "similar_to" not in robot.reply


def test_a_perception_is_nobodys_twin(robot: Robot) -> None:
    robot.given(perceived(1, "a red cup on the table"), learned(2, "approach slowly"))
    robot.when(update(2, "a red cup on the table"))
    assert "similar_to" not in robot.reply
    robot.when(update(1, "a red cup on the table"))
    assert "similar_to" not in robot.reply


def test_an_updated_perception_stays_one(robot: Robot) -> None:
    robot.given(perceived(1, "a red cup")).when(update(1, "Never mind: a blue cup")).then(
        MemoryUpdated(
            memory_id=1,
            version=2,
            content="Never mind: a blue cup",
            context="",
            category="observation",
            tags=["observation"],
            confidence=0.9,
            scope_files=[],
        )
    )
    assert robot.memory(1).kind == "perception"
    robot.when(learn("Never mind: a blue cup")).then_created(2)


# --- what cannot be updated ----------------------------------------------------------------------


def test_a_forgotten_memory(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N"), forgotten(1, "out of date")).when(
        update(1, "grip at 12N")
    ).then_refused("Memory 1 was already forgotten: out of date")


def test_a_superseded_memory(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N"), learned(2, "grip softly"), superseded(1, by=2)).when(
        update(1, "grip at 12N")
    ).then_refused("Memory 1 was merged into memory 2")


def test_an_unknown_memory(robot: Robot) -> None:
    robot.when(update(1, "grip at 12N")).then_refused("Memory 1 does not exist")


def test_another_tenants_memory(robot: Robot) -> None:
    robot.given(learned(1, "grip at 15N", tenant="rival")).when(
        update(1, "grip at 12N")
    ).then_refused("Memory 1 does not exist")
