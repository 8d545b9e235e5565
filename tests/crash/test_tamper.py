"""`mnemolog audit verify` notices whatever is done to the log behind the service's back."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from mnemolog.events.codec import decode_decision, encode_decision
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


def change_fingerprint(log: sqlite3.Connection) -> None:
    """Of the last decision: it still reads as one, and nothing after it says what it was."""
    number = last(log, "decisions")
    decision = decode_decision(blob(log, "decisions", number))
    changed = replace(decision, fingerprint=bytes(reversed(decision.fingerprint)))
    put(log, "decisions", number, encode_decision(changed))


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


def another_space(table: str) -> Tamper:
    def tamper(log: sqlite3.Connection) -> None:
        log.execute(f"UPDATE {table} SET space = 'rival/' WHERE offset = ?", (MIDDLE,))

    return tamper


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
    "a fingerprint in the last decision": change_fingerprint,
    "a call deleted": delete("calls", offset=MIDDLE),
    "a decision deleted": delete("decisions", offset=MIDDLE),
    "a call and its decision deleted": delete("calls", "decisions", offset=MIDDLE),
    "a call and its decision cut out": close_the_gap,
    "the last decision deleted": delete("decisions", offset=None),
    "the last call deleted": delete("calls", offset=None),
    "the last decision and call deleted": delete("calls", "decisions", offset=None),
    "a call in another space": another_space("calls"),
    "a decision in another space": another_space("decisions"),
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


def tampered(data: Path, tamper: Tamper) -> None:
    with closing(sqlite3.connect(data / "log.db")) as log:
        tamper(log)
        log.commit()


def add_call(log: sqlite3.Connection) -> None:
    log.execute(
        "INSERT INTO calls SELECT partition, offset + 1, space, data FROM calls"
        " ORDER BY offset DESC LIMIT 1"
    )


def add_void(log: sqlite3.Connection) -> None:
    end = last(log, "decisions") + 1
    log.execute(
        "INSERT INTO decisions SELECT partition, ?, space, data FROM decisions WHERE offset = 5",
        (end,),
    )


@pytest.mark.parametrize(
    ("tamper", "note"),
    [(add_call, "1 calls have no decision"), (add_void, "1 decisions are void")],
)
def test_what_was_added_is_noted(closed_store: Path, data: Path, tamper: Tamper, note: str) -> None:
    """It changes nothing that was there, and a process that has the log to itself writes none."""
    shutil.copytree(closed_store, data)
    tampered(data, tamper)
    told = stored.run(data, "audit", "verify", "--json")
    assert told.code == 0 and told.json["whole"] is True
    assert any(one.startswith(note) for one in told.json["partitions"][0]["notes"])
    assert note in " ".join(stored.run(data, "audit", "verify").out.split())


@pytest.mark.parametrize("count", ["2", "0", "x", "9999"])
def test_another_number_of_partitions_is_refused(
    closed_store: Path, data: Path, count: str
) -> None:
    shutil.copytree(closed_store, data)
    tampered(data, lambda log: put_count(log, count))
    for command in (("audit", "verify"), ("call", "learn", '{"insight": "a new one"}')):
        told = stored.run(data, *command)
        assert told.code == 1
        assert f"says that it has {count} partitions" in " ".join(told.err.split())


def put_count(log: sqlite3.Connection, count: str) -> None:
    log.execute("UPDATE log SET value = ? WHERE key = 'partitions'", (count,))


def say_nothing(log: sqlite3.Connection) -> None:
    log.execute("DELETE FROM log")


def test_a_log_that_says_nothing_of_itself_is_refused(closed_store: Path, data: Path) -> None:
    shutil.copytree(closed_store, data)
    tampered(data, say_nothing)
    told = stored.run(data, "audit", "verify")
    assert told.code == 1 and "does not say its format" in " ".join(told.err.split())


@pytest.fixture
def lone(closed_store: Path, data: Path) -> Path:
    """A backup: the log alone."""
    data.mkdir()
    shutil.copy(closed_store / "log.db", data / "log.db")
    return data


def noted(data: Path) -> str:
    (one,) = stored.run(data, "audit", "verify", "--json").json["partitions"]
    return str(one["head"])


@pytest.mark.parametrize(
    "what",
    ["a fingerprint in the last decision", "the last decision and call deleted"],
)
def test_a_head_that_was_noted_vouches_for_the_end(lone: Path, what: str) -> None:
    head = noted(lone)
    for given in (head, head[:16], head[:16].upper()):
        assert stored.run(lone, "audit", "verify", "--expect-head", given).code == 0
    tampered(lone, TAMPERING[what])
    without = stored.run(lone, "audit", "verify")
    assert without.code == 0 and "cannot be told" in " ".join(without.out.split())
    told = stored.run(lone, "audit", "verify", "--expect-head", head)
    assert told.code == 1 and "is on no chain" in " ".join(told.out.split())


def test_a_head_stays_on_the_chain(lone: Path) -> None:
    head = noted(lone)
    assert stored.run(lone, "call", "learn", '{"insight": "a new one"}').code == 0
    assert noted(lone) != head
    assert stored.run(lone, "audit", "verify", "--expect-head", head).code == 0


def test_what_is_no_head_is_refused(lone: Path) -> None:
    told = stored.run(lone, "audit", "verify", "--expect-head", "beef")
    assert told.code == 1 and "16 to 64 digits" in " ".join(told.err.split())


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "with transactions beside it"])
def test_a_log_on_a_read_only_mount_can_be_verified(
    closed_store: Path, tmp_path: Path, beside: bool
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    shutil.copy(closed_store / "log.db", there / "log.db")
    if beside:
        with closing(sqlite3.connect(there / "log.db")) as log:
            log.execute("INSERT INTO log VALUES ('kept', 'beside')")
            log.commit()
            shutil.copytree(there, tmp_path / "copy")
        shutil.rmtree(there)
        (tmp_path / "copy").rename(there)
        (there / "log.db-shm").unlink(missing_ok=True)
        assert (there / "log.db-wal").stat().st_size
    mount = tmp_path / "mount"
    mount.mkdir()
    subprocess.run(["mount", "--bind", "-o", "ro", there, mount], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", mount], check=True)
        told = stored.run(mount, "audit", "verify", "--json")
        assert told.code == 0, told.err
        assert told.json["partitions"][0]["counting"] == CALLS
    finally:
        subprocess.run(["umount", mount], check=True)
