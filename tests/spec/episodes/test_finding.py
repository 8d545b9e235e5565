"""How near vectors are, computed for many at once as for one alone; and what is found thereby."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.projections.episodes.state import EPISODE
from mnemolog.projections.ports import Vector
from mnemolog.services.families.episodes.answering.finding import cosines, search
from mnemolog.services.reader.reader import Reader
from tests.spec.given import DIMS, MODEL, unit
from tests.spec.given_episodes import Episodes


def alone(one: Vector, other: Vector) -> float:
    first, second = one.astype(np.float32), other.astype(np.float32)
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return min(1.0, float(np.dot(first, second)) / lengths) if lengths else 0.0


@given(
    seed=st.integers(0, 2**32 - 1),
    dims=st.sampled_from([1, 3, 8, 384, 768]),
    count=st.integers(0, 60),
    scale=st.sampled_from([0.0, 1e-3, 1.0]),
)
def test_many_are_as_near_as_each_alone(seed: int, dims: int, count: int, scale: float) -> None:
    """To the last bit, since equal ones have an order, and a threshold may be met exactly."""
    random = np.random.default_rng(seed)
    query = (random.normal(size=dims) * scale).astype(np.float16)
    rows = random.normal(size=(count, dims)).astype(np.float16)
    others = {number: rows[random.integers(count)] for number in range(2 * count)}
    others |= {-1: query, -2: np.zeros(dims, dtype=np.float16)}
    assert cosines(query, others) == {n: alone(query, one) for n, one in others.items()}


def test_nothing_is_near_where_nothing_is() -> None:
    assert cosines(np.ones(3, dtype=np.float16), {}) == {}


@pytest.mark.parametrize("fetch", [1, 3, 10, 100])
def test_what_words_alone_found_need_not_be_measured_to_rank_it(
    episodes: Episodes, fetch: int
) -> None:
    """The same is found in the same order; only how similar the rest is remains unknown."""
    random = np.random.default_rng(fetch)
    words = ["login", "token", "menu", "soup"]
    vectors = {}
    for number in range(30):
        text = f"{number} {' '.join(random.choice(words, 2))} task"
        episodes.begun(text)
        vectors[text] = unit(*random.normal(size=DIMS))
    episodes.described(vectors)
    query = np.frombuffer(unit(*random.normal(size=DIMS)), dtype=np.float16)
    text_index, vector_index = episodes.text, episodes.vectors
    assert text_index is not None and vector_index is not None
    view = episodes.state.reader()
    reader = Reader(view, text_index, vector_index, lambda _: lambda: query, model=MODEL)
    found = search(reader, "default/episodes", EPISODE, "login soup")
    every, some = found.legs(fetch), found.legs(fetch, near_alone=True)
    assert (some.words, some.near, some.mode) == (every.words, every.near, every.mode)
    assert len(some.near) == min(fetch, 30)
    assert some.fused == every.fused
    assert every.similar is not None
    assert some.similar == {number: every.similar[number] for number in some.near}
