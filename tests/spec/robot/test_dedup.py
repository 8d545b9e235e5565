"""learn does not store twice what a memory of the collection already says.

Three layers, each asked only when the one before found nothing: the same text, much the same
words, the same meaning.
"""

from __future__ import annotations

import pytest

from mnemolog.events.robot import DuplicateFound, MemoryUpdated
from mnemolog.projections.language import jaccard, token_set
from mnemolog.services.families.robot.rules import RobotRules
from mnemolog.services.reader.reader import VectorModel
from tests.spec.given import (
    AT_0_875,
    MODEL,
    NORTH,
    S1,
    Robot,
    at_cosine,
    end_session,
    forget,
    forgotten,
    happened,
    learn,
    learned,
    perceived,
    save_perception,
    started,
    superseded,
    unit,
    update,
)

TEN_WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliett"


# --- the same text -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        "Approach from the left",
        "approach FROM the Left",
        "  Approach   from\tthe left ",
        "Approach from the left.",
        "Approach from the left!",
        "Ａpproach from the left",
    ],
)
def test_the_same_text_normalised(robot: Robot, again: str) -> None:
    robot.given(learned(1, "Approach from the left")).when(learn(again)).then(
        DuplicateFound(existing_id=1, method="exact", similarity=1.0)
    ).then_duplicate(1, "exact", 1.0)


def test_a_question_is_not_the_same_text(robot: Robot) -> None:
    robot.given(learned(1, "抓取")).when(learn("抓取?")).then_duplicate(1, "jaccard", 1.0)


def test_the_same_text_without_a_single_word(robot: Robot) -> None:
    robot.given(learned(1, "→ ↑ →")).when(learn("→ ↑ →")).then_duplicate(1, "exact", 1.0)
    robot.when(learn("↑ ↑")).then_created(2)


def test_chinese_text(robot: Robot) -> None:
    robot.given(learned(1, "发现红色杯子需要更大的力")).when(
        learn("发现红色杯子需要更大的力。")
    ).then_duplicate(1, "exact", 1.0)


# --- much the same words -------------------------------------------------------------------------


def test_more_than_seven_tenths_of_the_words(robot: Robot) -> None:
    # 8 shared of 11 in all: 0.727…
    other = "alpha bravo charlie delta echo foxtrot golf hotel xray"
    assert jaccard(token_set(TEN_WORDS), token_set(other)) == 8 / 11
    robot.given(learned(1, TEN_WORDS)).when(learn(other)).then(
        DuplicateFound(existing_id=1, method="jaccard", similarity=0.7273)
    ).then_duplicate(1, "jaccard", 0.7273)


def test_seven_tenths_exactly_is_not_enough(robot: Robot) -> None:
    seven = "alpha bravo charlie delta echo foxtrot golf"
    assert jaccard(token_set(TEN_WORDS), token_set(seven)) == 0.7
    robot.given(learned(1, TEN_WORDS)).when(learn(seven)).then_created(2)


def test_seven_tenths_exactly_is_not_enough_the_other_way_round(robot: Robot) -> None:
    robot.given(learned(1, "alpha bravo charlie delta echo foxtrot golf")).when(
        learn(TEN_WORDS)
    ).then_created(2)


def test_the_order_of_the_words_does_not_count(robot: Robot) -> None:
    turned = " ".join(reversed(TEN_WORDS.split()))
    robot.given(learned(1, TEN_WORDS)).when(learn(turned)).then_duplicate(1, "jaccard", 1.0)


def test_the_most_similar_memory_is_named_and_among_equals_the_oldest(robot: Robot) -> None:
    robot.given(
        learned(1, f"{TEN_WORDS} kilo lima"),
        learned(2, f"{TEN_WORDS} mike"),
        learned(3, f"{TEN_WORDS} oscar"),
    ).when(learn(TEN_WORDS)).then_duplicate(2, "jaccard", 0.9091)


