"""An entity as one text: what of it is there when there is not room for all."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mnemolog.services.families.graph.describing.entity_text import BETWEEN, entity_text


def words(text: str) -> int:
    """Each word a token, a mark at each end."""
    return len(text.split()) + 2


def text_of(*observations: str, budget: int = 480) -> str:
    return entity_text("Astro", "Tool", observations, words, budget)


def said(text: str) -> list[str]:
    return text.split(": ", 1)[1].split(" | ")


def test_name_type_and_observations() -> None:
    assert text_of("6.x", "a web framework") == "Astro (Tool): 6.x | a web framework"
    assert text_of() == "Astro (Tool)"
    assert entity_text("Sesión 7", "会议", ["决定用 Kafka", "🤖"], words) == (
        "Sesión 7 (会议): 决定用 Kafka | 🤖"
    )


def test_ten_are_all_there_in_their_order() -> None:
    ten = [f"note {i}" for i in range(10)]
    assert said(text_of(*ten)) == ten


def test_of_many_the_first_the_last_and_what_adds_most() -> None:
    """Room for head, tail and two more: those with the most unseen words, in their order."""
    many = [f"same same {i}" for i in range(30)]
    many[12] = "quite another thing"
    many[20] = "same old story told"
    # 2 for the head, 2 marks, ten of 3 words and one for the bar, then room for 4 + 5.
    found = said(text_of(*many, budget=2 + 2 + 10 * 4 + 9))
    assert found == [*many[:3], many[12], many[20], *many[-7:]]


def test_what_adds_no_word_is_left_out_though_there_is_room() -> None:
    many = ["a b c", "d e f", "g h i", "a d g", "x y", "x y", *[f"tail {i}" for i in range(7)]]
    assert said(text_of(*many)) == [*many[:3], "x y", *many[-7:]]


def test_what_does_not_fit_makes_room_for_what_does() -> None:
    many = ["h"] * 3 + [" ".join(f"w{i}" for i in range(50)), "short one"] + ["t"] * 7
    found = said(text_of(*many, budget=2 + 2 + 10 * 2 + 10))
    assert found == ["h"] * 3 + ["short one"] + ["t"] * 7


def test_one_huge_observation_is_cut_at_a_word() -> None:
    huge = " ".join(f"word{i}" for i in range(2000))
    text = text_of(huge)
    # 2 marks, 2 words of the head, and room for a bar.
    assert said(text) == [" ".join(f"word{i}" for i in range(480 - 2 - 2 - 1))]


def test_one_word_that_is_too_long_is_cut_within() -> None:
    characters = lambda text: len(text) + 2  # noqa: E731
    text = entity_text("A", "T", ["抓" * 2000], characters, 50)
    assert len(text) <= 50
    assert "抓抓抓" in text


def test_long_ones_share_the_room_and_short_ones_are_whole() -> None:
    long = [" ".join(f"{n}{i}" for i in range(400)) for n in ("a", "b", "c")]
    text = text_of(long[0], "short", long[1], long[2])
    found = said(text)
    assert found[1] == "short"
    lengths = [len(found[i].split()) for i in (0, 2, 3)]
    assert max(lengths) - min(lengths) <= 1
    assert 470 <= words(text) <= 480


def test_a_name_longer_than_the_budget_leaves_room() -> None:
    name = " ".join(f"n{i}" for i in range(600))
    text = entity_text(name, "Tool", ["still said"], words)
    assert words(text) <= 480
    assert text.endswith("(Tool): still said")


def test_each_text_is_counted_once_however_many_there_are() -> None:
    """Counting is what costs: never all texts, never one of those that are whole twice."""
    counted: Counter[str] = Counter()

    def count(text: str) -> int:
        counted[text] += 1
        return words(text)

    many = [f"observation {i} says w{i} and v{i}" for i in range(5000)]
    assert words(entity_text("A", "T", many, count)) <= 480
    assert max(counted.values()) <= 2
    assert sum(counted.values()) <= 200
    assert len(many) > BETWEEN


@given(
    st.text(min_size=1, max_size=40),
    st.lists(st.text(min_size=1, max_size=60), max_size=30),
    st.integers(20, 60),
)
def test_it_is_never_over_the_budget(name: str, observations: list[str], budget: int) -> None:
    """Where white space parts the tokens, parts add up: whatever the texts are."""
    assert words(entity_text(name, "T", observations, words, budget)) <= budget
