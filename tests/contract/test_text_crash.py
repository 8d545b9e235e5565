"""A text index that is killed at any moment loses nothing that its checkpoint says it has."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from mnemolog.projections.ports import PutText, Remove, TextChange, TextIndex
from mnemolog.projections.text.index import TantivyText
from mnemolog.projections.text.store import Checkpoint, Document, Store, query

ROOT = Path(__file__).parents[2]
PARTITIONS = 2
ROUNDS = 10
DECISIONS_PER_ROUND = 150
"""In each partition: more than a child gets done before it is killed."""

SEGMENTS = 8
"""So many small segments Tantivy merges."""


def decision(partition: int, offset: int) -> list[TextChange]:
    """The changes of an offset, the same whenever it is asked for."""
    chance = random.Random(partition * 1_000_000 + offset)
    changes: list[TextChange] = []
    for _ in range(chance.choice((0, 1, 1, 1, 2, 5))):
        space = f"lab/{partition}-{chance.randint(0, 1)}"
        id = chance.randint(1, 120)
        if chance.random() < 0.25:
            changes.append(Remove(space, id))
        else:
            words = " ".join(f"w{chance.randint(0, 50)}" for _ in range(chance.randint(1, 12)))
            changes.append(PutText(space, id, words, f"s{id % 3}", chance.random()))
    return changes


def feed(index: TextIndex, end: int, *, commit_every: int | None = None) -> None:
    """Bring every partition from its checkpoint to just before offset `end`, turn by turn."""
    starts = [index.checkpoint(partition) + 1 for partition in range(PARTITIONS)]
    for offset in range(min(starts), end):
        for partition in range(PARTITIONS):
            if offset >= starts[partition]:
                index.apply(partition, offset, decision(partition, offset))
        if commit_every and offset % commit_every == 0:
            index.commit()


def write_and_end_before_merging(path: Path) -> None:
    """As many commits as make Tantivy merge, and the end of the process right after the last."""
    store = Store.open(path)
    for n in range(1, SEGMENTS + 1):
        documents = {id: Document(id, f"w{id} cup", None, 0.5) for id in (n, 100 + n, 200 + n)}
        store, writer = store.write(Checkpoint("lab", 0, n, 300), documents)
        if n == SEGMENTS:
            os._exit(0)
        writer.wait_merging_threads()


def test_what_is_replaced_while_a_broken_off_merge_is_made_up_for_is_gone(tmp_path: Path) -> None:
    for attempt in range(50):
        path = tmp_path / str(attempt)
        command = [sys.executable, "-m", __spec__.name, "unmerged", str(path)]
        subprocess.run(command, cwd=ROOT, check=True)
        segments = msgspec.json.decode((path / "meta.json").read_bytes())["segments"]
        if len(segments) == SEGMENTS:
            break
    assert len(segments) == SEGMENTS, "the merge was always faster"
    for id in range(1, SEGMENTS + 1):
        copy = Path(shutil.copytree(path, tmp_path / f"replace {id}"))
        new = {id: Document(id, "other", None, 0.5), 101: None}
        store, writer = Store.open(copy).write(Checkpoint("lab", 0, 50, 300), new)
        writer.wait_merging_threads()
        merged = Store.open(copy)
        assert merged.digest() == store.digest()
        for stem, found in ((f"w{id}", []), ("other", [id])):
            hits = merged.top(query({stem: 1.0}, None, None), 5)
            assert merged.ids([address for _, address in hits]) == found


def test_killed_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random()
    path = tmp_path / "text"
    straight = TantivyText(tmp_path / "straight")
    reached = -1
    kills = 0
    for turn in range(1, ROUNDS + 1):
        end = turn * DECISIONS_PER_ROUND
        child = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(path), str(end)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"feeding\n"
        time.sleep(chance.uniform(0, 0.6))
        child.kill()
        assert child.wait() in (0, -signal.SIGKILL)
        kills += child.returncode == -signal.SIGKILL
        child.stdout.close()

        index = TantivyText(path, commit_at=8)
        positions = [index.checkpoint(partition) for partition in range(PARTITIONS)]
        assert min(positions) >= reached, "what was durable stays durable"
        feed(index, end)
        feed(straight, end)
        assert index.digest() == straight.digest(), f"round {turn}, from {positions}"
        index.close()
        reached = end - 1
    straight.close()
    assert kills > 0, "every child finished before its kill: feed more decisions"

    anew = TantivyText(tmp_path / "anew")
    feed(anew, ROUNDS * DECISIONS_PER_ROUND)
    again = TantivyText(path)
    assert anew.digest() == again.digest()
    assert len(anew.digest()) == PARTITIONS * 2
    again.close()
    anew.close()


if __name__ == "__main__":
    if sys.argv[1] == "unmerged":
        write_and_end_before_merging(Path(sys.argv[2]))
    victim = TantivyText(Path(sys.argv[1]), commit_at=8)
    sys.stdout.write("feeding\n")
    sys.stdout.flush()
    feed(victim, int(sys.argv[2]), commit_every=5)
    victim.close()