def test_the_threshold_is_a_rule() -> None:
    half = "alpha bravo charlie delta echo"
    Robot(RobotRules(dedup_jaccard=0.49)).given(learned(1, TEN_WORDS)).when(
        learn(half)
    ).then_duplicate(1, "jaccard", 0.5)


def test_chinese_words_are_compared_as_words(robot: Robot) -> None:
    text = "机器人在潮湿环境中抓取红色杯子时需要更大的力"
    other = "机器人在潮湿环境中抓取红色杯子时需要较大的力"
    robot.given(learned(1, text)).when(learn(other))
    assert (robot.reply["method"], robot.reply["existing_id"]) == ("jaccard", 1)


# --- the same meaning ----------------------------------------------------------------------------


def test_a_cosine_over_the_models_threshold(robot: Robot) -> None:
    robot.given(learned(1, "Hold mugs softly", vector=NORTH)).when(
        learn("Be gentle with cups", vector=at_cosine(0.9))
    ).then(DuplicateFound(existing_id=1, method="cosine", similarity=0.9))
    robot.then_duplicate(1, "cosine", 0.9)


def test_a_cosine_at_the_threshold_is_not_enough(robot: Robot) -> None:
    robot.given(learned(1, "Hold mugs softly", vector=NORTH)).when(
        learn("Be gentle with cups", vector=AT_0_875)
    ).then_created(2)


def test_just_over_the_threshold_is_enough() -> None:
    model = VectorModel(MODEL.name, 0.874999)
    Robot(model=model).given(learned(1, "Hold mugs softly", vector=NORTH)).when(
        learn("Be gentle with cups", vector=AT_0_875)
    ).then_duplicate(1, "cosine", 0.875)


def test_the_nearest_memory_is_named(robot: Robot) -> None:
    robot.given(
        learned(1, "Hold mugs softly", vector=at_cosine(0.9)),
        learned(2, "Glass asks for care", vector=at_cosine(0.95)),
        learned(3, "Slow down near porcelain", vector=at_cosine(0.92)),
    ).when(learn("Be gentle with cups", vector=NORTH))
    assert (robot.reply["method"], robot.reply["existing_id"]) == ("cosine", 2)


def test_without_a_vector_there_is_no_third_layer(robot: Robot) -> None:
    robot.given(learned(1, "Hold mugs softly", vector=NORTH)).when(
        learn("Be gentle with cups")
    ).then_created(2)


def test_without_a_model_there_is_no_third_layer() -> None:
    Robot(model=None).given(learned(1, "Hold mugs softly", vector=NORTH)).when(
        learn("Be gentle with cups", vector=NORTH)
    ).then_created(2)


def test_vectors_of_different_models_are_not_compared() -> None:
    Robot(model=VectorModel("another-model", 0.875)).given(
        learned(1, "Hold mugs softly", vector=NORTH)
    ).when(learn("Be gentle with cups", vector=NORTH)).then_created(2)


def test_words_are_asked_before_meaning(robot: Robot) -> None:
    robot.given(
        learned(1, TEN_WORDS, vector=unit(0, 1)),
        learned(2, "Hold mugs softly", vector=NORTH),
    ).when(learn(f"{TEN_WORDS} kilo", vector=NORTH)).then_duplicate(1, "jaccard", 0.9091)


def test_the_same_text_is_asked_before_words(robot: Robot) -> None:
    robot.given(learned(1, f"{TEN_WORDS} {TEN_WORDS}"), learned(2, TEN_WORDS)).when(
        learn(TEN_WORDS)
    ).then_duplicate(2, "exact", 1.0)


# --- numbers and negations -----------------------------------------------------------------------

