"""What to say when something fails that should not, and to whom: a sentence for whoever asked, a
line on the log, and not the same line for ever."""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mnemolog.events.log import LogError
from mnemolog.projections.ports import IndexDamaged, VectorsAway
from mnemolog.projections.state.store import StateError
from mnemolog.services.api import Unavailable

ENDING: Final = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""Is no failure. All else is, also what is no `Exception`: an engine written in Rust that meets
what it did not expect raises a `BaseException` of its own."""
MAX_WORDS = 500
_FULL = ("disk is full", "No space left on device")
_PERHAPS = "disk I/O error"
"""So SQLite says that it has no room for a file that it needs beside a database."""
_LITTLE = 64 * 1024


def disk_is_full(error: BaseException, directory: Path) -> bool:
    """Whether an error, or what it came from, is that there is no room in `directory`."""
    met: BaseException | None = error
    while met is not None:
        words = str(met)
        if any(one in words for one in _FULL) or (_PERHAPS in words and _room(directory) < _LITTLE):
            return True
        met = met.__cause__ or met.__context__
    return False


def _room(directory: Path) -> float:
    try:
        found = os.statvfs(directory)
    except OSError:
        return math.inf
    return found.f_bavail * found.f_frsize


def full_disk(directory: Path) -> str:
    return (
        f"The disk that {directory} is on is full. Free some space there: backups, and directories "
        "called projections.kept, can be moved away; log.db must stay. Mnemolog goes on by itself"
    )


def told(error: BaseException, directory: Path) -> str:
    """A sentence for whoever asked for what failed: what it met, and what to do where that is
    known. Nothing in `directory` need be made anew because its disk is full."""
    if disk_is_full(error, directory):
        return full_disk(directory)
    if isinstance(error, (IndexDamaged, LogError, StateError, Unavailable, VectorsAway)):
        return str(error)
    return f"{type(error).__name__}: {error}"[:MAX_WORDS]


class Complaints:
    """Has what a loop meets told once, not each time round: again when the error is another, by
    more than numbers, or when it had gone meanwhile."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._told: dict[str, str] = {}

    @contextmanager
    def about(self, what: str) -> Iterator[None]:
        """Whatever is raised inside is told as `what`, and goes no further."""
        try:
            yield
        except ENDING:
            raise
        except BaseException as error:
            self.of(what, error)
        else:
            self.gone(what)

    def of(self, what: str, error: BaseException) -> None:
        words = f"{type(error).__name__}: {error}"[:MAX_WORDS]
        kind = re.sub(r"\d+", "0", words)
        if self._told.get(what) != kind:
            self._told[what] = kind
            if isinstance(error, (Unavailable, VectorsAway)):
                self._log.warning(what, reason=str(error))
            else:
                self._log.error(what, error=words, exc_info=error)

    def gone(self, what: str) -> None:
        if self._told.pop(what, None) is not None:
            self._log.info("works again", after=what)
