"""One partition's state: a SQLite file that follows the partition's decisions.

The decider works inside an open write transaction: what it has decided and not yet seen on the
log is visible to it alone (the overlay), committed once the log has it, dropped when the append
failed. Readers have connections of their own and see only what was committed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from mnemolog.events.chain import Head, extend, void_reason
from mnemolog.events.codec import Fact, decode_decision
from mnemolog.events.envelope import Decision
from mnemolog.projections.projection import Projected
from mnemolog.projections.state import seal
from mnemolog.projections.state.schema import FORMAT
from mnemolog.projections.state.view import Moment, View, Writable
from mnemolog.projections.times import DAY_US

OWN_KEYS_KEPT = 1000
"""Outcomes of calls without an idempotency key of their caller's are kept for this many calls."""
KEYS_KEPT_US = 30 * DAY_US
KEYS_KEPT = 1000
"""Outcomes under a caller's own idempotency key are kept for 30 days, and for this many calls
however long they take: one call under a clock that runs ahead does not make all keys forgotten."""
WAL_BYTES = 32 * 1024 * 1024
WARM_BYTES = 1024 * 1024 * 1024
_log = logging.getLogger(__name__)
AHEAD_BYTES = 128 * 1024
"""Linux reads no more ahead than this when it is asked once."""


class StateError(Exception):
    """The state cannot be used as it is; the sentence says what to do."""


class Gap(StateError):
    """A decision is missing between the state and what it was given."""


