"""How the state is looked at, and how facts change it: a connection, and what goes with it.

SQL on the state's own tables (spaces, ids, outcomes, the audit index, void decisions) is here and
in `store.py`; each family's is in its own modules.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from mnemolog.events.ids import nth_id

LAST = "\U0010ffff"
"""After every character: what begins with a text is before the text with this."""


class Moment(msgspec.Struct, frozen=True):
    """When and where a fact happened."""

    at_us: int
    tenant: str
    space: str
    call_offset: int


class Outcome(msgspec.Struct, frozen=True):
    """What a call with an idempotency key came to."""

    fingerprint: bytes
    refused: bool
    code: int | None
    reply: bytes


class Kept(Protocol):
    """What a family keeps in memory of its tables, to decide faster. Its facts' functions keep it
    in step; when an overlay is dropped it is cleared, and made anew when it is needed."""

    def clear(self) -> None: ...


class View:
    """A connection to read the state with. `hints` are a family's own: what it remembers of the
    state to answer faster, shared by all views of a state, and never wrong, only old."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        partition: int,
        partitions: int,
        hints: dict[str, Any] | None = None,
    ) -> None:
        self.connection = connection
        self.partition = partition
        self.partitions = partitions
        self.hints = {} if hints is None else hints

    def one(self, sql: str, *parameters: Any) -> Any:
        return self.connection.execute(sql, parameters).fetchone()

    def all(self, sql: str, *parameters: Any) -> list[Any]:
        return self.connection.execute(sql, parameters).fetchall()

    def run(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        return self.connection.execute(sql, parameters)

    @contextmanager
    def moment(self) -> Iterator[None]:
        """All that is read within is of one moment, whatever is written meanwhile."""
        self.run("BEGIN")
        try:
            yield
        finally:
            self.run("ROLLBACK")

    def space_id(self, name: str) -> int | None:
        row = self.one("SELECT id FROM space WHERE name = ?", name)
        return None if row is None else int(row[0])

    def spaces_from(self, start: str, limit: int) -> list[str]:
        """The first so many names of spaces that begin with `start`, in their order."""
        found = "SELECT name FROM space WHERE name >= ? AND name < ? ORDER BY name LIMIT ?"
        return [name for (name,) in self.all(found, start, start + LAST, limit)]

    def next_offset(self) -> int:
        """The offset after the last decision that this view shows."""
        return int(self.one("SELECT next_offset FROM chain")[0])

    def head(self) -> tuple[int, bytes]:
        """As `next_offset`, with the hash of the last decision that counted before it."""
        return tuple(self.one("SELECT next_offset, hash FROM chain"))

    def voids(self, start: int = 0, end: int = 2**62) -> frozenset[int]:
        """The offsets of decisions from `start` up to before `end` that do not count."""
        sql = "SELECT offset FROM void WHERE offset >= ? AND offset < ?"
        return frozenset(row[0] for row in self.all(sql, start, end))

    def touching(self, *subjects: str) -> set[int]:
        """The calls that touched one of `subjects`, by their offsets."""
        sql = "SELECT call_offset FROM audit WHERE subject = ?"
        return {row[0] for subject in subjects for row in self.all(sql, subject)}


def marks(values: Collection[Any]) -> str:
    """As many question marks as there are values, for `IN (…)`."""
    return ",".join("?" * len(values))


class Writable(View):
    """The state as the decider and the facts' functions see it, overlay included. `kept` is by
    family what it keeps in memory."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        partition: int,
        partitions: int,
        kept: Mapping[str, Callable[[sqlite3.Connection], Kept]],
    ) -> None:
        super().__init__(connection, partition, partitions)
        self.kept: dict[str, Kept] = {name: make(connection) for name, make in kept.items()}

    def forget_kept(self) -> None:
        """What was decided is undone: what was kept in memory of it is no longer so."""
        for one in self.kept.values():
            one.clear()

    def peek_id(self, counter: str, nth: int = 1) -> int:
        """The `nth` id that will be handed out next under `counter`."""
        row = self.one("SELECT n FROM counter WHERE name = ?", counter)
        return nth_id((row[0] if row else 0) + nth, self.partition, self.partitions)

    def take_id(self, counter: str) -> None:
        self.run("INSERT INTO counter VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1", counter)

    def ensure_space(self, name: str) -> int:
        self.run("INSERT OR IGNORE INTO space (name) VALUES (?)", name)
        return int(self.one("SELECT id FROM space WHERE name = ?", name)[0])

    def outcome(self, tenant: str, space: str, key: str) -> Outcome | None:
        """What was decided under `key` before, for a call to `space`. One that was kept without a
        space holds for all of them."""
        row = self.one(
            "SELECT fingerprint, refused, code, reply FROM outcome"
            " WHERE tenant = ? AND key = ? AND space IN ('', ?)",
            tenant,
            key,
            space,
        )
        return None if row is None else Outcome(row[0], bool(row[1]), row[2], row[3])

    def touched(self, subject: str, moment: Moment) -> None:
        """Note in the audit index that a call touched `subject`, such as `memory:12`."""
        self.run("INSERT OR IGNORE INTO audit VALUES (?, ?)", subject, moment.call_offset)
