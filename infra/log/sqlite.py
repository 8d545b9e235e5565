"""The embedded log: one SQLite file in WAL mode, synchronous=FULL, with group commit.

All appends go through one writer thread. What is waiting when it comes round goes into one
transaction, so concurrent callers share the cost of making it durable; each gets its answer only
after the commit.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final
from urllib.parse import quote

from mnemolog.events.ids import MAX_PARTITIONS
from mnemolog.events.log import Ends, LogError, Stored

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
        if read_only and not path.exists():
            raise LogError(f"There is no log at {path}")
        self.partitions = self._open(partitions)
        self._ends = {p: self._read_ends(p) for p in range(self.partitions)}
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
        if self._read_only:
            return self._read_ends(partition)
        return self._ends[partition]

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

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self._read_only else "rwc"
        target = f"file:{quote(str(self._path.absolute()))}?mode={mode}"
        return sqlite3.connect(
            target, uri=True, isolation_level=None, check_same_thread=False, timeout=10
        )

    def _open(self, partitions: int | None) -> int:
        if partitions is not None and not 1 <= partitions <= MAX_PARTITIONS:
            raise LogError(f"partitions must be from 1 to {MAX_PARTITIONS}, not {partitions}")
        if not self._read_only:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._writer = self._connect()
            kept = self._prepare(partitions or 1)
        except sqlite3.OperationalError as error:
            raise LogError(f"{self._path} cannot be opened as a log: {error}") from error
        except sqlite3.DatabaseError as error:
            raise LogError(f"{self._path} is not a mnemolog log: {error}") from error
        if kept["format"] != _FORMAT:
            raise LogError(
                f"{self._path} has format {kept['format']}, this version reads {_FORMAT}: upgrade"
            )
        count = int(kept["partitions"])
        if partitions is not None and partitions != count:
            raise LogError(
                f"The log in {self._path} was made with {count} partitions, not {partitions}; "
                f"the count is fixed when a log is made: leave --partitions out, or use an empty "
                f"data directory"
            )
        return count

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
                self._writer.executescript(
                    f"BEGIN IMMEDIATE; {_SCHEMA} INSERT OR IGNORE INTO log VALUES"
                    f" ('format', '{_FORMAT}'), ('partitions', '{partitions}'); COMMIT;"
                )
        return dict(self._writer.execute("SELECT key, value FROM log").fetchall())

    def _read_ends(self, partition: int) -> Ends:
        def end(table: str) -> int:
            row = self._writer.execute(
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
        ends = dict(self._ends)
        offsets: list[tuple[int, int]] = []
        try:
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
        except BaseException as error:
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
            connection = self._connect()
            self._local.connection = connection
            with self._readers_lock:
                self._readers.append(connection)
        return connection