class PartitionState:
    """The state of one partition in `path` (None: in memory), made when it is not there, and anew
    when the file is not what was written, unless it is to be taken `as_it_is`. What it holds, and
    what facts do to it, is what `projected` says."""

    def __init__(
        self,
        path: Path | None,
        partition: int,
        partitions: int,
        projected: Projected,
        *,
        as_it_is: bool = False,
    ) -> None:
        self.partition = partition
        self.partitions = partitions
        self.projected = projected
        self._path = path
        self._closed = False
        self._carried_over = True
        """As far as it was begun: the file does not change by itself."""
        self._settled = False
        """Whether the seal says all that it is to say."""
        self.broken: str | None = None
        """What is wrong with the file, when it is taken as it is."""
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.broken = seal.broken(path)
            if self.broken is not None and not as_it_is:
                _log.warning("The state in %s is made anew from the log: %s", path, self.broken)
                self._unlink()
                self.broken = None
        # What is taken as it is although it is broken stays so: nothing may vouch for it.
        self._sealed = path is not None and self.broken is None
        if path is not None and self._sealed:
            seal.begin(path)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._hints: dict[str, Any] = {}
        self._use(self._writable())
        self._prepare()
        self._warm()
        self._load_chain()
        if self._sealed:
            self.begin()
            self.commit()  # So that there is a write-ahead file, and its number stays.

    def _warm(self) -> None:
        """Have the system read the file ahead: the first searches would do so page by page."""
        if self._path is None or not hasattr(os, "posix_fadvise"):
            return
        with self._path.open("rb") as file:
            for at in range(0, min(self._path.stat().st_size, WARM_BYTES), AHEAD_BYTES):
                os.posix_fadvise(file.fileno(), at, AHEAD_BYTES, os.POSIX_FADV_WILLNEED)

    def _load_chain(self) -> None:
        row = self.view.one("SELECT next_offset, hash, next_call, at_us FROM chain")
        self.next_offset: int = row[0]
        self.head = Head(row[1], row[2], row[3])

    def begin(self) -> None:
        self._execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        head = self.head
        self._execute(
            "UPDATE chain SET next_offset = ?, hash = ?, next_call = ?, at_us = ?",
            (self.next_offset, head.hash, head.next_call, head.at_us),
        )
        self._execute("COMMIT")

    def rollback(self) -> None:
        """Drop the overlay: back to the last commit."""
        if self.view.connection.in_transaction:
            self._execute("ROLLBACK")
        self.view.forget_kept()
        self._load_chain()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """What is done inside the open transaction is undone alone when it fails."""
        before = self.next_offset, self.head
        self._execute("SAVEPOINT attempt")
        try:
            yield
        except BaseException:
            self._execute("ROLLBACK TO attempt")
            self.view.forget_kept()
            self.next_offset, self.head = before
            raise
        finally:
            self._execute("RELEASE attempt")

    def apply(
        self, offset: int, data: bytes, decision: Decision | None = None
    ) -> list[Fact] | None:
        """Carry out the decision at `offset` inside the open transaction.

        Returns its facts, None when it does not count or was applied before. One beyond the next
        offset raises `Gap`.
        """
        if offset < self.next_offset:
            return None
        if offset > self.next_offset:
            raise Gap(
                f"partition {self.partition}: expected decision {self.next_offset}, got {offset}"
            )
        if decision is None:
            decision = decode_decision(data)
        self.next_offset = offset + 1
        if void_reason(self.head, decision) is not None:
            self._execute("INSERT INTO void VALUES (?)", (offset,))
            return None
        moment = Moment(decision.at_us, decision.tenant, decision.space, decision.call_offset)
        facts = self.projected.facts.decode(decision.facts)
        for fact in facts:
            self.projected.evolve[type(fact)](self.view, fact, moment, decision)
        if decision.key is not None:
            self._keep_outcome(decision)
        self.head = extend(self.head, decision, data)
        return facts

    def _keep_outcome(self, decision: Decision) -> None:
        self._execute(
            "INSERT OR IGNORE INTO outcome VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                decision.tenant,
                decision.key,
                decision.key_space,
                decision.own_key,
                decision.call_offset,
                decision.at_us,
                decision.fingerprint,
                decision.refused,
                decision.code,
                decision.reply,
            ),
        )
        self._execute(
            "DELETE FROM outcome WHERE own_key = 1 AND call_offset <= ?",
            (decision.call_offset - OWN_KEYS_KEPT,),
        )
        self._execute(
            "DELETE FROM outcome WHERE (tenant, key, space) IN"
            " (SELECT tenant, key, space FROM outcome WHERE own_key = 0"
            " ORDER BY call_offset LIMIT 8) AND at_us < ? AND call_offset <= ?",
            (decision.at_us - KEYS_KEPT_US, decision.call_offset - KEYS_KEPT),
        )

    def reader(self) -> View:
        """A view of what is committed, for the calling thread."""
        view: View | None = getattr(self._local, "view", None)
        if view is None:
            if self._path is None:
                return self.view
            connection = self._connect()
            with self._lock:
                self._readers.append(connection)
            view = View(connection, self.partition, self.partitions, self._hints)
            self._local.view = view
        return view

    @property
    def wal_has_grown(self) -> bool:
        """SQLite begins its write-ahead file anew only when nobody reads an earlier moment, and
        with many readers there is always one."""
        if self._path is None:
            return False
        wal = self._path.with_name(f"{self._path.name}-wal")
        return wal.exists() and wal.stat().st_size > WAL_BYTES

    def shorten_wal(self) -> None:
        """Empty the write-ahead file, while nobody reads an earlier moment; gives up soon where
        somebody does. The file it is carried over into has no seal until it gets one again."""
        if self._path is None:
            return
        view = self.reader()
        view.run("PRAGMA busy_timeout = 200")
        seal.unseal(self._path)
        self._settled = False
        self._carried_over = not view.one("PRAGMA wal_checkpoint(TRUNCATE)")[0]

    def seal(self) -> None:
        """Seal the file, as far as it is not; while nothing is carried over into it. Writing goes
        on."""
        if self._path is not None and self._sealed and self._carried_over and not self._settled:
            self._settled = seal.settle(self._path)

    def digest(self) -> dict[str, str]:
        """By name a hash of what is in it in canonical order, the same for the same contents; what
        cannot be read is `unreadable`."""
        return {name: self._hash(sql) for name, sql in self.projected.canonical.items()}

    def _hash(self, sql: str) -> str:
        try:
            return _hash(self._execute(sql))
        except sqlite3.DatabaseError:
            return "unreadable"

    def void_digest(self) -> str:
        """A hash of which decisions do not count; a log that others wrote to may have others."""
        return _hash(self._execute("SELECT offset FROM void ORDER BY offset"))

    def close(self) -> None:
        """The last to close a database carries everything over into it."""
        if self._closed:
            return
        self._closed = True
        if self._path is not None and self._sealed:
            seal.unseal(self._path)
        with self._lock:
            for connection in self._readers:
                connection.close()
            self._readers.clear()
        self.view.connection.close()
        if self._path is not None and self._sealed:
            with suppress(OSError):
                seal.close(self._path)

    def _connect(self) -> sqlite3.Connection:
        target = ":memory:" if self._path is None else str(self._path)
        connection = sqlite3.connect(
            target, isolation_level=None, check_same_thread=False, timeout=10
        )
        # A power cut may take the last commits of the state; the log brings them back.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")  # `shorten_wal` does it.
        connection.execute("PRAGMA cache_size=-8000")
        for name, (count, function) in self.projected.functions.items():
            connection.create_function(name, count, function, deterministic=True)
        return connection

    def _use(self, view: Writable) -> None:
        self.view = view
        self._execute = view.connection.execute

    def _writable(self) -> Writable:
        return Writable(self._connect(), self.partition, self.partitions, self.projected.kept)

    def _begin_anew(self) -> int:
        """Everything in the state follows from the log: what an earlier version made is dropped."""
        self.view.connection.close()
        self._unlink()
        self._use(self._writable())
        return 0

    def _unlink(self) -> None:
        assert self._path is not None
        for ending in (".seal", "-wal", "-shm", ""):
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)

    def _prepare(self) -> None:
        tables = hashlib.sha256(self.projected.tables.encode()).hexdigest()
        try:
            version = self.view.one("PRAGMA user_version")[0]
            earlier = 0 < version < FORMAT
            if earlier or (
                version == FORMAT and self.view.one("SELECT tables FROM made")[0] != tables
            ):
                version = self._begin_anew()
            if version == 0:
                self.view.connection.executescript(
                    f"BEGIN; {self.projected.tables}"
                    f"INSERT INTO made VALUES ('{tables}');"
                    "INSERT INTO chain VALUES (1, 0, zeroblob(32), 0, 0);"
                    f"PRAGMA user_version = {FORMAT}; COMMIT;"
                )
                version = FORMAT
        except sqlite3.DatabaseError as error:
            raise StateError(
                f"The state in {self._path} cannot be read ({error}); "
                "`mnemolog rebuild` makes it anew from the log"
            ) from error
        if version != FORMAT:
            raise StateError(
                f"The state in {self._path} has format {version}, this version uses {FORMAT}; "
                "`mnemolog rebuild` makes it anew from the log"
            )


def _hash(rows: Iterator[Any]) -> str:
    digest = hashlib.sha256()
    encoder = msgspec.msgpack.Encoder()
    for row in rows:
        digest.update(encoder.encode(row))
    return digest.hexdigest()
