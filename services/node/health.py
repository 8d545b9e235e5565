"""What keeps a node from doing its work, as the last calls met it and as a look shows it.

A call that the service fails, not one that it refuses, is a reason until a later call of its kind
succeeds. Nobody may call any more, of course, just because of that: so what failed is tried again
behind the scenes, and what is open is looked after, whether it still is where it was.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import msgspec
import structlog

from mnemolog.events.arguments import Refused
from mnemolog.infra.log.still_there import Opened, opened
from mnemolog.services.api import Busy, Unavailable
from mnemolog.services.decider.tool import Asked
from mnemolog.services.node.failing import ENDING, Complaints, disk_is_full, full_disk, told
from mnemolog.services.node.following.projections import Projections

if TYPE_CHECKING:
    from mnemolog.services.node.node import Node

PAUSE_S, PAUSE_MOST_S = 1.0, 10.0
"""Before what failed is tried again: longer each time, up to so long."""
PROBE_BYTES = 64 * 1024

Kind = Literal["read", "write"]

_log = structlog.get_logger("mnemolog.node")


class Failure(msgspec.Struct):
    """What a call met, and when it is tried again. `asked` is the read that failed."""

    reason: str
    at: str
    asked: Asked | None
    again_s: float
    pause_s: float
    trying: Future[None] | None = None


class Condition:
    """`reasons` may be asked by any thread; `look`, first when the node has just opened its files,
    is for the upkeep's."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._failures: dict[Kind, Failure] = {}
        self._complaints = Complaints(_log)
        self._gone: str | None = None
        embedded = node.settings.brokers is None
        self._log = node.settings.data_dir / "log.db" if embedded else None
        self._seen: Projections | None = None
        self._states: Opened = {}

    def reasons(self) -> list[str]:
        found = [] if self._gone is None else [self._gone]
        return found + [
            f"The last {kind} failed, at {one.at}: {one.reason}"
            for kind, one in list(self._failures.items())
        ]

    @contextmanager
    def met(self, kind: Kind, asked: Asked | None = None) -> Iterator[None]:
        """Around what answers a call: notes how it went. Whatever is raised inside comes out as
        what callers are prepared for."""
        try:
            yield
        except Refused:
            self._succeeded(kind)
            raise
        except (Busy, *ENDING):  # That others ask much is no fault.
            raise
        except BaseException as error:
            self._complaints.of(f"a {kind} failed", error)
            failure = self._told(error)
            now_s = time.monotonic()
            at = datetime.now(UTC).isoformat(" ", "seconds")
            self._failures[kind] = Failure(str(failure), at, asked, now_s + PAUSE_S, PAUSE_S)
            if failure is error:
                raise
            raise failure from error
        else:
            self._succeeded(kind)

    def _succeeded(self, kind: Kind) -> None:
        self._failures.pop(kind, None)
        self._complaints.gone(f"a {kind} failed")

    def _told(self, error: BaseException) -> Unavailable:
        directory = self._node.settings.data_dir
        if not isinstance(error, Unavailable):
            return Unavailable(f"The call failed inside the service: {told(error, directory)}")
        if disk_is_full(error, directory) and full_disk(directory) not in str(error):
            return Unavailable(f"{error}. {full_disk(directory)}")
        return error

    # --- on the upkeep's thread ------------------------------------------------------------------

    def look(self) -> None:
        """Whether what is open is where it was and can be read, and what failed still fails."""
        self._gone = self._look()
        now_s = time.monotonic()
        for kind, failure in list(self._failures.items()):
            if failure.again_s <= now_s:
                self._try_again(kind, failure)

    def _look(self) -> str | None:
        node = self._node
        try:
            with node.using.shared():
                projections = node.projections
                if projections is not self._seen:
                    # Just opened: at the start, or by a rebuild.
                    self._seen = projections
                    self._states = opened(
                        *(projections.directory / "state").glob("p*.db"), projections.directory
                    )
                gone = node.log_is_gone() or _moved(self._states)
                if gone is not None:
                    return gone
                for state in projections.states:
                    state.reader().next_offset()
            if self._log is not None:
                for partition in range(node.log.partitions):
                    last = node.log.end(partition).decisions - 1
                    if last >= 0 and not node.log.decisions(partition, last, 1):
                        return f"Decision {last} of partition {partition} is not on the log"
        except Exception as error:
            return f"The store cannot be read: {told(error, node.settings.data_dir)}"
        return None

    def _try_again(self, kind: Kind, failure: Failure) -> None:
        if failure.trying is None and failure.asked is not None:
            failure.trying = self._node.answering.again(failure.asked)
        if failure.trying is not None and not failure.trying.done():
            return
        try:
            if failure.trying is not None:
                failure.trying.result()
            else:
                self._try_writing()
        except Refused:
            pass
        except BaseException:
            failure.trying = None
            failure.pause_s = min(2 * failure.pause_s, PAUSE_MOST_S)
            failure.again_s = time.monotonic() + failure.pause_s
            return
        if self._failures.get(kind) is failure:
            self._succeeded(kind)

    def _try_writing(self) -> None:
        """Raises when the disk does not take what a write would put there."""
        if self._gone is not None:
            raise Unavailable(self._gone)
        if self._log is not None:
            _write_to_log(self._log)
        _write_beside(self._node.directory)


def _moved(files: Opened) -> str | None:
    for path, then in files.items():
        if opened(path).get(path) != then:
            return (
                f"{path} was deleted, moved or replaced while it was in use. Put it back, or "
                "restart mnemolog: what is missing is made anew from the log"
            )
    return None


def _write_to_log(path: Path) -> None:
    """A transaction that changes nothing, and is put on the disk like any other."""
    target = f"file:{quote(str(path.absolute()))}?mode=rw"
    with closing(sqlite3.connect(target, uri=True, isolation_level=None, timeout=1)) as log:
        log.execute("PRAGMA synchronous=FULL")
        version = int(log.execute("PRAGMA user_version").fetchone()[0])
        log.execute(f"PRAGMA user_version={version}")


def _write_beside(directory: Path) -> None:
    probe = directory / "probe"
    try:
        with probe.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    finally:
        probe.unlink(missing_ok=True)
