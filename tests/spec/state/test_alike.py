"""Duplicates among memories of few different words: found exactly, without looking at each."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemolog.events.envelope import Embedding
from mnemolog.projections.language import jaccard, opposed, swapped
from mnemolog.projections.robot import state
from mnemolog.projections.robot.kept import Postings
from mnemolog.projections.robot.state import alike_by_meaning, alike_by_words, robot_space
from mnemolog.projections.robot.understood import understood
from tests.spec.given import MODEL, NORTH, Robot, forgotten, learned

WORDS = ["left", "right", "red", "blue", "than", "before", "cup", "grip", "table", "7", "not"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)
STEPS = st.lists(st.one_of(TEXTS, st.integers(1, 12)), max_size=14)
"""A text is learned; a number is forgotten, if it is there."""


def place_of(robot: Robot) -> int:
    return robot.state.view.ensure_space(robot_space("default", "default"))


def brute(stored: dict[int, str], text: str, threshold: float) -> tuple[int, float] | None:
    """What a look at each of them says."""
    said, found = understood(text), []
    for number, content in stored.items():
        told = understood(content)
        turned = opposed(said.words, told.words) or swapped(said.order, told.order)
        similarity = jaccard(said.words, told.words)
        if told.guard == said.guard and similarity > threshold and not turned:
            found.append((-similarity, number))
    return (min(found)[1], -min(found)[0]) if found else None


@pytest.fixture(params=[True, False], ids=["counted", "looked at"])
def counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Postings are always counted in memory, or never."""
    few = 0 if request.param else 10**9
    monkeypatch.setattr(state, "_FEW_ROWS", few)
    monkeypatch.setattr(state, "_FEW_TEXTS", few)


@settings(max_examples=150)
@given(STEPS, TEXTS, st.sampled_from([0.3, 0.5, 0.7]), st.sampled_from([1, 200, 10**6]))
@pytest.mark.usefixtures("counted")
def test_as_a_look_at_each_memory_while_they_come_and_go(
    steps: list[str | int], text: str, threshold: float, most: int
) -> None:
    robot = Robot()
    view, place = robot.state.view, place_of(robot)
    state.kept(view).postings = Postings(view.connection, most)
    stored: dict[int, str] = {}
    numbers = itertools.count(1)
    for step in steps:
        if isinstance(step, str):
            number = next(numbers)
            robot.given(learned(number, step))
            stored[number] = step
        elif stored.pop(step, None) is not None:
            robot.given(forgotten(step))
        found = alike_by_words(view, place, text, threshold, guarded=True)
        assert found == brute(stored, text, threshold)


def few_words() -> Iterator[str]:
    """Texts of some 25 words, none of which is like another."""
    chance = random.Random(3)
    words = [f"word{letter}{letter}" for letter in "abcdefghijklmnopqrstuvwxy"]
    while True:
        yield " ".join(chance.sample(words, chance.randint(6, 10)))


def halves() -> Iterator[str]:
    """The same words, the other way round each time."""
    words = [f"word{letter}{letter}" for letter in "abcdefghijklmn"]
    for left in itertools.combinations(words, 7):
        right = [word for word in words if word not in left]
        yield f"{' '.join(left)} than {' '.join(right)}"


def opposites() -> Iterator[str]:
    """Of which each says something else about the same."""
    common = " ".join(f"word{letter}{letter}" for letter in "abcdefghijklmn")
    colours, days = "red green blue black white brown", "monday tuesday friday sunday"
    letters = "b c d e f g h j k l m n o p q r s t u v w x y z"
    for three in itertools.product(colours.split(), days.split(), letters.split()):
        yield f"{common} {' '.join(three)}"


def numbered() -> Iterator[str]:
    """The same with another number each."""
    for number in itertools.count(100):
        yield f"the bin at the wall holds {number} bolts"


def work(robot: Robot, ask: Callable[[], object]) -> int:
    """How many hundreds of SQLite's instructions it takes, and texts that are read."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    read = understood.cache_info().misses
    robot.state.view.connection.set_progress_handler(step, 100)
    try:
        ask()
    finally:
        robot.state.view.connection.set_progress_handler(None, 0)
    return steps + understood.cache_info().misses - read


@pytest.mark.parametrize("texts", [few_words, halves, opposites])
def test_what_many_memories_of_few_words_cost_a_duplicate_check(
    texts: Callable[[], Iterator[str]],
) -> None:
    robot, kind = Robot(), texts()
    view, place = robot.state.view, place_of(robot)
    for number in range(1, 501):
        robot.given(learned(number, next(kind)))
    for text in itertools.islice(kind, 30):  # What is read once is read now.
        alike_by_words(view, place, text, 0.7, guarded=True)
    new = next(kind)
    took = work(robot, lambda: alike_by_words(view, place, new, 0.7, guarded=True))
    assert took < 20


@pytest.mark.parametrize("texts", [halves, opposites, numbered])
def test_and_those_that_mean_nearly_the_same(texts: Callable[[], Iterator[str]]) -> None:
    """All of them have one vector, and none of them is a duplicate."""
    robot, kind = Robot(), texts()
    view, place = robot.state.view, place_of(robot)
    for number in range(1, 501):
        robot.given(learned(number, next(kind), vector=NORTH))
    same = Embedding(MODEL.name, NORTH)

    def ask(text: str) -> None:
        assert alike_by_meaning(view, place, text, same, 0.8, guarded=True) is None

    for text in itertools.islice(kind, 30):
        ask(text)
    new = next(kind)
    took = work(robot, lambda: ask(new))
    assert took < 100
