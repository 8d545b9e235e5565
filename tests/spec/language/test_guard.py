"""Which texts are not duplicates, however many words they share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.projections.language import guard

DIFFERENT = [
    ("grip at 12.5N", "grip at 15N"),
    ("wait 5 s", "wait 5 ms"),
    ("wait 5 seconds", "wait 5 minutes"),
    ("cool to 5 °C", "cool to -5 °C"),
    ("fails when humidity > 80%", "fails when humidity < 80%"),
    ("speed <= 2 m/s", "speed >= 2 m/s"),
    ("accelerate at 2 m/s", "accelerate at 2 m/s²"),
    ("joint 3 is loose", "joint 4 is loose"),
    ("joint3 is loose", "joint4 is loose"),
    ("mounted on a UR5e", "mounted on a UR10e"),
    ("firmware v1.5", "firmware v1.6"),
    ("the tray is clean", "the tray is not clean"),
    ("it slips", "it doesn't slip"),
    ("it can move", "it cannot move"),
    ("lift with the clamp", "lift without the clamp"),
    ("always use suction", "never use suction"),
    ("use suction on foil", "avoid suction on foil"),
    ("stop if wet", "stop unless wet"),
    ("retry two times", "retry three times"),
    ("retry once", "retry twice"),
    ("turn at 5 mW", "turn at 5 MW"),
    ("a 5 Nm motor", "a 5 nm motor"),
    ("usar con guante", "usar sin guante"),
    ("agarra el vaso", "no agarra el vaso"),
    ("夹爪需要校准", "夹爪不需要校准"),
    ("已检查限位", "未检查限位"),
    ("有反光", "没有反光"),
    ("碰急停", "别碰急停"),
    ("重试两次", "重试三次"),
    ("第二个关节松动", "第三个关节松动"),
    ("等待 5 秒", "等待 5 分钟"),
    ("抓取力不得超过 15N", "抓取力不得超过 12N"),
]

SAME = [
    ("grip at 15N", "Grip at 15 N"),
    ("grip at 15N", "grip with 15 newtons"),
    ("grip at 12.5N", "grip at 12.50 N, please"),
    ("grip at 12.5N", "agarra con 12,5 N"),
    ("1000 cycles", "1,000 cycles"),
    ("at 80%", "at 80 percent"),
    ("at 20 °C", "at 20 degrees Celsius"),
    ("at 20 ℃", "at 20°C"),
    ("2 m/s^2", "2m/s²"),
    ("5 N·m", "5Nm"),
    ("for 200 ms", "for 200 milliseconds"),
    ("retry three times", "retry 3 times"),
    ("wait twenty-five seconds", "wait 25s"),
    ("never exceed 15N", "do not exceed 15N"),
    ("it can't move", "it cannot move"),
    ("it doesn’t slip", "it doesnt slip"),
    ("red cup, 3 cm, 80%", "80% of the 3 cm cups are red"),
    ("mug on UR5e", "UR5E holds the mug"),
    ("5-10 N", "5 to 10 N"),
    ("不得超过15N", "别超过 15 牛"),
    ("湿度百分之八十", "湿度 80%"),
    ("重试三次", "重试 3 次"),
    ("等待三十五秒", "等待35s"),
]

NOTHING = [
    "",
    "the red cup needs more force",
    "number of cups",
    "one of the cups",
    "compute sin(x) and note the knot",
    "特别注意分别识别两侧",
    "非常重要的无人机和不锈钢杯",
    "发现一个红色杯子",
    "无论如何,未来会更好",
]


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_a_changed_number_unit_or_denial_is_new_knowledge(a: str, b: str) -> None:
    assert guard(a) != guard(b)


@pytest.mark.parametrize(("a", "b"), SAME)
def test_another_spelling_is_not(a: str, b: str) -> None:
    assert guard(a) == guard(b) != ""


@pytest.mark.parametrize("text", NOTHING)
def test_a_text_without_numbers_and_denials_has_no_signature(text: str) -> None:
    assert guard(text) == ""


def test_the_signature_can_be_read() -> None:
    assert guard("Never exceed 15 N on joint3 when humidity > 80 %") == "15n >80% joint3 not"


def test_an_abbreviated_number_denies_nothing() -> None:
    assert guard("No. 5 is loose") == guard("number 5 is loose") == "5"


def test_a_range_is_no_minus_and_an_arrow_no_comparison() -> None:
    assert guard("3-5 cups") == guard("3->5 cups") == "3 5"
    assert guard("x=-3") == guard("x is −3") == "-3"


CLAUSES = ["at 15 N", "not wet", "humidity > 80%", "joint 3", "UR5e", "抓取三次", "没有反光",
           "-5 °C", "the red cup", "twenty five ms", "无需校准", "v1.5", "don't"]  # fmt: skip


@given(
    st.lists(st.sampled_from(CLAUSES)).flatmap(lambda c: st.tuples(st.just(c), st.permutations(c)))
)
def test_the_order_of_clauses_does_not_count(clauses: tuple[list[str], list[str]]) -> None:
    given_order, other_order = clauses
    assert guard("; ".join(given_order)) == guard("; ".join(other_order))


@given(st.lists(st.sampled_from(CLAUSES)), st.sampled_from(["  ", "\n", "\t ", "\u3000"]))
def test_white_space_does_not_count(clauses: list[str], space: str) -> None:
    text = "; ".join(clauses)
    assert guard(text.replace(" ", space)) == guard(f" {text} ") == guard(text)


@given(st.text(st.characters(), max_size=300))
def test_any_text_has_a_signature(text: str) -> None:
    assert guard(text).split() == sorted(guard(text).split())


@pytest.mark.parametrize(
    "unit",
    ["1,000,", "1.", "5 ", "5 m/", "百分之", "一千", "不", "a1", "twenty ", "n't", "9", "-5"],
)
def test_adversarial_repetition_is_harmless(unit: str) -> None:
    assert isinstance(guard(unit * 100_000), str)
