"""A log of the version before, and what that version made of it.

`logs/before.*` were written by version 0.1.0 before families were values, and are never to be
changed: logs with such records exist. A script called every tool of both families on two
partitions, without a model first and with bge-small-en-v1.5 from the 38th day on: learning,
duplicates of each layer, sessions with what their end sets going, keys that are used again, an
import, a split, descriptions, and calls that are refused for every reason there was. Between the
two, what others can leave on a log was put there: a void decision, a call in a wrong partition, a
read without its answer, and bytes that are no call.

- `before.calls.txt` and `before.decisions.txt` hold its records, one a line: partition, space and
  the bytes in base 85, with tabs between them. Each partition's are in order.
- `before.undecided.txt` holds calls that came after that and that nobody had decided.
- `before.json`: `state` has a hash for each table whose columns are as they were, `decided` the
  same once that version had decided the other calls, and `replies` what it replied to them.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mnemolog.events.chain import Head, extend, void_reason
from mnemolog.events.codec import decode_call, decode_decision
from mnemolog.events.envelope import Call, Decision
from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.services.node.node import Node

PARTITIONS = 2
DAY_US = 86_400_000_000
_FOLDER = Path(__file__).parent / "logs"

Rows = list[tuple[str, bytes]]
Digests = dict[str, dict[str, str]]


class Expected(msgspec.Struct, frozen=True):
    """What the version before made of its log, by partition, and of the calls after it, by id."""

    state: Digests
    decided: Digests
    replies: dict[str, dict[str, Any]]


EXPECTED = msgspec.convert(json.loads((_FOLDER / "before.json").read_text()), Expected)


def _records(name: str) -> list[Rows]:
    """By partition."""
    found: list[Rows] = [[] for _ in range(PARTITIONS)]
    for line in (_FOLDER / f"before.{name}.txt").read_text().splitlines():
        partition, space, data = line.split("\t")
        found[int(partition)].append((space, base64.b85decode(data)))
    return found


CALLS = _records("calls")
DECISIONS = _records("decisions")
UNDECIDED = _records("undecided")


class Counted(msgspec.Struct, frozen=True):
    """A decision that counts, with its call."""

    partition: int
    call: Call
    decision: Decision


def counted() -> Iterator[Counted]:
    """Those whose call names a tool."""
    for partition, decisions in enumerate(DECISIONS):
        head = Head()
        for _, data in decisions:
            decision = decode_decision(data)
            if void_reason(head, decision) is not None:
                continue
            head = extend(head, decision, data)
            if decision.tool:
                call = decode_call(CALLS[partition][decision.call_offset][1])
                yield Counted(partition, call, decision)


def heads() -> list[Head]:
    """The end of each partition's chain."""
    found = []
    for decisions in DECISIONS:
        head = Head()
        for _, data in decisions:
            decision = decode_decision(data)
            if void_reason(head, decision) is None:
                head = extend(head, decision, data)
        found.append(head)
    return found


END_US = max(head.at_us for head in heads())


def write(directory: Path, *, undecided: bool = False) -> None:
    """Put the records into the log of a data directory."""
    log = SqliteLog(directory / "log.db", PARTITIONS)
    for partition in range(PARTITIONS):
        log.append(partition, CALLS[partition], DECISIONS[partition])
        if undecided:
            log.append(partition, UNDECIDED[partition], ())
    log.shut()


def digests(node: Node) -> Digests:
    """The node's, of the tables that the version before told a hash of."""
    return {
        str(state.partition): {
            name: value
            for name, value in state.digest().items()
            if name in EXPECTED.state[str(state.partition)]
        }
        for state in node.projections.states
    }


def old_state(directory: Path) -> None:
    """A state that the version before made of this log, as far as a later one looks at it: its
    format, where it stands, and tables that are no longer so."""
    for partition, head in enumerate(heads()):
        path = directory / "projections" / "state" / f"p{partition:04d}.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(_OLD_TABLES)
        stands = (1, len(DECISIONS[partition]), head.hash, head.next_call, head.at_us)
        connection.execute("INSERT INTO chain VALUES (?, ?, ?, ?, ?)", stands)
        connection.execute("INSERT INTO space VALUES (1, 'default/robot/never', 1, 7)")
        connection.commit()
        connection.close()


_OLD_TABLES = """
CREATE TABLE chain (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  next_offset INTEGER NOT NULL, hash BLOB NOT NULL,
  next_call INTEGER NOT NULL, at_us INTEGER NOT NULL
);
CREATE TABLE void (offset INTEGER PRIMARY KEY);
CREATE TABLE space (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
  active INTEGER NOT NULL DEFAULT 0, words INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE outcome (
  tenant TEXT NOT NULL, key TEXT NOT NULL, own_key INTEGER NOT NULL,
  call_offset INTEGER NOT NULL, at_us INTEGER NOT NULL,
  fingerprint BLOB NOT NULL, refused INTEGER NOT NULL, code INTEGER, reply BLOB NOT NULL,
  PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
PRAGMA user_version = 4;
"""
