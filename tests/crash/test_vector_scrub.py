"""Bits of the vectors' files that turned over are noticed though nobody searches there, and healed;
and nothing else is taken for that: no kill, no write, no rebuild, no full disk."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.crash import stored
from tests.crash.process import ANSWER_WITHIN_S, Stdio, environment, stderr_of, tail
from tests.crash.scrubbed import Found
from tests.crash.test_damaged_files import flip, killed, whole
from tests.faults import failing

__all__ = ["killed", "whole"]

Before = tuple[Path, object]
Right = Callable[[Before], dict[str, str]]
ROOT = Path(__file__).resolve().parents[2]
BULK = {
    "vectors": "shard/segments/*/vector_storage/vectors/chunk_0.mmap",
    "codes": "shard/segments/*/vector_storage/quantized_data/chunk_0.mmap",
    "payloads": "shard/segments/*/payload_storage/page_0.dat",
}
CHOSEN = 3
KILLS = 3


def process(data: Path, what: str) -> subprocess.Popen[bytes]:
    with stderr_of(data).open("ab") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.scrubbed", str(data), what],
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=ROOT,
            env=environment(None),
        )


def scrubbed(data: Path) -> Found:
    """What there is once the vectors were read through and were right."""
    with process(data, "check") as running:
        try:
            out, _ = running.communicate(timeout=ANSWER_WITHIN_S)
        finally:
            running.kill()
    assert running.returncode == 0, tail(data)
    assert "Traceback" not in stderr_of(data).read_text(), tail(data)
    return msgspec.json.decode(out, type=Found)


def copy(before: Before, data: Path) -> None:
    subprocess.run(["cp", "-a", "--sparse=always", before[0], data], check=True)
    (data / "socket").unlink(missing_ok=True)


def files(data: Path, pattern: str = "**/*") -> list[Path]:
    found = (data / "projections" / "vectors").glob(f"*/{pattern}")
    return sorted(path.relative_to(data) for path in found if path.is_file())


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Right:
    """What the vectors of a store are, by a rebuild too, whether it was closed or killed: nothing
    is told of it."""
    known: dict[Path, dict[str, str]] = {}

    def of(before: Before) -> dict[str, str]:
        if before[0] not in known:
            data = tmp_path_factory.mktemp("right") / "store"
            copy(before, data)
            found = scrubbed(data)
            assert found.told == [] and found.mode == "hybrid"
            stored.check_rebuild(data, model=None)
            known[before[0]] = found.vectors
        return known[before[0]]

    return of


@pytest.fixture(params=["whole", "killed"])
def before(request: pytest.FixtureRequest) -> Before:
    """A store that was closed, or whose process was killed."""
    found: Before = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("part", BULK)
def test_a_bit_that_turned_over_is_found_and_healed(
    before: Before, right: Right, data: Path, chance: Random, part: str
) -> None:
    copy(before, data)
    (path,) = files(data, BULK[part])
    if part == "payloads":
        turn_in_a_payload(data / path)
    else:
        flip(data / path, chance)
    found = scrubbed(data)
    assert any("does not hold what the log says" in one for one in found.told), found
    assert (found.vectors, found.mode) == (right(before), "hybrid")


def turn_in_a_payload(path: Path) -> None:
    """In the name of a space, which no search can do without."""
    data = path.read_bytes()
    at = data.index(b"robot/kitchen")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 1]))


def check_files(
    before: Before, right: Right, data: Path, chance: Random, chosen: list[Path]
) -> None:
    """What a bit matters to is as it was: found by the first reading, if not at the start."""
    for number, path in enumerate(chosen):
        one = data.with_name(f"store-{number}")
        copy(before, one)
        flip(one / path, chance)
        found = scrubbed(one)
        assert (found.vectors, found.mode) == (right(before), "hybrid"), f"{path}: {found}"
        subprocess.run(["rm", "-r", one], check=True)


def test_a_bit_of_any_file_costs_nothing(
    before: Before, right: Right, data: Path, chance: Random
) -> None:
    check_files(before, right, data, chance, chance.sample(files(before[0]), CHOSEN))


@pytest.mark.faults
def test_a_bit_of_every_file_costs_nothing(
    before: Before, right: Right, data: Path, chance: Random
) -> None:
    check_files(before, right, data, chance, files(before[0]))


def test_a_kill_is_not_taken_for_damage(whole: Before, data: Path, chance: Random) -> None:
    """At any time while it writes, and reads all of it through without a rest."""
    copy(whole, data)
    passes = 0
    for _ in range(KILLS):
        with process(data, "write") as running:
            assert running.stdout is not None
            for _ in range(chance.randrange(5, 25)):
                line = running.stdout.readline()
                assert line, tail(data)
                passes += int(msgspec.json.decode(line, type=Found).mode)
            running.kill()
        assert "given up" not in stderr_of(data).read_text(), tail(data)
    assert passes, "nothing was read through while it wrote"
    assert scrubbed(data).told == []
    stored.check_rebuild(data, model=None)


def test_what_the_disk_does_not_give_back_is_made_anew(whole: Before, data: Path) -> None:
    """It is read in a way in which that is an error, and not the end of the process."""
    copy(whole, data)
    (path,) = files(data, BULK["codes"])
    with Stdio(data, model=None) as client:
        assert client.call("recall", {"query": "clamp", "collection": "kitchen"}).error is None
        with failing(client.pid, "EIO", "read", files=(data / path,)):
            wait_until_told(data, "cannot be read")
        wait_until_told(data, "the indexes were made anew")
        reply = client.call("recall", {"query": "clamp", "collection": "kitchen"})
        assert reply.body["mode"] == "hybrid", reply
        assert client.finish() == 0
    stored.check_rebuild(data, model=None)


def wait_until_told(data: Path, words: str) -> None:
    deadline = time.monotonic() + ANSWER_WITHIN_S
    while words not in stderr_of(data).read_text():
        assert time.monotonic() < deadline, tail(data)
        time.sleep(0.05)
