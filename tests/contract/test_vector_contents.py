"""The vector index's digest: the points that a search finds, by way of all that a search reads."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from mnemolog.projections.ports import Hit, PutVector, Remove, VectorChange
from mnemolog.projections.vectors import expected
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


def rows(index: EdgeVectors) -> dict[UUID, bytes | None]:
    found, after = index.rows(None, 7)
    while after is not None:
        more, after = index.rows(after, 7)
        found |= more
    return found


def test_every_bit_of_a_code_shows(tmp_path: Path) -> None:
    with closing(open_index(tmp_path)) as index:
        for id, vector in enumerate(VECTORS[:3]):
            index.apply(0, id, [PutVector(SPACE, id, 1, vector)])
        index.commit()
        before = rows(index)
        (path,) = tmp_path.glob("shard/segments/*/vector_storage/quantized_data/chunk_0.mmap")
        # Four bits a number, a scale, and four bytes that nobody reads.
        code, step = DIMS // 2 + 4, DIMS // 2 + 8
        assert len(path.read_bytes().rstrip(b"\0")) in range(2 * step + 1, 3 * step)
        handle = os.open(path, os.O_RDWR)
        for at in range(step, step + code):
            (old,) = os.pread(handle, 1, at)
            for bit in range(8):
                os.pwrite(handle, bytes([old ^ 1 << bit]), at)
                assert rows(index) != before, f"bit {bit} of byte {at}"
            os.pwrite(handle, bytes([old]), at)
        os.close(handle)
        assert rows(index) == before


def test_what_is_expected_is_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the numbers are, and however often a point was changed."""
    monkeypatch.setattr(expected, "MOST", 500)
    dice = random.Random(1)
    with (
        closing(open_index(tmp_path)) as index,
        closing(expected.Expected(tmp_path, DIMS)) as due,
    ):
        for offset in range(2_000):
            space, id = f"lab/{dice.randrange(3)}", dice.randrange(400)
            session = dice.choice([None, "morning"])
            vector = VECTORS[dice.randrange(len(VECTORS))] * np.float16(dice.choice([1, 100]))
            change: VectorChange = PutVector(space, id, offset, vector, session, dice.random())
            if dice.random() < 0.3:
                change = Remove(space, id)
            index.apply(0, offset, [change])
            if due.take(change):
                due.settle()
        due.settle()
        with index.watched() as (applied, changed):
            assert rows(index) == due.rows
            assert None not in due.rows.values()
            index.apply(0, 2_000, [Remove("lab/0", 1)])
            assert (applied, len(changed)) == ({0: 1_999}, 1)
        assert [path.name for path in tmp_path.glob("beside")] == ["beside"]
    assert not list(tmp_path.glob("beside"))
