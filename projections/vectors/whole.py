"""Whether the files of a shard are those that were committed, asked before the engine opens them.

The engine keeps no checksums and takes a file that is missing for one that is empty. So the
manifest names the files and their sizes, and after an orderly end also checksums: of all but those
that hold vectors, codes and payloads, which are nearly all there is to read, and change in place:
their contents are compared with the log in the background (`expected.py`).
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from mnemolog.projections import files
from mnemolog.projections.vectors.manifest import (
    FORMAT,
    Manifest,
    VectorIndexError,
    read_manifest,
)

PASSING = "tracker_journal.dat"
"""Comes and goes while a shard is open."""

_READ = 1 << 20
"""Bytes that are read at once, in the background."""


def files_of(shard: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every file below `shard`, by its path from there."""
    root = os.fspath(shard)
    directories = [root]
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.path)
                else:
                    yield entry.path[len(root) + 1 :], entry.stat()


def sizes_of(shard: Path) -> dict[str, int]:
    """Of the files that stay while it is open: they may grow."""
    return {name: stat.st_size for name, stat in files_of(shard) if not name.endswith(PASSING)}


def sums_of(shard: Path) -> dict[str, int]:
    return {name: _sum(shard / name) for name, _ in files_of(shard) if not _is_bulk(name)}


def check(directory: Path) -> None:
    """`VectorIndexError` when the shard in `directory` is not as its manifest says. Nothing there
    is fine, and so is one that an earlier version left without saying what it holds."""
    if directory.exists() and not directory.is_dir():
        raise VectorIndexError(directory, "is not a directory")
    manifest = read_manifest(directory)
    if manifest is None and (directory / "shard").exists():
        raise VectorIndexError(directory, "has a shard that was given up, or never finished")
    if manifest is None or manifest.format != FORMAT or manifest.files is None:
        return
    shard = directory / "shard"
    try:
        there = {name: stat.st_size for name, stat in files_of(shard)}
    except (FileNotFoundError, NotADirectoryError):
        raise VectorIndexError(directory, "has lost its shard") from None
    _check_sizes(directory, manifest, there)
    for name, due in (manifest.sums or {}).items():
        if name not in there:
            raise VectorIndexError(directory, f"has lost the file {name}")
        if _sum(shard / name) != due:
            raise VectorIndexError(directory, f"has a file that was changed ({name})")


def read_through(directory: Path, names: Iterable[str]) -> Iterator[None]:
    """Read files of the shard a piece at a time; `VectorIndexError` where the disk does not give
    them back. To be done before all of them is read as the engine does it, mapped into memory:
    there the same ends the process."""
    for name in names:
        try:
            with (directory / "shard" / name).open("rb", buffering=0) as file:
                while file.read(_READ):
                    yield
        except FileNotFoundError:
            continue  # The engine replaced it, or all of it was put elsewhere.
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise VectorIndexError(directory, f"cannot be read ({name}: {error})") from error


def _check_sizes(directory: Path, manifest: Manifest, there: dict[str, int]) -> None:
    for name, due in (manifest.files or {}).items():
        size = there.get(name)
        if size is None:
            raise VectorIndexError(directory, f"has lost the file {name}")
        if size < due or (manifest.sums is not None and size != due):
            raise VectorIndexError(directory, f"has a file of {size} bytes that had {due} ({name})")


def _is_bulk(name: str) -> bool:
    return name.endswith(".mmap") or "/payload_storage/page_" in name


def _sum(path: Path) -> int:
    crc = 0
    for piece in files.pieces(path):
        crc = zlib.crc32(piece, crc)
    return crc
