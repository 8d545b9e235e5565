"""What a vector shard's directory says of itself: its model, how far it followed the log, and what
its files are.

One small JSON file, replaced as a whole, so that it is either the old one or the new one whatever
is killed. A directory without it holds nothing that counts.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mnemolog.projections import files
from mnemolog.projections.ports import IndexDamaged

FORMAT = 1
FILE = "manifest.json"


class VectorIndexError(IndexDamaged):
    """The vector index on disk cannot be used; the message says why and what to do."""

    def __init__(self, directory: Path, why: str) -> None:
        super().__init__(
            f"The vector index in {directory} {why}. `mnemolog rebuild` makes it anew from the log."
        )


class Manifest(msgspec.Struct, frozen=True):
    """`checkpoints`: per partition the offset of the last decision that is durably in the shard.

    `files` are the sizes of the shard's files at the last commit, `points` how many points it held;
    None where an earlier version wrote none. `sums` are checksums of the files: there only between
    an orderly end and the next opening, since an open shard writes when it likes.
    """

    model: str
    dims: int
    checkpoints: dict[int, int]
    format: int = FORMAT
    points: int | None = None
    files: dict[str, int] | None = None
    sums: dict[str, int] | None = None


def read_manifest(directory: Path) -> Manifest | None:
    """The directory's manifest; None if it has none, which is so until the first commit."""
    try:
        text = (directory / FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(text, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise VectorIndexError(directory, f"has a damaged {FILE} ({error})") from error


def check_is_of(manifest: Manifest, directory: Path, dims: int, model: str) -> None:
    if manifest.format != FORMAT:
        raise VectorIndexError(
            directory, f"has format {manifest.format}, this version reads {FORMAT}"
        )
    if (manifest.model, manifest.dims) != (model, dims):
        raise ValueError(
            f"{directory} holds vectors of {manifest.model} with {manifest.dims} dimensions, "
            f"not of {model} with {dims}; give each model a directory of its own"
        )


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest; durable when this returns."""
    files.replace(directory / FILE, msgspec.json.encode(manifest))


def forget(directory: Path) -> None:
    """Have the index made anew at the next opening."""
    (directory / FILE).unlink(missing_ok=True)


def wipe(directory: Path) -> None:
    """Remove all that is there but the lock, the manifest first."""
    files.wipe(directory, FILE, but="lock")


@contextlib.contextmanager
def only_opener(directory: Path) -> Iterator[None]:
    """Hold the directory's lock, which ends with the process if nobody closes it."""
    file = (directory / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise BlockingIOError(
            error.errno,
            f"The vector index in {directory} is already open, here or in another process; "
            "close that one first",
        ) from error
    with file:
        yield
