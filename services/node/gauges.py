"""What a node's parts have waiting, how far its indexes are, and how much there is on the disk: for
`/metrics`, which is asked every few seconds. So nothing here takes long, or waits for anything."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

KEPT_S = 15.0
"""How long sizes are taken for what they are: an index may have thousands of files."""


class Sizes:
    """Bytes on the disk below some `places`, by name, and of the disk that `directory` is on."""

    def __init__(
        self,
        directory: Path,
        places: Mapping[str, tuple[Path, ...]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._places = places
        self._clock = clock
        self._found: dict[str, int] = {}
        self._disk: dict[str, int] = {}
        self._until_s = 0.0

    async def now(self) -> dict[str, Any]:
        if self._clock() >= self._until_s:
            # Before the thread ends: whoever asks meanwhile gets what was found the last time.
            self._until_s = self._clock() + KEPT_S
            await asyncio.to_thread(self._look)
        return {"bytes": self._found, "disk": self._disk}

    def _look(self) -> None:
        self._found = {
            name: sum(map(_bytes, (file for path in paths for file in _files(path))))
            for name, paths in self._places.items()
        }
        try:
            usage = shutil.disk_usage(self._directory)
        except OSError:
            self._disk = {}
        else:
            self._disk = {"size": usage.total, "free": usage.free}


def _files(path: Path) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
    for directory, _, names in os.walk(path):
        for name in names:
            yield f"{directory}/{name}"


def _bytes(path: str) -> int:
    """What a file really takes: those of the vectors are larger than what is in them."""
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:  # It is gone again, as write-ahead files and segments are.
        return 0
