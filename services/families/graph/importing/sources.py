"""Files that a caller names: which of them it may, and opening one."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.services.api import Files
from mnemolog.services.families.graph.importing.lines import Line, lines

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
        """Of all of it. What is longer or shorter than it says is refused: it is being written, or
        no file at all, and might have no end."""
        digest, size = hashlib.sha256(), 0
        with _read_to_the_end(self.given):
            self.file.seek(0)
            while size <= self.size and (data := self.file.read(BUFFER)):
                digest.update(data)
                size += len(data)
        if size != self.size:
            raise Refused(
                f"{self.given!r} says that it has {self.size:,} bytes, and has another number of "
                "them; migrate again when nobody writes to it"
            )
        return digest.hexdigest()

    def lines(self, at: int, number: int) -> Iterator[Line]:
        """The lines from `at` on, which is where line `number` begins."""
        with _read_to_the_end(self.given):
            for line in lines(self.file, at, number):
                if line.at >= self.size:
                    return
                yield line

    def is_as_it_was(self) -> bool:
        """Whether nobody wrote to the file since it was opened."""
        now = os.fstat(self.file.fileno())
        return (now.st_size, now.st_mtime_ns) == (self.size, self.changed_ns)


def open_source(given: str, files: Files | None) -> Source:
    """The file, or `Refused` with the reason. The caller closes it."""
    path = _resolved(given, files)
    try:
        # Looked at before it is opened, too: opening a device can set something going.
        _check(path.stat(), given)
        # Not waiting: a named pipe without a writer would hold this up for ever.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        descriptor = os.open(path, flags)
        try:
            about = os.fstat(descriptor)
            _check(about, given)
            if os.pread(descriptor, 2, 0) in _UTF_16:
                raise Refused(f"{given!r} is written in UTF-16; save it as UTF-8")
        except BaseException:
            os.close(descriptor)
            raise
    except FileNotFoundError:
        raise Refused(f"There is no file {given!r}") from None
    except OSError as error:
        raise Refused(f"{given!r} cannot be read: {error.strerror}") from None
    file = os.fdopen(descriptor, "rb", BUFFER)
    return Source(file, path.name, given, about.st_size, about.st_mtime_ns)


@contextmanager
def _read_to_the_end(given: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refused(
            f"{given!r} cannot be read to its end: {error.strerror}. Some of it may be imported; "
            "migrate again when it can be read"
        ) from None


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


def _check(about: os.stat_result, given: str) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise Refused(f"{given!r} is a directory; name the file in it, such as memory.jsonl")
    if not stat.S_ISREG(about.st_mode) or about.st_dev in _of_the_kernel():
        raise Refused(f"{given!r} is not a regular file")
    if about.st_size > MAX_FILE_BYTES:
        raise Refused(
            f"{given!r} has {about.st_size:,} bytes; at most {MAX_FILE_BYTES:,} are allowed"
        )


def _of_the_kernel() -> set[int]:
    """Where what looks like a file is a process's memory, its environment, or a switch."""
    found = (Path(place) for place in ("/proc", "/sys"))
    return {place.stat().st_dev for place in found if place.is_mount()}
