"""The embedded log keeps the contract, and what is its own: durable, atomic, one file."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mnemolog.events.log import Ends, Log, LogError
from mnemolog.infra.log.sqlite import SqliteLog
from tests.contract.log_contract import (
    PARTITIONS,
    LogContract,
    Opened,
    numbered,
    records,
    run,
)

ROOT = Path(__file__).parents[2]
ROUNDS = 8


class TestSqliteLog(LogContract):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opened:
        async def opened(partitions: int | None = PARTITIONS) -> Log:
            return SqliteLog(tmp_path / "log.db", partitions)

        return opened


# --- one transaction for calls and decisions -----------------------------------------------------


def test_calls_and_decisions_are_appended_together(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    assert log.append(0, records("a", "b"), records("A", "B")) == (0, 0)
    assert log.append(0, (), records("C")) == (2, 2)
    assert log.append(0, records("c"), ()) == (2, 3)
    assert log.calls(0, 0, 10) == numbered(0, "a", "b", "c")
    assert log.decisions(0, 0, 10) == numbered(0, "A", "B", "C")
    assert log.end(0) == Ends(3, 3)
    log.shut()


def test_what_cannot_be_written_is_not_written_in_part(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    log.append(0, records("a"), records("A"))
    wrong: list[tuple[str, bytes]] = [("space", None)]  # type: ignore[list-item]
    with pytest.raises(LogError, match="The log could not be written"):
        log.append(0, records("b"), wrong)
    assert log.end(0) == Ends(1, 1)
    assert log.append(0, records("c"), records("C")) == (1, 1)
    assert log.calls(0, 0, 10) == numbered(0, "a", "c")
    log.shut()


def test_killed_in_the_middle_both_or_none_are_there(tmp_path: Path) -> None:
    """And everything that an append returned for."""
    path = tmp_path / "log.db"
    chance = random.Random()
    written = 0
    for turn in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(path)], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        promised = int(child.stdout.readline())
        time.sleep(chance.uniform(0, 0.15))
        child.kill()
        lines = child.stdout.read().splitlines(keepends=True)
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
        promised = max([promised, *(int(one) for one in lines if one.endswith(b"\n"))])

        log = SqliteLog(path)
        end = log.end(0)
        calls, decisions = log.calls(0, written, 10**9), log.decisions(0, written, 10**9)
        log.shut()
        assert end.calls == end.decisions == written + len(calls), f"round {turn}"
        assert end.calls >= promised, "what an append returned for is there"
        assert [one.offset for one in calls] == list(range(written, end.calls))
        for call, decision in zip(calls, decisions, strict=True):
            assert call.data.replace(b"call", b"decision") == decision.data
        # Whole appends only: each says how many records it has, and has them.
        batches: dict[bytes, int] = {}
        for one in calls:
            name, size, _ = one.data.split(b" ", 2)
            batches[name + b" " + size] = batches.get(name + b" " + size, 0) + 1
        assert all(int(key.split(b" ")[1]) == count for key, count in batches.items())
        written = end.calls
    assert written > 0


# --- how it is kept ------------------------------------------------------------------------------


def test_every_commit_is_flushed_and_readers_never_wait(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    assert log._writer.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    assert log._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    log.shut()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_second_reader_sees_what_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    reader = SqliteLog(path, read_only=True)
    assert reader.end(0) == Ends(0, 0)
    log.append(0, records("a"), records("A"))
    assert reader.end(0) == Ends(1, 1)
    assert reader.calls(0, 0, 10) == numbered(0, "a")
    reader.shut()
    log.shut()


@pytest.mark.parametrize("name", ["with space", "per%20cent", "hash#tag", "what?mode=ro", "杯子"])
def test_any_name_of_a_folder_will_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "log.db"
    log = SqliteLog(path)
    log.append(0, records("a"), ())
    log.shut()
    assert path.is_file()
    assert [one.name for one in tmp_path.iterdir()] == [name]
    log = SqliteLog(path, read_only=True)
    assert log.calls(0, 0, 1) == numbered(0, "a")
    log.shut()


# --- read only -----------------------------------------------------------------------------------


def test_read_only_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path, 2)
    log.append(1, records("a"), records("A"))
    log.shut()
    reader = SqliteLog(path, read_only=True)
    with pytest.raises(LogError, match="closed for writing"):
        reader.append(1, records("b"), ())
    with pytest.raises(LogError, match="closed for writing"):
        run(reader.append_calls(1, records("b")))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._reader().execute("DELETE FROM calls")
    assert reader.partitions == 2
    assert reader.end(1) == Ends(1, 1)
    reader.shut()


def test_read_only_makes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log.db"
    with pytest.raises(LogError, match="There is no log at"):
        SqliteLog(path, read_only=True)
    assert list(tmp_path.iterdir()) == []


# --- files that are no log of ours ---------------------------------------------------------------


def sqlite_of_somebody(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_database(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "log.db"
    content = b"Dear diary, today the gripper slipped again.\n" * 100
    path.write_bytes(content)
    with pytest.raises(LogError, match=r"log\.db is not a mnemolog log"):
        SqliteLog(path, read_only=read_only)
    assert path.read_bytes() == content


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE recipes (name TEXT)",
        "CREATE TABLE log (key TEXT PRIMARY KEY, value TEXT)",
        "CREATE TABLE log (line TEXT)",
    ],
)
def test_somebody_elses_database_is_left_alone(
    tmp_path: Path, statement: str, read_only: bool
) -> None:
    path = tmp_path / "log.db"
    sqlite_of_somebody(path, statement)
    content = path.read_bytes()
    with pytest.raises(LogError, match=r"log\.db is not a mnemolog log"):
        SqliteLog(path, read_only=read_only)
    assert path.read_bytes() == content


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "log.db").mkdir()
    with pytest.raises(LogError, match=r"log\.db cannot be opened as a log"):
        SqliteLog(tmp_path / "log.db")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_log_of_a_newer_format_asks_for_an_upgrade(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "log.db"
    SqliteLog(path).shut()
    sqlite_of_somebody(path, "UPDATE log SET value = '2' WHERE key = 'format'")
    with pytest.raises(LogError, match="has format 2, this version reads 1: upgrade"):
        SqliteLog(path, read_only=read_only)


async def _open(path: Path, *, read_only: bool = False) -> Log:
    return SqliteLog(path, read_only=read_only)


def _append_until_killed(path: Path) -> None:
    """Appends of one to seven pairs; after each, the number of calls that are durable."""
    log = SqliteLog(path)
    chance = random.Random()
    while True:
        size = chance.randint(1, 7)
        name = f"{chance.getrandbits(64):x} {size}"
        calls = records(*(f"{name} call {i} {'x' * chance.randint(0, 3000)}" for i in range(size)))
        decisions = [(space, data.replace(b"call", b"decision")) for space, data in calls]
        first, _ = log.append(0, calls, decisions)
        sys.stdout.write(f"{first + size}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _append_until_killed(Path(sys.argv[1]))
