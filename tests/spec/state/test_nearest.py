"""Exact neighbours and exact word overlap: the fast ways give what the slow ones give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mnemolog.projections.language import jaccard, token_set
from mnemolog.projections.ports import Vector
from mnemolog.projections.robot.state import alike_by_words, nearest, robot_space
from mnemolog.projections.robot.understood import understood
from mnemolog.projections.state.nearest import Nearest, Neighbour, exact_cosine, quantise
from mnemolog.projections.state.store import PartitionState
from tests.families import PROJECTED
from tests.spec.given import Robot, forgotten, learned, perceived

SPACE, OTHER_SPACE = 1, 2
MODEL = "m"


def unit16(values: NDArray[np.float64]) -> Vector:
    return (values / np.linalg.norm(values)).astype(np.float16)


class Shelf:
    """Vectors of one space in a real state, and the same in a dictionary."""

    def __init__(self) -> None:
        self.view = PartitionState(None, 0, 1, PROJECTED).view
        self.nearest: Nearest = nearest(self.view)
        self.vectors: dict[int, Vector] = {}

    def put(self, number: int, vector: Vector) -> None:
        self.view.run(
            "INSERT OR REPLACE INTO memory (id, space, kind, content, content_hash, guard, words,"
            " version, context, category, tags, scope_files, confidence, status, created_at_us,"
            " updated_at_us) VALUES (?, ?, 'fact', '', '', '', 0, 1, '', '', '[]', '[]', 0.8,"
            " 'active', 0, 0)",
            number,
            SPACE,
        )
        self.view.run(
            "INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", number, MODEL, vector.tobytes()
        )
        self.nearest.put(SPACE, MODEL, number, vector)
        self.vectors[number] = vector

    def remove(self, number: int) -> None:
        self.view.run("UPDATE memory SET status = 'invalidated' WHERE id = ?", number)
        self.nearest.remove(SPACE, number)
        self.vectors.pop(number, None)

    def brute(self, vector: Vector) -> list[Neighbour]:
        found = [Neighbour(n, exact_cosine(vector, other)) for n, other in self.vectors.items()]
        return sorted(found, key=lambda one: (-one.similarity, one.id))

    def check(self, vector: Vector, thresholds: tuple[float, ...] = (0.5, 0.875, 0.95)) -> None:
        expected = self.brute(vector)
        for threshold in thresholds:
            assert self.nearest.above(SPACE, MODEL, vector, threshold) == [
                one for one in expected if one.similarity > threshold
            ]
        for limit in (1, 5, 50):
            assert self.nearest.top(SPACE, MODEL, vector, limit) == expected[:limit]


def drawn(chance: np.random.Generator, dims: int, spread: float | None) -> Vector:
    """A random direction, or one close to the first axis."""
    noise = chance.normal(size=dims)
    if spread is None:
        return unit16(noise)
    centre = np.zeros(dims)
    centre[0] = 1.0
    return unit16(centre + spread * noise / np.sqrt(dims))


@pytest.mark.parametrize("dims", [8, 384, 512])
@pytest.mark.parametrize("spread", [None, 0.3, 0.02], ids=["random", "clustered", "dense"])
def test_as_a_full_search_through_puts_replacements_and_removals(
    dims: int, spread: float | None
) -> None:
    chance = np.random.default_rng(7)
    shelf = Shelf()
    shelf.check(drawn(chance, dims, spread))
    for number in range(1, 301):
        shelf.put(number, drawn(chance, dims, spread))
        roll = chance.random()
        if roll < 0.2:
            shelf.remove(int(chance.integers(1, number + 1)))
        elif roll < 0.4:
            shelf.put(int(chance.integers(1, number + 1)), drawn(chance, dims, spread))
        if number % 25 == 0:
            shelf.check(drawn(chance, dims, spread))
    for number in list(shelf.vectors)[:5]:
        shelf.check(shelf.vectors[number])
    shelf.nearest.clear()
    shelf.check(drawn(chance, dims, spread))


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 6), st.one_of(st.none(), st.lists(st.integers(-3, 3), min_size=4))
        ),
        max_size=20,
    ),
    st.lists(st.integers(-3, 3), min_size=4, max_size=4).filter(any),
    st.floats(0.5, 1.0),
)
def test_as_a_full_search_among_few_dimensions(
    steps: list[tuple[int, list[int] | None]], wanted: list[int], threshold: float
) -> None:
    shelf = Shelf()
    query = unit16(np.array(wanted, dtype=np.float64))
    shelf.check(query)
    for number, values in steps:
        if values is None or not any(values[:4]):
            shelf.remove(number)
        else:
            shelf.put(number, unit16(np.array(values[:4], dtype=np.float64)))
    cosines = tuple(one.similarity for one in shelf.brute(query) if one.similarity > 0)
    shelf.check(query, (threshold, *cosines))
    shelf.check(query, tuple(one - 1e-6 for one in cosines))


def test_a_threshold_that_a_vector_lies_on_or_just_over() -> None:
    chance = np.random.default_rng(3)
    shelf = Shelf()
    for number in range(1, 200):
        shelf.put(number, drawn(chance, 384, 0.4))
    query = drawn(chance, 384, 0.4)
    for one in shelf.brute(query):
        above = shelf.nearest.above(SPACE, MODEL, query, one.similarity)
        assert one.id not in [near.id for near in above]
        above = shelf.nearest.above(SPACE, MODEL, query, one.similarity - 1e-6)
        assert one.id in [near.id for near in above]


def test_spaces_and_models_are_apart() -> None:
    shelf = Shelf()
    vector = unit16(np.ones(8))
    shelf.put(1, vector)
    assert shelf.nearest.top(OTHER_SPACE, MODEL, vector, 5) == []
    assert shelf.nearest.top(SPACE, "another", vector, 5) == []
    assert shelf.nearest.above(SPACE, MODEL, vector, 0.99) == [Neighbour(1, 1.0)]


def test_the_bytes_say_how_far_off_they_are() -> None:
    chance = np.random.default_rng(1)
    vectors = np.stack([drawn(chance, 64, None) for _ in range(50)]).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows, scales, errors = quantise(vectors)
    back = rows.astype(np.float64) * scales[:, None]
    assert np.allclose(np.linalg.norm(vectors - back, axis=1), errors, atol=1e-6)
    assert errors.max() < 0.02


# --- words ---------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["alpha", "bravo", "charlie", "delta", "echo", "golf", "hotel", "15N", "not", "杯子", "抓取"]
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(TEXTS, st.sampled_from(["fact", "fact", "fact", "gone", "seen"]))),
    TEXTS,
    st.sampled_from([0.3, 0.5, 0.7, 0.9]),
    st.booleans(),
    st.integers(0, 3),
)
def test_alike_by_words_is_the_highest_jaccard_there_is(
    stored: list[tuple[str, str]], text: str, threshold: float, guarded: bool, but: int
) -> None:
    robot = Robot()
    candidates: list[tuple[float, int]] = []
    for number, (content, kind) in enumerate(stored, start=1):
        robot.given((perceived if kind == "seen" else learned)(number, content))
        if kind == "gone":
            robot.given(forgotten(number))
        elif kind == "fact" and number != but:
            same_guard = not guarded or understood(content).guard == understood(text).guard
            similarity = jaccard(token_set(content), token_set(text))
            if same_guard and similarity > threshold:
                candidates.append((similarity, -number))
    view = robot.state.view
    place = view.ensure_space(robot_space("default", "default"))
    found = alike_by_words(view, place, text, threshold, guarded=guarded, but=but)
    expected = max(candidates, default=None)
    assert found == (None if expected is None else (-expected[1], expected[0]))
