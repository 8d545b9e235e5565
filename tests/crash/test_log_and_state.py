"""A log and the projections beside it belong together, or nothing is decided: the service refuses,
says what it found, and what it advises loses nothing."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.e2e.conftest import StdioClient, run

LEARNED = 12


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with some memories, closed in good order. Tests work on copies."""
    return filled(tmp_path_factory.mktemp("belongs") / "store", "cup")


def filled(data: Path, word: str) -> Path:
    client = StdioClient(data, "--model", "none")
    try:
        client.initialize()
        for number in range(LEARNED):
            reply = client.ok("learn", {"insight": f"{word} number {number} slips at {number} N"})
            assert reply["memory_id"] == number + 1
    finally:
        client.close()
    return data


@pytest.fixture
def data(store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store, tmp_path / "data", ignore=shutil.ignore_patterns("socket")))


def cut_off(data: Path, decisions: int, calls: int) -> None:
    """As if the end of the log had never become durable."""
    connection = sqlite3.connect(data / "log.db")
    for table, count in (("decisions", decisions), ("calls", calls)):
        (end,) = connection.execute(f"SELECT max(offset) FROM {table}").fetchone()
        connection.execute(f"DELETE FROM {table} WHERE offset > ?", (end - count,))
    connection.commit()
    connection.close()


def contents(data: Path) -> dict[str, list[tuple[bytes, ...]]]:
    connection = sqlite3.connect(data / "log.db")
    found = {
        table: connection.execute(f"SELECT data FROM {table} ORDER BY offset").fetchall()
        for table in ("calls", "decisions")
    }
    connection.close()
    return found


def refusal(data: Path) -> str:
    told = run("call", "learn", '{"insight": "a new one"}', "--data", str(data))
    assert told.returncode == 1, told.stdout
    return told.stderr


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOLOG_MODEL", "none")


def recalled(data: Path) -> list[str]:
    told = run("call", "recall", '{"query": "cup", "n": 50}', "--json", "--data", str(data))
    assert told.returncode == 0, told.stderr
    return sorted(one["content"] for one in json.loads(told.stdout)["memories"])


@pytest.mark.parametrize(
    ("decisions", "calls"), [(1, 1), (3, 3), (1, 0), (LEARNED, LEARNED)], ids=str
)
def test_a_log_that_lost_its_end_is_not_decided_on(data: Path, decisions: int, calls: int) -> None:
    everything = recalled(data)
    assert len(everything) == LEARNED
    cut_off(data, decisions + 1, calls + 1)  # The recall's record is the last.
    before = contents(data)
    told = refusal(data)
    assert "the log has lost its end, or is another one" in told
    assert "mnemolog rebuild --accept-log" in told
    assert contents(data) == before

    refused = run("rebuild", "--data", str(data))
    assert refused.returncode == 1
    assert "--accept-log" in refused.stderr
    assert (data / "projections").is_dir()

    taken = run("rebuild", "--accept-log", "--data", str(data))
    assert taken.returncode == 0, taken.stderr
    assert contents(data) == before
    assert len(recalled(data)) == LEARNED - decisions + (1 if calls < decisions else 0)
    kept = data.with_name("kept")
    kept.mkdir()
    (data / "projections.kept").rename(kept / "projections")
    states = list((kept / "projections" / "state").glob("*.db"))
    connection = sqlite3.connect(states[0])
    assert connection.execute("SELECT count(*) FROM memory").fetchone() == (LEARNED,)
    connection.close()


def test_another_stores_log_is_not_written_to(data: Path, tmp_path: Path) -> None:
    other = filled(tmp_path / "other", "pan")
    run("call", "learn", '{"insight": "one more pan"}', "--data", str(other))
    for path in data.glob("log.db*"):
        path.unlink()
    shutil.copy(other / "log.db", data / "log.db")
    before = contents(data)
    told = refusal(data)
    assert "is not the one that the state was made from" in told
    assert contents(data) == before


def test_no_log_is_made_beside_projections_that_have_something(data: Path) -> None:
    for path in data.glob("log.db*"):
        path.unlink()
    told = refusal(data)
    assert f"There is no log at {data / 'log.db'}, but projections" in told
    assert "Put the log back from a backup" in told
    assert not (data / "log.db").exists()
    assert run("rebuild", "--data", str(data)).returncode == 1
    shutil.move(data / "projections", data / "elsewhere")
    begun = run("call", "learn", '{"insight": "a new one"}', "--json", "--data", str(data))
    assert json.loads(begun.stdout)["memory_id"] == 1
