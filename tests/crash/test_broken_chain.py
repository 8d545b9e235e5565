"""A log that was changed is not decided on past that place, with or without projections beside it,
and making them anew from it fails and names the place."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mnemolog.events.codec import decode_decision, encode_decision
from mnemolog.events.envelope import GENESIS, Decision
from tests.crash import stored
from tests.crash.process import Stdio
from tests.crash.test_log_and_state import contents
from tests.crash.test_tamper import Tamper, blob, change, close_the_gap, delete, put, swap

LEARNED = 45
MIDDLE = 30


@pytest.fixture(scope="module")
def closed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("chain") / "store"
    with Stdio(data) as client:
        for number in range(LEARNED):
            assert not client.call(
                "learn", {"insight": f"cup {number} slips at {number} N"}
            ).refused
        assert client.finish() == 0
    return data


@pytest.fixture
def data(closed_store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(closed_store, tmp_path / "data"))


def another(**fields: Any) -> Tamper:
    """A decision with other contents, which is still one."""

    def tamper(log: sqlite3.Connection) -> None:
        decision: Decision = decode_decision(blob(log, "decisions", MIDDLE))
        for name, value in fields.items():
            assert getattr(decision, name) != value
        put(log, "decisions", MIDDLE, encode_decision(replace(decision, **fields)))

    return tamper


def other_text(log: sqlite3.Connection) -> None:
    data = blob(log, "decisions", MIDDLE)
    assert b"slips" in data
    put(log, "decisions", MIDDLE, data.replace(b"slips", b"glues"))


TAMPERING: dict[str, tuple[Tamper, str]] = {
    "another text": (other_text, f"Decision {MIDDLE + 1} of partition 0 extends no record"),
    "another reply": (
        another(reply=b"{}"),
        f"Decision {MIDDLE + 1} of partition 0 extends no record",
    ),
    "another call": (
        another(call_offset=3),
        f"Decision {MIDDLE} of partition 0 is about call 3, and the next one to decide was",
    ),
    "of the beginning": (another(previous=GENESIS), f"Decision {MIDDLE + 1} of partition 0"),
    "a byte of a call": (change("calls", MIDDLE), f"Call {MIDDLE} of partition 0"),
    "a byte of the first call": (change("calls", 0), "Call 0 of partition 0"),
    "the first byte": (
        change("decisions", MIDDLE, 0.0),
        f"Decision {MIDDLE} of partition 0 cannot be read",
    ),
    "a decision deleted": (
        delete("decisions", offset=MIDDLE),
        f"Decision {MIDDLE} of partition 0 is missing",
    ),
    "a call deleted": (delete("calls", offset=MIDDLE), f"Call {MIDDLE} of partition 0"),
    "cut out": (close_the_gap, "Decision"),
    "decisions swapped": (swap("decisions", 20, 21), "Decision 20 of partition 0 extends no"),
    "calls swapped": (swap("calls", 20, 21), "Call 20 of partition 0"),
}


def tampered(data: Path, tamper: Tamper) -> dict[str, list[tuple[bytes, ...]]]:
    with closing(sqlite3.connect(data / "log.db")) as log:
        tamper(log)
        log.commit()
    return contents(data)


@pytest.mark.parametrize("what", TAMPERING)
def test_nothing_is_decided_past_the_damage(data: Path, what: str) -> None:
    tamper, place = TAMPERING[what]
    before = tampered(data, tamper)
    shutil.rmtree(data / "projections")
    for command in (("call", "learn", '{"insight": "a new one"}'), ("rebuild",)):
        told = stored.run(data, *command)
        assert told.code == 1, told.out
        assert place in " ".join(told.err.split())
        assert "from a backup" in told.err
        assert contents(data) == before
        assert not (data / "projections.new").exists()


def test_a_rebuild_from_a_damaged_log_leaves_what_is_there(data: Path) -> None:
    tampered(data, other_text)
    told = stored.run(data, "rebuild")
    assert told.code == 1 and f"Decision {MIDDLE + 1} of partition 0" in told.err
    assert "glues" not in str(everything(data))
    assert len(everything(data)) == LEARNED


def test_the_log_put_back_heals(data: Path, closed_store: Path) -> None:
    tampered(data, other_text)
    shutil.rmtree(data / "projections")
    assert stored.run(data, "rebuild").code == 1
    shutil.copy(closed_store / "log.db", data / "log.db")
    assert len(everything(data)) == LEARNED


def everything(data: Path) -> list[str]:
    with Stdio(data) as client:
        found = client.call("recall", {"query": "cup slips", "n": 100})
        assert not found.refused, found
        return [one["content"] for one in found.body["memories"]]
