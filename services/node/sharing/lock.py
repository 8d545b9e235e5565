"""The lock of a data directory: whoever has it holds the store."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from mnemolog.infra.directory import own_directory


class DirectoryLock:
    """An advisory lock on a file of the data directory; the system lets go of it when the process
    ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def take(self) -> bool:
        own_directory(self.path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        if not self._is_at_path(file):  # Deleted between the two steps: the next one has another.
            os.close(file)
            return False
        self.release()
        self._file = file
        with contextlib.suppress(OSError):  # Its words are for people; a full disk has no room.
            os.truncate(file, 0)
            os.write(file, str(os.getpid()).encode())
        return True

    @property
    def taken(self) -> bool:
        return self._file is not None

    @property
    def still_taken(self) -> bool:
        """Whether the file that is locked is the one that others find at the path."""
        return self._file is not None and self._is_at_path(self._file)

    def holder(self) -> str:
        """The process id that the holder left in the file."""
        with contextlib.suppress(OSError):
            return self.path.read_text().strip() or "unknown"
        return "unknown"

    def _is_at_path(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), self.path.stat())
        except OSError:
            return False

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
