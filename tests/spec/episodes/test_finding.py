"""How near vectors are: computed for many at once as for one alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.projections.ports import Vector
from mnemolog.services.families.episodes.answering.finding import cosines


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
