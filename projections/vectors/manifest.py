"""What a vector shard's directory says of itself: its model, and how far it followed the log.

One small JSON file, replaced as a whole, so that it is either the old one or the new one whatever
is killed. A directory without it holds nothing that counts.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

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
    """`checkpoints`: per partition the offset of the last decision that is durably in the shard."""

    model: str
    dims: int
    checkpoints: dict[int, int]
    format: int = FORMAT


def read_manifest(directory: Path) -> Manifest | None:
    """The directory's manifest; None if it has none, which is so until the first commit."""
    try:
        text = (directory / FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise VectorIndexError(directory, f"has a damaged {FILE} ({error})") from error


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest; durable when this returns."""
    new = directory / f"{FILE}.new"
    with new.open("wb") as file:
        file.write(msgspec.json.encode(manifest))
        file.flush()
        os.fsync(file.fileno())
    new.replace(directory / FILE)
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
