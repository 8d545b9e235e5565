"""The embedded log: one SQLite file in WAL mode, synchronous=FULL, with group commit.

All appends go through one writer thread. What is waiting when it comes round goes into one
transaction, so concurrent callers share the cost of making it durable; each gets its answer only
after the commit.
"""

from __future__ import annotations

import asyncio
import hashlib
import queue
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from mnemolog.events.ids import MAX_PARTITIONS
from mnemolog.events.log import Ends, LogDamaged, LogError, Stored
from mnemolog.infra.log.still_there import Opened, log_files, log_is_gone

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls (
  partition INTEGER NOT NULL, offset INTEGER NOT NULL, space TEXT NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (partition, offset)
);
CREATE TABLE IF NOT EXISTS decisions (
  partition INTEGER NOT NULL, offset INTEGER NOT NULL, space TEXT NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (partition, offset)
);
"""
_FORMAT: Final = "1"
_MAX_GROUP: Final = 512
_MAX_WAITING: Final = 4096

Rows = Sequence[tuple[str, bytes]]


class _Append:
    """One caller's rows for both tables of a partition; they become durable together or not."""

    __slots__ = ("calls", "decisions", "future", "partition")

    def __init__(self, partition: int, calls: Rows, decisions: Rows) -> None:
        self.partition = partition
        self.calls = calls
        self.decisions = decisions
        self.future: Future[tuple[int, int]] = Future()
        # From here on it cannot be cancelled: a caller that gives up must not stop the writer.
        self.future.set_running_or_notify_cancel()


