"""On a full disk nothing dies: reads go on, writes are refused with a sentence, and everything
comes back by itself when there is room."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import stored
from tests.crash.process import ANSWER_WITHIN_S, Stdio, tail
from tests.faults import small_disk

SIZE_MB = 400
TAUGHT = "Squeeze eggs only very gently, their shells break under more than 3 N"
SAID = "Lesson {}: the clamp at station {} takes {} N"
MEANING = "delicate food needs a soft grasp"


class Disk:
    """A small disk of its own, which can be filled to the last page."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._ballast = place / "ballast"

    def fill(self, leave: int = 0) -> None:
        handle = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            with contextlib.suppress(OSError):
                while True:
                    os.write(handle, bytes(4096))
            if leave:
                os.ftruncate(handle, max(0, os.fstat(handle).st_size - leave))
        finally:
            os.close(handle)

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", SIZE_MB) as place:
        yield Disk(place)


@pytest.fixture
def data(disk: Disk, tmp_path: Path) -> Path:
    """A store on the small disk; what its processes say on stderr is elsewhere."""
    (tmp_path / "store.stderr").touch()
    (disk.place / "store.stderr").symlink_to(tmp_path / "store.stderr")
    return disk.place / "store"


def learn(client: Stdio, numbers: range) -> None:
    for number in numbers:
        told = {"insight": SAID.format(number, 7 * number, 3 * number), "collection": "kitchen"}
        assert client.call("learn", told).body["status"] == "created", tail(client.data)


def learn_until_refused(client: Stdio) -> str:
    """The sentence. Some may still find room in pages that are there already."""
    for number in range(1000):
        told = {"insight": SAID.format(number, number, 9 * number), "collection": "garage"}
        reply = client.call("learn", told)
        if reply.error is not None:
            return reply.error
    raise AssertionError("the disk is not full")


def mode(client: Stdio) -> str:
    """Of a recall, whose answer has the memory that its words lead to."""
    reply = client.call("recall", {"query": TAUGHT, "collection": "kitchen"})
    assert reply.error is None, f"{reply} {tail(client.data)}"
    assert reply.body["memories"][0]["content"] == TAUGHT
    found: str = reply.body["mode"]
    return found


def wait_for_meaning(client: Stdio) -> None:
    deadline = time.monotonic() + ANSWER_WITHIN_S
    while mode(client) != "hybrid":
        assert time.monotonic() < deadline, f"the vectors stay away: {tail(client.data)}"
        time.sleep(0.05)
    reply = client.call("recall", {"query": MEANING, "collection": "kitchen", "n": 1})
    assert [one["content"] for one in reply.body["memories"]] == [TAUGHT], reply


def test_a_disk_that_is_full_while_it_runs(disk: Disk, data: Path) -> None:
    with Stdio(data, model=None) as client:
        assert client.call("learn", {"insight": TAUGHT, "collection": "kitchen"}).error is None
        learn(client, range(10))
        wait_for_meaning(client)
        learn(client, range(10, 15))
        disk.fill()
        # By words as soon as there is something to put into the vectors' files.
        assert mode(client) in ("bm25_only", "hybrid")
        reply = client.call(
            "learn", {"insight": "There is no room for this", "collection": "kitchen"}
        )
        assert reply.error is not None or reply.body["status"] == "created", reply
        assert mode(client) in ("bm25_only", "hybrid")
        assert client.process.poll() is None
        disk.free()
        wait_for_meaning(client)
        learn(client, range(20, 25))
        wait_for_meaning(client)
        assert client.finish() == 0
    assert stored.check_rebuild(data, model=None)


def test_a_store_that_is_opened_on_a_nearly_full_disk(disk: Disk, data: Path) -> None:
    """The log and the state have what they need; the vectors do not."""
    with Stdio(data, model=None) as client:
        assert client.call("learn", {"insight": TAUGHT, "collection": "kitchen"}).error is None
        learn(client, range(5))
        assert client.finish() == 0
    disk.fill(leave=8 * 1024 * 1024)
    with Stdio(data, model=None) as client:
        assert mode(client) == "bm25_only"
        learn(client, range(5, 10))
        assert mode(client) == "bm25_only"
        disk.free()
        wait_for_meaning(client)
        assert client.finish() == 0
    assert stored.check_rebuild(data, model=None)


@pytest.mark.parametrize("leave_mb", [0, 4, 40])
def test_a_rebuild_on_a_full_disk(disk: Disk, data: Path, leave_mb: int) -> None:
    with Stdio(data, model=None) as client:
        assert client.call("learn", {"insight": TAUGHT, "collection": "kitchen"}).error is None
        assert client.finish() == 0
    disk.fill(leave=leave_mb * 1024 * 1024)
    told = stored.run(data, "rebuild", model=None)
    assert told.code == 1, f"{told.out} {told.err}"
    assert "full" in told.err or "space" in told.err, told.err
    assert "Traceback" not in told.err, told.err
    assert not (data / "projections.new").exists(), "what was not finished takes room"
    disk.free()
    told = stored.run(data, "rebuild", model=None)
    assert told.code == 0, told.err
    with Stdio(data, model=None) as client:
        wait_for_meaning(client)
        assert client.finish() == 0