NOT_DUPLICATES = [
    (
        "Set the grip force to 12.5N for the cylindrical steel cups on the tray",
        "Set the grip force to 15N for the cylindrical steel cups on the tray",
    ),
    (
        "Set the approach speed to 15 mm/s for the cylindrical steel cups",
        "Set the approach speed to 15 m/s for the cylindrical steel cups",
    ),
    (
        "The left gripper does slip on the wet blue steel tray at night",
        "The left gripper does not slip on the wet blue steel tray at night",
    ),
    ("抓取红色杯子时夹爪会打滑需要减速", "抓取红色杯子时夹爪不会打滑需要减速"),
    (
        "Approach the red steel cups on the tray from the left with the wide jaw",
        "Approach the red steel cups on the tray from the right with the wide jaw",
    ),
    ("The laser of the scanner draws 5 mW", "The laser of the scanner draws 5 MW"),
    ("Cup A is heavier than cup B", "Cup B is heavier than cup A"),
    ("Call open_gripper() before move_arm()", "Call move_arm() before open_gripper()"),
    ("为了简化选择 PID 而非 MPC", "为了简化选择 MPC 而非 PID"),
    ("El vaso rojo pesa más que el vaso azul", "El vaso azul pesa más que el vaso rojo"),
]


@pytest.mark.parametrize(("one", "other"), NOT_DUPLICATES)
def test_another_number_unit_negation_or_the_opposite_is_new_knowledge(
    robot: Robot, one: str, other: str
) -> None:
    robot.given(learned(1, one, vector=NORTH)).when(learn(other, vector=NORTH)).then_created(2)


@pytest.mark.parametrize(("one", "other"), NOT_DUPLICATES)
def test_the_guard_can_be_switched_off(one: str, other: str) -> None:
    robot = Robot(RobotRules(dedup_guard=False)).given(learned(1, one, vector=NORTH))
    robot.when(learn(other, vector=NORTH)).then_reply_has(status="duplicate", existing_id=1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Calibrate the wrist sensor before grasping",
            "Before grasping, calibrate the wrist sensor",
        ),
        (
            "In cold rooms the left arm is stronger than the right arm",
            "The left arm is stronger than the right arm in cold rooms",
        ),
    ],
)
def test_a_clause_that_moved_says_the_same(robot: Robot, one: str, other: str) -> None:
    robot.given(learned(1, one)).when(learn(other)).then_duplicate(1, "jaccard", 1.0)


def test_the_guard_holds_for_words_alone(robot: Robot) -> None:
    one, other = NOT_DUPLICATES[0]
    robot.given(learned(1, one)).when(learn(other)).then_created(2)


def test_the_same_number_in_another_spelling_is_a_duplicate(robot: Robot) -> None:
    robot.given(learned(1, f"{TEN_WORDS} at 12.5N")).when(
        learn(f"{TEN_WORDS} at 12.50 N")
    ).then_reply_has(status="duplicate", existing_id=1)


def test_a_nearer_memory_with_another_number_does_not_hide_the_duplicate(robot: Robot) -> None:
    robot.given(
        learned(1, "Hold mugs at 10N", vector=at_cosine(0.9)),
        learned(2, "Hold jars at 20N", vector=NORTH),
    ).when(learn("Cups want 10N", vector=NORTH)).then_duplicate(1, "cosine", 0.9)


# --- what is compared ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEN_WORDS, f"{TEN_WORDS} kilo", "Be gentle with cups"])
def test_every_collection_for_itself(robot: Robot, text: str) -> None:
    robot.given(learned(1, TEN_WORDS, collection="kitchen", vector=NORTH)).when(
        learn(text, vector=NORTH)
    ).then_created(2)
    robot.when(learn(text, collection="kitchen", vector=NORTH)).then_reply_has(
        status="duplicate", existing_id=1
    )


@pytest.mark.parametrize("text", [TEN_WORDS, f"{TEN_WORDS} kilo", "Be gentle with cups"])
def test_every_tenant_for_itself(robot: Robot, text: str) -> None:
    robot.given(learned(1, TEN_WORDS, tenant="rival", vector=NORTH)).when(
        learn(text, vector=NORTH)
    ).then_created(2)


@pytest.mark.parametrize("text", [TEN_WORDS, f"{TEN_WORDS} kilo", "Be gentle with cups"])
@pytest.mark.parametrize("guarded", [True, False])
def test_a_perception_is_nothing_to_be_a_duplicate_of(text: str, guarded: bool) -> None:
    Robot(RobotRules(dedup_guard=guarded)).given(perceived(1, TEN_WORDS, vector=NORTH)).when(
        learn(text, vector=NORTH)
    ).then_created(2)


