"""Exact nearest neighbours within one space, for deciding.

Each vector is also held in memory as one byte per dimension. A scan of those finds every
candidate that could reach the threshold, given how far rounding can be off; the candidates are
then compared exactly, from the float16 vectors of the state. So the answer is that of a full
exact search at a quarter of its cost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

import msgspec
import numpy as np
import simsimd
from numpy.typing import NDArray

from mnemolog.projections.ports import Vector

_CHUNK = 2048

Among = Callable[[Sequence[int]], Set[int]]
"""Those of some numbers that are wanted."""


class Neighbour(msgspec.Struct, frozen=True):
    id: int
    similarity: float


def exact_cosine(a: Vector, b: Vector) -> float:
    """Cosine similarity, rounded to 6 places so that every machine says the same."""
    left, right = a.astype(np.float64), b.astype(np.float64)
    norms = float(np.sqrt(left @ left) * np.sqrt(right @ right))
    return 0.0 if norms == 0.0 else round(float(left @ right) / norms, 6)


class _Block:
    """The vectors of one space and model as bytes, rows in no particular order."""

    def __init__(self, dims: int) -> None:
        self.rows = np.zeros((64, dims), dtype=np.int8)
        self.scales = np.zeros(64, dtype=np.float32)
        self.errors = np.zeros(64, dtype=np.float32)
        self.ids = np.zeros(64, dtype=np.int64)
        self.places: dict[int, int] = {}

    def put(self, number: int, vector: Vector) -> None:
        place = self.places.get(number)
        if place is None:
            place = len(self.places)
            if place == len(self.ids):
                self._grow()
            self.places[number] = place
        row, scale, error = quantise(vector.astype(np.float32)[None, :])
        self.rows[place], self.scales[place], self.errors[place] = row[0], scale[0], error[0]
        self.ids[place] = number

    def extend(self, ids: list[int], vectors: NDArray[np.float16]) -> None:
        """Add many at once that are not there yet."""
        start, end = len(self.places), len(self.places) + len(ids)
        while end > len(self.ids):
            self._grow()
        rows, scales, errors = quantise(vectors.astype(np.float32))
        self.rows[start:end], self.scales[start:end], self.errors[start:end] = rows, scales, errors
        self.ids[start:end] = ids
        self.places.update({number: start + i for i, number in enumerate(ids)})

    def remove(self, number: int) -> None:
        place = self.places.pop(number, None)
        if place is None:
            return
        last = len(self.places)
        if place != last:
            for array in (self.rows, self.scales, self.errors, self.ids):
                array[place] = array[last]
            self.places[int(self.ids[place])] = place

    def estimates(self, vector: Vector) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Per row the estimated dot product and how far it can be off."""
        count = len(self.places)
        row, scale, error = quantise(vector.astype(np.float32)[None, :])
        dots: Any = simsimd.cdist(row, self.rows[:count], "dot")
        estimate = np.asarray(dots, dtype=np.float64).reshape(-1) * (scale[0] * self.scales[:count])
        # |a.b - a'.b'| <= |a-a'||b| + |a'||b-b'|, with lengths of one; the rest is for float32 and
        # for the rounding of an exact cosine.
        off = 1.01 * (error[0] + self.errors[:count] + error[0] * self.errors[:count]) + 2e-6
        return estimate, np.asarray(off, dtype=np.float64)

    def _grow(self) -> None:
        for name in ("rows", "scales", "errors", "ids"):
            array = getattr(self, name)
            larger = np.zeros((len(array) * 2, *array.shape[1:]), dtype=array.dtype)
            larger[: len(array)] = array
            setattr(self, name, larger)


def quantise(
    vectors: NDArray[np.float32],
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]:
    """Rows as int8, the scale of each, and the length of what rounding took away.

    Rows are brought to unit length first: in float16 they are only about that long.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.maximum(lengths, np.float32(1e-12))
    scales = np.maximum(np.abs(vectors).max(axis=1), 1e-12).astype(np.float32) / np.float32(127)
    rows = np.rint(vectors / scales[:, None]).astype(np.int8)
    errors = np.linalg.norm(vectors - rows * scales[:, None], axis=1).astype(np.float32)
    return rows, scales, errors


class Nearest:
    """The blocks of one partition, loaded when first asked for and kept in step by the facts'
    functions. `one` is the query for a thing's vector, by its number and a model; `every` that for
    all numbers and vectors of a model in a space."""

    def __init__(self, connection: sqlite3.Connection, *, one: str, every: str) -> None:
        self._connection = connection
        self._one = one
        self._every = every
        self._blocks: dict[tuple[int, str], _Block] = {}

    def clear(self) -> None:
        self._blocks.clear()

    def put(self, space: int, model: str, number: int, vector: Vector) -> None:
        block = self._blocks.get((space, model))
        if block is not None:
            block.put(number, vector)

    def remove(self, space: int, number: int) -> None:
        for (owner, _), block in self._blocks.items():
            if owner == space:
                block.remove(number)

    def above(
        self, space: int, model: str, vector: Vector, threshold: float, *, among: Among = set
    ) -> list[Neighbour]:
        """Every one whose cosine similarity is over `threshold`, best first, of those
        that `among` lets pass."""
        block = self._block(space, model, len(vector))
        if not block.places:
            return []
        estimate, off = block.estimates(vector)
        near = block.ids[np.flatnonzero(estimate + off > threshold)].tolist()
        wanted = [
            number
            for start in range(0, len(near), _CHUNK)
            for number in among(near[start : start + _CHUNK])
        ]
        found = self._exact(wanted, model, vector)
        return [one for one in found if one.similarity > threshold]

    def top(self, space: int, model: str, vector: Vector, limit: int) -> list[Neighbour]:
        """The `limit` most similar ones, best first."""
        block = self._block(space, model, len(vector))
        if not block.places:
            return []
        estimate, off = block.estimates(vector)
        if len(estimate) > limit:
            floor = np.partition(estimate - off, -limit)[-limit]
            candidates = block.ids[np.flatnonzero(estimate + off >= floor)]
        else:
            candidates = block.ids[: len(estimate)]
        return self._exact(candidates.tolist(), model, vector)[:limit]

    def _exact(self, ids: Iterable[int], model: str, vector: Vector) -> list[Neighbour]:
        found = []
        for number in ids:
            row = self._connection.execute(self._one, (number, model)).fetchone()
            other = np.frombuffer(row[0], dtype=np.float16)
            found.append(Neighbour(number, exact_cosine(vector, other)))
        return sorted(found, key=lambda one: (-one.similarity, one.id))

    def _block(self, space: int, model: str, dims: int) -> _Block:
        block = self._blocks.get((space, model))
        if block is None:
            block = self._blocks[space, model] = _Block(dims)
            cursor = self._connection.execute(self._every, (model, space))
            while rows := cursor.fetchmany(_CHUNK):
                packed = np.frombuffer(b"".join(blob for _, blob in rows), dtype=np.float16)
                block.extend([number for number, _ in rows], packed.reshape(len(rows), dims))
        return block
