"""The small file that says up to which offset of each partition an index holds everything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mnemolog.projections.ports import IndexDamaged

FORMAT = 1
"""Goes up when the stored fields or the tokens of a text change: older indexes are rebuilt."""


class TextIndexError(IndexDamaged):
    """The index on disk cannot be used; the message says which part and what to do."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"The text index at {path} cannot be used: {why}. "
            "`mnemolog rebuild` makes it anew from the log."
        )


class Manifest(msgspec.Struct, frozen=True):
    format: int
    checkpoints: dict[int, int]


def open_root(root: Path) -> dict[int, int]:
    """The checkpoints of the index at `root`, which is made if it is not there or empty."""
    path = root / "manifest.json"
    try:
        root.mkdir(parents=True, exist_ok=True)
        found = any(root.iterdir())
    except (FileExistsError, NotADirectoryError):
        raise TextIndexError(root, "it is not a directory") from None
    if not found:
        (root / "spaces").mkdir()
        write(root, {})
        return {}
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise TextIndexError(root, "the directory holds files but no manifest.json") from None
    except msgspec.DecodeError as error:
        raise TextIndexError(path, f"its contents are damaged ({error})") from None
    if manifest.format != FORMAT:
        raise TextIndexError(path, f"it has format {manifest.format}, this version uses {FORMAT}")
    return manifest.checkpoints


def write(root: Path, checkpoints: Mapping[int, int]) -> None:
    """Replace the manifest; after a crash it is either the old one or the new one."""
    path = root / "manifest.json"
    beside = root / "manifest.json.new"
    with beside.open("wb") as file:
        file.write(msgspec.json.encode(Manifest(FORMAT, dict(checkpoints))))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_directory(root)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
