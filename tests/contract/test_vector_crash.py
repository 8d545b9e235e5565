"""Kill the process that feeds a vector index, open what is left, feed on: the same contents."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mnemolog.projections.ports import Hit, PutVector, Remove, VectorChange
from mnemolog.projections.vectors.edge import EdgeVectors

ROOT = Path(__file__).resolve().parents[2]
DIMS = 32
DECISIONS = 6_000
ROUNDS = 10
PATIENCE_S = 240
"""How long a test waits for a process before it fails; nothing is measured by it."""

Contents = tuple[dict[str, str], list[list[Hit]]]


def decisions() -> Iterator[tuple[int, list[VectorChange]]]:
    """A log with inserts, replacements that move a point, removals, and decisions of nothing.

    Ids come from a small range, so that nearly every change meets an older one of the same id.
    """
    dice = random.Random(1)
    vectors = np.random.default_rng(1).standard_normal((DECISIONS, DIMS)).astype(np.float16)
    for offset in range(DECISIONS):
        space, id = f"acme/{dice.randrange(3)}", dice.randrange(1, 500)
        fate = dice.random()
        if fate < 0.1:
            yield offset, []
        elif fate < 0.3:
            yield offset, [Remove(space, id)]
        else:
            session = dice.choice([None, "morning", "evening"])
            put = PutVector(space, id, offset, vectors[offset], session, round(dice.random(), 2))
            yield offset, [put, Remove(space, id + 1)] if fate < 0.4 else [put]


def feed(index: EdgeVectors, commit_every: int = DECISIONS, pause_s: float = 0.0) -> None:
    """Feed what is missing, with searches and commits at uneven steps."""
    done = index.checkpoint(0)
    for offset, changes in decisions():
        if offset <= done:
            continue
        index.apply(0, offset, changes)
        if offset % 23 == 0:
            index.search("acme/1", np.ones(DIMS, np.float16), 5)
            time.sleep(pause_s)
        if offset % commit_every == 0:
            index.commit()


def open_index(directory: Path) -> EdgeVectors:
    return EdgeVectors(directory, DIMS, "test-model")


def contents(index: EdgeVectors) -> Contents:
    """What is stored, and what is found: the codes that searches scan are stored apart."""
    queries = np.random.default_rng(2).standard_normal((30, DIMS)).astype(np.float16)
    return index.digest(), [index.search(f"acme/{n % 3}", q, 10) for n, q in enumerate(queries)]


@pytest.fixture(scope="module")
def untroubled(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The contents of an index that was fed in one go."""
    index = open_index(tmp_path_factory.mktemp("untroubled"))
    feed(index)
    expected = contents(index)
    index.close()
    assert len(expected[0]) == 3
    assert all(len(hits) == 10 for hits in expected[1])
    return expected


def test_killed_again_and_again_it_ends_as_if_nothing_had_been(
    tmp_path: Path, untroubled: Contents
) -> None:
    dice = random.Random(os.urandom(8))
    reached = -1
    kills = 0
    for _ in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.test_vector_crash", str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None and child.stderr is not None
        first_line = child.stdout.readline()
        assert first_line == "feeding\n", child.stderr.read()
        time.sleep(dice.uniform(0.0, 0.4))
        child.send_signal(signal.SIGKILL)
        _, errors = child.communicate(timeout=PATIENCE_S)
        kills += child.returncode == -signal.SIGKILL
        assert child.returncode in (0, -signal.SIGKILL), errors

        left = open_index(tmp_path)
        assert left.checkpoint(0) >= reached, "a checkpoint went backwards"
        reached = left.checkpoint(0)
        left.close()
    assert kills > 0, "every child finished before its kill: feed more decisions"

    final = open_index(tmp_path)
    feed(final)
    assert contents(final) == untroubled
    final.close()
    again = open_index(tmp_path)
    assert again.checkpoint(0) == DECISIONS - 1
    assert contents(again) == untroubled
    again.close()


def test_the_lock_of_a_killed_opener_is_free(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.contract.test_vector_crash", str(tmp_path)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "feeding\n"
    with pytest.raises(BlockingIOError, match="already open"):
        open_index(tmp_path)
    child.kill()
    child.communicate(timeout=PATIENCE_S)
    open_index(tmp_path).close()


if __name__ == "__main__":
    victim = open_index(Path(sys.argv[1]))
    sys.stdout.write("feeding\n")
    sys.stdout.flush()
    feed(victim, commit_every=211, pause_s=0.001)
    victim.close()
