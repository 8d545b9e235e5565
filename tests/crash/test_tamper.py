"""`mnemolog audit verify` notices whatever is done to the log behind the service's back."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.crash import stored
from tests.crash.process import Stdio
from tests.crash.writer import Writer, write_one

CALLS = 60
MIDDLE = CALLS // 2

Tamper = Callable[[sqlite3.Connection], None]


@pytest.fixture(scope="module")
def closed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of `CALLS` calls, ended in good order. Tests work on copies."""
    data = tmp_path_factory.mktemp("tamper") / "store"
    writer = Writer(1, Random(7))
    with Stdio(data) as client:
        for _ in range(CALLS):
            write_one(client, writer)
        assert client.finish() == 0
    return data


def blob(log: sqlite3.Connection, table: str, offset: int) -> bytes:
    row = log.execute(f"SELECT data FROM {table} WHERE offset = ?", (offset,)).fetchone()
    return bytes(row[0])


def put(log: sqlite3.Connection, table: str, offset: int, data: bytes) -> None:
    log.execute(f"UPDATE {table} SET data = ? WHERE offset = ?", (data, offset))


def last(log: sqlite3.Connection, table: str) -> int:
    return int(log.execute(f"SELECT max(offset) FROM {table}").fetchone()[0])


def change(table: str, offset: int | None, place: float = 0.5) -> Tamper:
    """Another byte at `place` (0: the first, 1: the last) of a record; `offset` None: the last."""

    def tamper(log: sqlite3.Connection) -> None:
        number = last(log, table) if offset is None else offset
        data = bytearray(blob(log, table, number))
        data[round(place * (len(data) - 1))] ^= 1
        put(log, table, number, bytes(data))

    return tamper


def delete(*tables: str, offset: int | None) -> Tamper:
    def tamper(log: sqlite3.Connection) -> None:
        for table in tables:
            number = last(log, table) if offset is None else offset
            log.execute(f"DELETE FROM {table} WHERE offset = ?", (number,))

    return tamper


def swap(table: str, one: int, other: int) -> Tamper:
    def tamper(log: sqlite3.Connection) -> None:
        first, second = blob(log, table, one), blob(log, table, other)
        put(log, table, one, second)
        put(log, table, other, first)

    return tamper


def close_the_gap(log: sqlite3.Connection) -> None:
    """A call and its decision removed, and all that follow moved up in their place."""
    delete("calls", "decisions", offset=MIDDLE)(log)
    for table in ("calls", "decisions"):
        log.execute(f"UPDATE {table} SET offset = offset - 1 WHERE offset > ?", (MIDDLE,))


TAMPERING: dict[str, Tamper] = {
    "a byte of the first call": change("calls", 0),
    "a byte of a call": change("calls", MIDDLE),
    "a byte of the last call": change("calls", None),
    "the last byte of a call": change("calls", MIDDLE, 1.0),
    "a byte of the first decision": change("decisions", 0),
    "a byte of a decision": change("decisions", MIDDLE),
    "the first byte of a decision": change("decisions", MIDDLE, 0.0),
    "the last byte of a decision": change("decisions", MIDDLE, 1.0),
    "a byte of the last decision": change("decisions", None),
    "a byte near the end of the last decision": change("decisions", None, 0.9),
    "a call deleted": delete("calls", offset=MIDDLE),
    "a decision deleted": delete("decisions", offset=MIDDLE),
    "a call and its decision deleted": delete("calls", "decisions", offset=MIDDLE),
    "a call and its decision cut out": close_the_gap,
    "the last decision deleted": delete("decisions", offset=None),
    "the last call deleted": delete("calls", offset=None),
    "the last decision and call deleted": delete("calls", "decisions", offset=None),
    "two calls swapped": swap("calls", MIDDLE, MIDDLE + 1),
    "two decisions swapped": swap("decisions", MIDDLE, MIDDLE + 1),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_reported(closed_store: Path, data: Path, what: str) -> None:
    shutil.copytree(closed_store, data)
    with closing(sqlite3.connect(data / "log.db")) as log:
        TAMPERING[what](log)
        log.commit()
    told = stored.run(data, "audit", "verify", "--json")
    assert told.code == 1, told.out
    assert told.json["whole"] is False
    assert any(partition["problems"] for partition in told.json["partitions"])


def test_an_untouched_log_is_whole(closed_store: Path, data: Path) -> None:
    shutil.copytree(closed_store, data)
    as_json = stored.run(data, "audit", "verify", "--json")
    assert as_json.code == 0 and as_json.json["whole"] is True
    for_people = stored.run(data, "audit", "verify")
    assert for_people.code == 0 and "The log is whole." in for_people.out


def test_a_person_is_told_what_is_wrong(closed_store: Path, data: Path) -> None:
    shutil.copytree(closed_store, data)
    with closing(sqlite3.connect(data / "log.db")) as log:
        change("calls", MIDDLE)(log)
        log.commit()
    told = stored.run(data, "audit", "verify")
    assert told.code == 1
    assert "not whole" in told.out and f"call {MIDDLE} " in " ".join(told.out.split())
