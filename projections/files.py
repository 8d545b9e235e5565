"""Files of the projections: replaced so that a crash leaves the old or the new one, and dropped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

PIECE = 8 << 20


def put(path: Path, data: bytes) -> None:
    """Put `data` in a file's place: whatever is killed, it is the old one or the new one."""
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def replace(path: Path, data: bytes) -> None:
    """As `put`; durable when this returns."""
    put(path, data)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def pieces(path: Path) -> Iterator[memoryview]:
    """What a file holds, piece by piece; each is good until the next is asked for. They are large:
    whoever sums them up waits for the interpreter after each, and at a start, while modules are
    loaded beside, that takes longer than reading. And they are read into the same memory: to get
    new memory for each takes as long as a sum."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        piece = memoryview(bytearray(min(max(size, 1), PIECE)))
        while size := file.readinto(piece):
            yield piece[:size]


def drop(path: Path) -> None:
    """Remove a directory or a file, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def wipe(root: Path, first: str, *, but: str = "") -> None:
    """Remove all that is in a directory, the file `first` before the rest, `but` one; the directory
    itself may be a link."""
    if not root.is_dir():
        drop(root)
        return
    drop(root / first)
    for path in root.iterdir():
        if path.name != but:
            drop(path)
