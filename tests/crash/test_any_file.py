"""Any file of a data directory is cut, flipped, removed, or replaced by an older copy of itself,
then the directory is served: either every acknowledged write is there under its id, and a new one
works, or the service refuses, and what it advises works. Nothing in between."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import stored
from tests.crash.process import Gone, Reply, Stdio, stderr_of

EARLY, LATE = 14, 30
SEED = int(os.environ.get("CRASH_SEED") or random.SystemRandom().randrange(2**32))
PER_RUN = 16
"""Of all cases, by chance, whenever the tests run; all of them in the long run."""

Memories = dict[int, str]


class Stores:
    """The same store twice: some time ago, and now, each closed in good order or killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.memories: Memories = {}
        for name, closed in (("closed", True), ("killed", False)):
            self._fill(directory / f"{name}-early", range(EARLY), closed)
            shutil.copytree(directory / f"{name}-early", directory / name, ignore=_sockets)
            self._fill(directory / name, range(EARLY, LATE), closed)

    def _fill(self, data: Path, numbers: range, closed: bool) -> None:
        with Stdio(data) as client:
            for number in numbers:
                text = f"cup {number} slips when {number * 7} drops fall on it"
                reply = client.call("learn", {"insight": text})
                assert reply.body["memory_id"] == number + 1, reply
                self.memories[number + 1] = text
            if closed:
                assert client.finish() == 0
            else:
                client.kill()
                client.process.wait()

    def files(self, name: str) -> list[Path]:
        found = (self.directory / name).rglob("*")
        return sorted(one.relative_to(self.directory / name) for one in found if one.is_file())


def _sockets(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "socket"]


def cut_one_byte(file: Path, older: Path) -> None:
    os.truncate(file, max(0, file.stat().st_size - 1))


def cut_in_half(file: Path, older: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip(file: Path, older: Path) -> None:
    """A bit at each of five places, by chance but the same each time."""
    found, chance = bytearray(file.read_bytes()), random.Random(f"{SEED} {file.name}")
    for _ in range(5 if found else 0):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    file.write_bytes(found)


def remove(file: Path, older: Path) -> None:
    file.unlink()


def put_back(file: Path, older: Path) -> None:
    if older.exists():
        shutil.copy(older, file)


FAULTS: list[Callable[[Path, Path], None]] = [cut_one_byte, cut_in_half, flip, remove, put_back]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("any-file"))


def try_out(stores: Stores, name: str, file: Path, fault: Callable[[Path, Path], None]) -> None:
    case = f"{name} {file} {fault.__name__} (repeat with CRASH_SEED={SEED})"
    data = stores.directory / "tried" / name
    shutil.rmtree(data.parent, ignore_errors=True)
    shutil.copytree(stores.directory / name, data, ignore=_sockets)
    fault(data / file, stores.directory / f"{name}-early" / file)
    refused = holds(stores, data, case)
    if refused is None:
        return
    assert "backup" in refused or "`mnemolog rebuild`" in refused, f"{case}: {refused}"
    if "backup" in refused:
        for path in data.glob("log.db*"):
            path.unlink()
        for path in (stores.directory / name).glob("log.db*"):
            shutil.copy(path, data / path.name)
    else:
        told = stored.run(data, "rebuild")
        assert told.code == 0, f"{case}: {told.err}"
    assert holds(stores, data, case) is None, case


def holds(stores: Stores, data: Path, case: str) -> str | None:
    """That everything is there and a new one works; or the sentence that it is refused with."""
    with Stdio(data) as client:
        try:
            found = client.call("recall", {"query": "cup slips drops", "n": 100})
            if found.refused or found.error:
                return _sentence(found)
            there = {one["id"]: one["content"] for one in found.body["memories"]}
            assert there == stores.memories, f"{case}: {stderr_of(data).read_text()}"
            new = client.call("learn", {"insight": "a pan stays hot for long"})
            if new.refused or new.error:
                return _sentence(new)
            assert new.body["memory_id"] == LATE + 1, case
        except Gone:
            return stderr_of(data).read_text()
        return None


def _sentence(reply: Reply) -> str:
    return reply.error or str(reply.body)


def test_some_files_by_chance(stores: Stores) -> None:
    cases = [
        (name, file, fault)
        for name in ("closed", "killed")
        for file in stores.files(name)
        for fault in FAULTS
    ]
    for case in random.Random(SEED).sample(cases, PER_RUN):
        try_out(stores, *case)


@pytest.mark.faults
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["closed", "killed"])
def test_every_file(stores: Stores, name: str, fault: Callable[[Path, Path], None]) -> None:
    for file in stores.files(name):
        try_out(stores, name, file, fault)
