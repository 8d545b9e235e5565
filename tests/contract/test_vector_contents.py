"""The vector index's digest: the points that a search finds, by way of all that a search reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mnemolog.projections.ports import Hit, PutVector
from mnemolog.projections.vectors.edge import UNREADABLE, EdgeVectors

DIMS = 32
SPACE = "lab/arm"
VECTORS = np.random.default_rng(1).standard_normal((300, DIMS)).astype(np.float16)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An index of one space with sessions and confidences, closed."""
    index = open_index(tmp_path)
    for id, vector in enumerate(VECTORS):
        index.apply(0, id, [PutVector(SPACE, id, 1, vector, f"s{id % 2}", 0.6 + id % 3 / 10)])
    assert list(index.digest()) == [SPACE]
    index.close()
    return tmp_path


def open_index(directory: Path) -> EdgeVectors:
    return EdgeVectors(directory, DIMS, "test-model")


def search(index: EdgeVectors, session: str | None, min_confidence: float | None) -> list[Hit]:
    return index.search(SPACE, VECTORS[0], 50, session=session, min_confidence=min_confidence)


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def lose(directory: Path, pattern: str, how: Callable[[Path], object]) -> None:
    found = list(directory.glob(f"shard/segments/*/{pattern}"))
    assert found, f"there is no {pattern}"
    for path in found:
        how(path)


@pytest.mark.parametrize(
    ("field", "session", "min_confidence"),
    [("space-map", None, None), ("session-map", "s0", None), ("confiden-numeric", None, 0.65)],
)
def test_points_that_a_condition_does_not_find_are_not_there(
    directory: Path, field: str, session: str | None, min_confidence: float | None
) -> None:
    lose(directory, f"payload_index/*-{field}/tracker_journal.dat", Path.unlink)
    lose(directory, f"payload_index/*-{field}/tracker.dat", zero)
    index = open_index(directory)
    assert search(index, session, min_confidence) == []
    assert index.digest() == {}
    index.close()


@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        ("vector_storage/vectors", shutil.rmtree),
        ("vector_storage/vectors/chunk_0.mmap", zero),
        ("vector_storage/quantized_data/chunk_0.mmap", zero),
        ("payload_storage", shutil.rmtree),
        ("mutable_id_tracker.mappings", Path.unlink),
    ],
)
def test_points_that_lost_a_part_are_not_there(
    directory: Path, pattern: str, how: Callable[[Path], object]
) -> None:
    lose(directory, pattern, how)
    index = open_index(directory)
    assert index.digest() == {}
    index.close()


def test_what_cannot_be_read_is_told(directory: Path) -> None:
    lose(directory, "vector_storage/quantized_data", shutil.rmtree)
    index = open_index(directory)
    assert list(index.digest()) == [UNREADABLE]
    index.close()


def test_bits_of_a_code_are_in_the_digest(directory: Path) -> None:
    index = open_index(directory)
    before = index.digest()
    index.close()
    lose(directory, "vector_storage/quantized_data/chunk_0.mmap", flip_some_bits)
    index = open_index(directory)
    assert index.digest().keys() == before.keys()
    assert index.digest() != before
    index.close()


def flip_some_bits(file: Path) -> None:
    data = bytearray(file.read_bytes())
    middle = len(data.rstrip(b"\0")) // 2
    for at in range(middle, middle + 8):
        data[at] ^= 16
    file.write_bytes(data)