class SqliteLog:
    """The log in `path`, made with `partitions` partitions when it does not exist yet.

    Opening an existing log with another partition count is an error: the count decides where
    everything lives. `partitions=None` takes what is there (1 for a new log).
    """

    def __init__(
        self, path: Path, partitions: int | None = None, *, read_only: bool = False
    ) -> None:
        self._path = path
        self._read_only = read_only
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._readers_lock = threading.Lock()
        self._closed = False
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._immutable = False
        if read_only and not path.exists():
            raise LogError(f"There is no log at {path}")
        self.partitions = self._open(partitions)
        with self._told():
            self._ends: dict[int, Ends] | None = self._all_ends()
        # One who only reads it does no harm if somebody puts another in its place.
        self._files: Opened = {} if read_only else log_files(path)
        self._queue: queue.Queue[_Append | None] = queue.Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._write, name="log-writer", daemon=True)
        if not read_only:
            self._thread.start()

    def append(self, partition: int, calls: Rows, decisions: Rows) -> tuple[int, int]:
        """Append both in one transaction; blocks until durable. Returns the offsets of the first
        call and the first decision."""
        return self._submit(partition, calls, decisions).result()

    async def append_calls(self, partition: int, calls: Rows) -> list[int]:
        first, _ = await asyncio.wrap_future(self._submit(partition, calls, ()))
        return list(range(first, first + len(calls)))

    async def append_decisions(self, partition: int, decisions: Rows) -> list[int]:
        _, first = await asyncio.wrap_future(self._submit(partition, (), decisions))
        return list(range(first, first + len(decisions)))

    async def read_calls(self, partition: int, start: int, limit: int) -> list[Stored]:
        return await asyncio.to_thread(self.calls, partition, start, limit)

    async def read_decisions(self, partition: int, start: int, limit: int) -> list[Stored]:
        return await asyncio.to_thread(self.decisions, partition, start, limit)

    async def ends(self, partition: int) -> Ends:
        return self.end(partition)

    def calls(self, partition: int, start: int, limit: int) -> list[Stored]:
        return self._read("calls", partition, start, limit)

    def decisions(self, partition: int, start: int, limit: int) -> list[Stored]:
        return self._read("decisions", partition, start, limit)

    def end(self, partition: int) -> Ends:
        self._check(partition)
        ends = self._ends
        if self._read_only or ends is None:
            with self._told():
                return self._read_ends(self._reader(), partition)
        return ends[partition]

    def check_in_place(self) -> None:
        """`LogError` when the log's files are no longer where they were opened: what is written
        would be lost with the process."""
        gone = self.gone()
        if gone is not None:
            raise LogError(gone)

    def gone(self) -> str | None:
        """Why what is written would be lost; None: its files are where they were opened."""
        return log_is_gone(self._files)

    def spaces(self, partition: int, start: int, limit: int) -> list[tuple[str, int, str, bytes]]:
        """Table, offset, space and bytes of records, for who compares what lies beside a record
        with what is in it."""
        self._check(partition)
        with self._told():
            return [
                (table, *row)
                for table in ("calls", "decisions")
                for row in self._reader().execute(
                    f"SELECT offset, space, data FROM {table} WHERE partition = ? AND offset >= ?"
                    " AND offset < ? ORDER BY offset",
                    (partition, start, start + limit),
                )
            ]

    async def close(self) -> None:
        await asyncio.to_thread(self.shut)

    def shut(self) -> None:
        """Finish what is queued, then let go of the file."""
        if self._closed:
            return
        self._closed = True
        if not self._read_only:
            self._queue.put(None)
            self._thread.join()
        with self._readers_lock:
            for connection in self._readers:
                connection.close()
            self._readers.clear()
        self._writer.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _connect(self) -> sqlite3.Connection:
        path = self._path if self._copy is None else Path(self._copy.name) / self._path.name
        mode = "ro&immutable=1" if self._immutable else "ro" if self._read_only else "rwc"
        target = f"file:{quote(str(path.absolute()))}?mode={mode}"
        return sqlite3.connect(
            target, uri=True, isolation_level=None, check_same_thread=False, timeout=10
        )

    def _open(self, partitions: int | None) -> int:
        if partitions is not None and not 1 <= partitions <= MAX_PARTITIONS:
            raise LogError(f"partitions must be from 1 to {MAX_PARTITIONS}, not {partitions}")
        if not self._read_only:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            kept = self._first_look(partitions or 1)
        except sqlite3.OperationalError as error:
            raise LogError(f"{self._path} cannot be opened as a log: {error}") from error
        except sqlite3.DatabaseError as error:
            raise LogDamaged(
                f"{self._path} is not a mnemolog log, or is damaged: {error}. Put it back from a "
                "backup"
            ) from error
        if "format" not in kept or "partitions" not in kept:
            raise LogDamaged(
                f"{self._path} does not say its format and its partitions: it is damaged. Put it "
                "back from a backup"
            )
        if kept["format"] != _FORMAT:
            raise LogError(
                f"{self._path} has format {kept['format']}, this version reads {_FORMAT}: upgrade"
            )
        count = self._counted(kept)
        if partitions is not None and partitions != count:
            raise LogError(
                f"The log in {self._path} was made with {count} partitions, not {partitions}; "
                f"the count is fixed when a log is made: leave --partitions out, or use an empty "
                f"data directory"
            )
        return count

    def _first_look(self, partitions: int) -> dict[str, str]:
        """Reading a log in WAL mode needs a file beside it, which a read-only place does not allow:
        then it is read as it lies there, or, with transactions beside it, from a copy."""
        self._writer = self._connect()
        try:
            return self._prepare(partitions)
        except sqlite3.OperationalError:
            if not self._read_only:
                raise
            self._writer.close()
        wal = self._path.with_name(f"{self._path.name}-wal")
        if wal.exists() and wal.stat().st_size:
            self._copy = tempfile.TemporaryDirectory(prefix="mnemolog-")
            for path in (self._path, wal):
                shutil.copy(path, self._copy.name)
        else:
            self._immutable = True
        self._writer = self._connect()
        return self._prepare(partitions)

    def _counted(self, kept: dict[str, str]) -> int:
        """The number of partitions, which says where everything is: it stands there with a sum. A
        log that was made without one gets it."""
        count, sum_ = kept["partitions"], _sum(kept["format"], kept["partitions"])
        whole = count.isdecimal() and 1 <= int(count) <= MAX_PARTITIONS
        if "sum" in kept:
            whole = whole and kept["sum"] == sum_
        elif whole and not self._read_only:
            with self._told():
                self._writer.execute("INSERT OR IGNORE INTO log VALUES ('sum', ?)", (sum_,))
        if not whole:
            raise LogDamaged(
                f"{self._path} says that it has {count} partitions, and that is not what it was "
                "made with: it is damaged. Put it back from a backup"
            )
        return int(count)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite cannot do with the file, as an error of the log."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise LogError(f"The log {self._path} cannot be read: {error}") from error
        except sqlite3.DatabaseError as error:
            raise LogDamaged(
                f"The log {self._path} is damaged: {error}. Put it back from a backup"
            ) from error

    def _prepare(self, partitions: int) -> dict[str, str]:
        """What the log says of itself. An empty file becomes a log, whole or not at all; a file of
        somebody else's is left as it is."""
        sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = {name for (name,) in self._writer.execute(sql)}
        if tables and not tables >= {"log", "calls", "decisions"}:
            raise LogError(f"{self._path} is not a mnemolog log: it holds other tables")
        if not self._read_only:
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.execute("PRAGMA synchronous=FULL")
            if not tables:
                sum_ = _sum(_FORMAT, str(partitions))
                self._writer.executescript(
                    f"BEGIN IMMEDIATE; {_SCHEMA} INSERT OR IGNORE INTO log VALUES ('format', "
                    f"'{_FORMAT}'), ('partitions', '{partitions}'), ('sum', '{sum_}'); COMMIT;"
                )
        return dict(self._writer.execute("SELECT key, value FROM log").fetchall())

    def _all_ends(self) -> dict[int, Ends]:
        return {p: self._read_ends(self._writer, p) for p in range(self.partitions)}

    def _read_ends(self, connection: sqlite3.Connection, partition: int) -> Ends:
        def end(table: str) -> int:
            row = connection.execute(
                f"SELECT max(offset) FROM {table} WHERE partition = ?", (partition,)
            ).fetchone()
            return 0 if row[0] is None else int(row[0]) + 1

        return Ends(end("calls"), end("decisions"))

    def _check(self, partition: int) -> None:
        if not 0 <= partition < self.partitions:
            raise LogError(f"There is no partition {partition}; the log has {self.partitions}")

    def _submit(self, partition: int, calls: Rows, decisions: Rows) -> Future[tuple[int, int]]:
        self._check(partition)
        if self._closed or self._read_only:
            raise LogError("The log is closed for writing")
        append = _Append(partition, calls, decisions)
        try:
            self._queue.put(append, timeout=10)
        except queue.Full:
            raise LogError("The log cannot keep up: its queue was full for 10 seconds") from None
        return append.future

    def _write(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            group = [first]
            last = False
            while len(group) < _MAX_GROUP:
                try:
                    more = self._queue.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    last = True
                    break
                group.append(more)
            self._commit(group)
            if last:
                return

    def _commit(self, group: list[_Append]) -> None:
        offsets: list[tuple[int, int]] = []
        try:
            self.check_in_place()
            # After a failure nobody knows what became durable: the file does.
            ends = self._all_ends() if self._ends is None else dict(self._ends)
            self._writer.execute("BEGIN IMMEDIATE")
            for append in group:
                end = ends[append.partition]
                for table, start, rows in (
                    ("calls", end.calls, append.calls),
                    ("decisions", end.decisions, append.decisions),
                ):
                    self._writer.executemany(
                        f"INSERT INTO {table} VALUES (?, ?, ?, ?)",
                        [
                            (append.partition, start + i, space, data)
                            for i, (space, data) in enumerate(rows)
                        ],
                    )
                offsets.append((end.calls, end.decisions))
                ends[append.partition] = Ends(
                    end.calls + len(append.calls), end.decisions + len(append.decisions)
                )
            self._writer.execute("COMMIT")
            self.check_in_place()
        except BaseException as error:
            self._ends = None
            with suppress(sqlite3.Error):
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
            failure = LogError(f"The log could not be written: {error}")
            for append in group:
                append.future.set_exception(failure)
            return
        self._ends = ends
        for append, offset in zip(group, offsets, strict=True):
            append.future.set_result(offset)

    def _read(self, table: str, partition: int, start: int, limit: int) -> list[Stored]:
        self._check(partition)
        with self._told():
            rows = self._reader().execute(
                f"SELECT offset, data FROM {table} WHERE partition = ? AND offset >= ?"
                " ORDER BY offset LIMIT ?",
                (partition, start, limit),
            )
            return [Stored(offset, data) for offset, data in rows]

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise LogError("The log is closed")
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            self.check_in_place()
            connection = self._connect()
            self._local.connection = connection
            with self._readers_lock:
                self._readers.append(connection)
        return connection


def _sum(format_: str, partitions: str) -> str:
    return hashlib.sha256(f"format {format_}, partitions {partitions}".encode()).hexdigest()
