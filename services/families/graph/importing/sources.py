"""Files that a caller names: which of them it may, and opening one."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.services.api import Files

MAX_FILE_BYTES = 4 * 1024**3
BUFFER = 1024 * 1024
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Source(msgspec.Struct, frozen=True):
    """An open file. `name` is without its directory; `given` as the caller named it."""

    file: BinaryIO
    name: str
    given: str
    size: int
    changed_ns: int

    def sha256(self) -> str:
        self.file.seek(0)
        digest = hashlib.sha256()
        while data := self.file.read(BUFFER):
            digest.update(data)
        return digest.hexdigest()

    def is_as_it_was(self) -> bool:
        """Whether nobody wrote to the file since it was opened."""
        now = os.fstat(self.file.fileno())
        return (now.st_size, now.st_mtime_ns) == (self.size, self.changed_ns)


def open_source(given: str, files: Files | None) -> Source:
    """The file, or `Refused` with the reason. The caller closes it."""
    path = _resolved(given, files)
    try:
        # Not waiting: a named pipe without a writer would hold this up for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise Refused(f"There is no file {given!r}") from None
    except OSError as error:
        raise Refused(f"{given!r} cannot be read: {error.strerror}") from None
    try:
        about = os.fstat(descriptor)
        _check(about, os.pread(descriptor, 2, 0) if stat.S_ISREG(about.st_mode) else b"", given)
    except BaseException:
        os.close(descriptor)
        raise
    file = os.fdopen(descriptor, "rb", BUFFER)
    return Source(file, path.name, given, about.st_size, about.st_mtime_ns)


def _resolved(given: str, files: Files | None) -> Path:
    if files is None:
        raise Refused(
            "Files cannot be named here; use `mnemolog import FILE`, in the same container as the "
            "process that has the store open"
        )
    if "\0" in given:
        raise Refused("source_path holds a NUL, which no path can")
    if given == "~" or given.startswith("~/"):
        path = Path(files.home, given[2:])
    else:
        path = Path(files.cwd, given)
    # Symbolic links are followed before the directory is compared, and not again afterwards.
    path = Path(os.path.realpath(path))
    if files.root is not None and not path.is_relative_to(os.path.realpath(files.root)):
        raise Refused(
            f"Over HTTP only files in {files.root} can be imported, and {given!r} is not in it; "
            "put it there, or use `mnemolog import FILE` on the server's machine"
        )
    return path


def _check(about: os.stat_result, first: bytes, given: str) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise Refused(f"{given!r} is a directory; name the file in it, such as memory.jsonl")
    if not stat.S_ISREG(about.st_mode):
        raise Refused(f"{given!r} is not a regular file")
    if about.st_size > MAX_FILE_BYTES:
        raise Refused(
            f"{given!r} has {about.st_size:,} bytes; at most {MAX_FILE_BYTES:,} are allowed"
        )
    if first in _UTF_16:
        raise Refused(f"{given!r} is written in UTF-16; save it as UTF-8")
