"""Room on the disk for the files that the engine maps into memory.

It makes them larger than what is in them, and the disk gives a page when it is first touched: if
there is none left by then, the process is killed (SIGBUS). So they get all their pages beforehand,
which can fail in good order, and the engine is asked to write only while there is room for files
that it might add meanwhile.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mnemolog.projections.ports import VectorsAway
from mnemolog.projections.vectors.whole import files_of

SPARE = 16 * 1024 * 1024
"""Bytes that stay free: far more than a batch of changes can take in files that are new, and room
for the log, which comes first."""


class Room:
    """Sets aside what the files of one shard will need. One thread at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._has: dict[str, int] = {}
        """Files that have their pages, and their sizes then."""

    def check(self, needed: int = 0) -> None:
        """`VectorsAway` if the disk is nearly full."""
        disk = os.statvfs(self._directory)
        left = disk.f_bavail * disk.f_frsize
        if disk.f_blocks and left < needed + SPARE:
            raise VectorsAway(
                f"The disk with the vector index in {self._directory} is nearly full: {left:,} "
                f"bytes are left, {needed + SPARE:,} are needed"
            )

    def take(self, shard: Path) -> None:
        """Give all files of the shard their pages; `VectorsAway` if there is no room for that."""
        lacking = []
        for name, stat in files_of(shard):
            if self._has.get(name) != stat.st_size:
                if stat.st_blocks * 512 < stat.st_size:
                    lacking.append((name, stat.st_size, stat.st_size - stat.st_blocks * 512))
                else:
                    self._has[name] = stat.st_size
        if not lacking:
            return
        self.check(sum(needed for _, _, needed in lacking))
        for name, size, _ in lacking:
            with (shard / name).open("r+b") as file:
                try:
                    if hasattr(os, "posix_fallocate"):  # macOS has none.
                        os.posix_fallocate(file.fileno(), 0, size)
                except OSError as error:
                    # A file system that cannot set anything aside has `check` alone.
                    if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                        raise
            self._has[name] = size