def test_perceptions_are_never_duplicates(robot: Robot) -> None:
    robot.given(learned(1, TEN_WORDS, vector=NORTH))
    for number in (2, 3):
        robot.when(save_perception(TEN_WORDS, vector=NORTH)).then_reply_has(memory_id=number)


@pytest.mark.parametrize("text", [TEN_WORDS, f"{TEN_WORDS} kilo", "Be gentle with cups"])
def test_a_forgotten_memory_is_nothing_to_be_a_duplicate_of(robot: Robot, text: str) -> None:
    robot.given(learned(1, TEN_WORDS, vector=NORTH), forgotten(1)).when(
        learn(text, vector=NORTH)
    ).then_created(2)


@pytest.mark.parametrize("text", [TEN_WORDS, f"{TEN_WORDS} kilo", "Be gentle with cups"])
def test_a_superseded_memory_is_nothing_to_be_a_duplicate_of(robot: Robot, text: str) -> None:
    robot.given(
        learned(1, TEN_WORDS, vector=NORTH),
        learned(2, "Something else altogether"),
        superseded(1, by=2),
    ).when(learn(text, vector=NORTH)).then_created(3)


def test_what_a_memory_said_before_its_update_may_be_learned_again(robot: Robot) -> None:
    robot.given(
        learned(1, TEN_WORDS, vector=NORTH),
        happened(
            MemoryUpdated(
                memory_id=1,
                version=2,
                content="Something else altogether",
                context="",
                category="code",
                tags=["code"],
                confidence=0.8,
                scope_files=[],
                embedding=0,
            ),
            vector=unit(0, 1),
        ),
    ).when(learn(TEN_WORDS, vector=NORTH)).then_created(2)
    robot.when(learn("Things of another kind", vector=unit(0, 1))).then_duplicate(1, "cosine", 1.0)


def test_what_was_compared_before_and_is_gone_now_is_not_compared_again(robot: Robot) -> None:
    """Vectors are held in memory between calls; they have to follow what happens."""
    robot.given(
        started(S1),
        learned(1, "Hold mugs softly", vector=NORTH),
        learned(2, "alpha bravo charlie", session=S1, vector=unit(0, 1)),
        learned(3, "alpha bravo charlie delta", session=S1, confidence=0.9),
        learned(4, "whiskey xray", session=S1, vector=unit(0, 0, 1)),
    )
    robot.when(learn("Be gentle with cups", vector=NORTH)).then_duplicate(1, "cosine", 1.0)
    robot.when(forget(1, "wrong"))
    robot.when(learn("Be gentle with cups", vector=NORTH)).then_created(5)
    robot.when(end_session(S1)).then_reply_has(status="ended")
    assert robot.memory(2).status == "superseded"
    robot.when(learn("Something of its own", vector=unit(0, 1))).then_created(6)
    robot.when(update(4, "Said without a vector"))
    robot.when(learn("Quite another thing", vector=unit(0, 0, 1))).then_created(7)
    robot.when(update(7, "A thing that turned", vector=unit(0, 0, 0, 1)))
    robot.when(learn("Yet another", vector=unit(0, 0, 1))).then_created(8)
    robot.when(learn("Turned likewise", vector=unit(0, 0, 0, 1))).then_duplicate(7, "cosine", 1.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Found that red cups require more force", "Found that blue cups require more force"),
        ("发现红色杯子需要更大的力", "发现蓝色杯子需要更大的力"),
        ("Plug the charger into port A of the dock", "Plug the charger into port B of the dock"),
        ("The floor is waxed on Monday before work", "The floor is waxed on Friday before work"),
    ],
)
def test_one_of_a_kind_is_not_another(robot: Robot, one: str, other: str) -> None:
    robot.given(learned(1, one)).when(learn(other)).then_created(2)
