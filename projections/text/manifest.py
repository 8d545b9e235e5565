"""The small file that says up to which offset of each partition an index holds everything, and by
which marks its spaces are known to be whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mnemolog.projections import files
from mnemolog.projections.ports import IndexDamaged

FORMAT = 1
"""Goes up when the stored fields or the tokens of a text change: older indexes are rebuilt."""
FILE = "manifest.json"


class TextIndexError(IndexDamaged):
    """The index on disk cannot be used; the message says which part and what to do. `damaged`: the
    files themselves are at fault, and trying again does not help."""

    def __init__(self, path: Path, why: str, *, damaged: bool = True) -> None:
        self.damaged = damaged
        super().__init__(
            f"The text index at {path} cannot be used: {why}. "
            "`mnemolog rebuild` makes it anew from the log."
        )


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A moment of one space's index: the number of its commit, and the CRC-32 of its meta.json,
    which names every file of that moment."""

    opstamp: int
    crc: int


class Manifest(msgspec.Struct, frozen=True):
    """`spaces` are marks by the names of directories; None where an earlier version wrote none."""

    format: int
    checkpoints: dict[int, int]
    spaces: dict[str, Mark] | None = None


def open_root(root: Path) -> Manifest:
    """The manifest of the index at `root`, which is made if it is not there or empty."""
    found = read(root)
    if found is None:
        found = Manifest(FORMAT, {}, {})
        write(root, found)
    (root / "spaces").mkdir(exist_ok=True)
    return found


def read(root: Path) -> Manifest | None:
    """The manifest of the index at `root`; None when there is nothing."""
    path = root / FILE
    try:
        root.mkdir(parents=True, exist_ok=True)
        found = any(root.iterdir())
    except (FileExistsError, NotADirectoryError):
        raise TextIndexError(root, "it is not a directory") from None
    if not found:
        return None
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise TextIndexError(root, "the directory holds files but no manifest.json") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TextIndexError(path, f"its contents are damaged ({error})") from None
    if manifest.format != FORMAT:
        raise TextIndexError(path, f"it has format {manifest.format}, this version uses {FORMAT}")
    return manifest


def write(root: Path, manifest: Manifest) -> None:
    """Replace the manifest; after a crash it is either the old one or the new one."""
    files.replace(root / FILE, msgspec.json.encode(manifest))


def forget(root: Path) -> None:
    """Have the index made anew at the next opening: files without a manifest hold nothing."""
    (root / FILE).unlink(missing_ok=True)


def wipe(root: Path) -> None:
    """Remove all that is there, the manifest first."""
    files.wipe(root, FILE)


def without(manifest: Manifest, names: Mapping[str, object]) -> Manifest:
    """The manifest of an index that is to be fed from the beginning: spaces that are whole know
    how far they are, and skip what they have."""
    spaces = {name: mark for name, mark in (manifest.spaces or {}).items() if name not in names}
    return Manifest(FORMAT, {}, spaces)
