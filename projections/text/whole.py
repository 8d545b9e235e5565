"""Whether the files of a text index are those that were committed, asked before they are opened.

Tantivy ends each file of a segment in a footer with a CRC-32 of what is before it, and names the
segments in `meta.json`, whose own CRC-32 is in our manifest. So every byte is accounted for; to
read them takes some 10 ms per 100,000 memories.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgspec

from mnemolog.projections.files import drop
from mnemolog.projections.text import manifest
from mnemolog.projections.text.manifest import Mark, TextIndexError

PARTS = ("idx", "pos", "term", "store", "fast", "fieldnorm")
"""Of each segment; one that something was deleted from has a list of that too."""
MAGIC = 1337
"""The last four bytes of a file; the four before them are the length of its footer."""
PIECE = 1 << 20


class _Deletes(msgspec.Struct):
    opstamp: int


class _Segment(msgspec.Struct):
    segment_id: str
    deletes: _Deletes | None = None

    def files(self) -> list[str]:
        name = self.segment_id.replace("-", "")
        deleted = [] if self.deletes is None else [f"{name}.{self.deletes.opstamp}.del"]
        return [*(f"{name}.{part}" for part in PARTS), *deleted]


class _Version(msgspec.Struct):
    major: int
    minor: int
    patch: int
    index_format_version: int


class _Footer(msgspec.Struct):
    version: _Version
    crc: int


class _Meta(msgspec.Struct):
    segments: list[_Segment]
    opstamp: int


def mend(root: Path) -> list[str]:
    """Drop what is not whole of the index at `root`, so that it is made anew as the log is
    followed; a sentence for each."""
    try:
        found = manifest.read(root)
    except TextIndexError as error:
        manifest.wipe(root)
        return [str(error)]
    if found is None:
        return []
    damaged = damages(root, found.spaces or {})
    if damaged:
        # First the manifest: what is dropped must not be taken for something that is there.
        manifest.write(root, manifest.without(found, damaged))
        for name in damaged:
            drop(root / "spaces" / name)
    return list(damaged.values())


def damages(root: Path, marks: dict[str, Mark]) -> dict[str, str]:
    """By the names of their directories what is wrong with the spaces that are not whole."""
    spaces = root / "spaces"
    there = {path.name for path in spaces.iterdir()} if spaces.is_dir() else set()
    found = {}
    for name in sorted(there | marks.keys()):
        try:
            check(spaces / name, marks.get(name))
        except TextIndexError as error:
            found[name] = str(error)
    return found


def check(path: Path, mark: Mark | None) -> None:
    """`TextIndexError` when the index of one space is not as it was committed. One that is newer
    than `mark` is whole: its commit was the last before a crash."""
    try:
        head = (path / "meta.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if mark is None and next(path.glob("*.store"), None) is None:
            return  # made, and never committed
        raise TextIndexError(path, "its meta.json is missing") from None
    meta = _decoded(path, "meta.json", head, _Meta)
    if mark is not None and meta.opstamp < mark.opstamp:
        raise TextIndexError(path, "it is older than the manifest says")
    if mark is not None and meta.opstamp == mark.opstamp and zlib.crc32(head) != mark.crc:
        raise TextIndexError(path, "its meta.json was changed")
    try:
        _decoded(path, ".managed.json", (path / ".managed.json").read_bytes(), list[str])
        for segment in meta.segments:
            for name in segment.files():
                _check_file(path, name)
    except FileNotFoundError as error:
        raise TextIndexError(path, f"its file {Path(error.filename).name} is missing") from None


def mark_of(path: Path) -> Mark | None:
    """The mark of the index of a space as it is; None when there is none."""
    try:
        head = (path / "meta.json").read_bytes()
    except FileNotFoundError:
        return None
    return Mark(_decoded(path, "meta.json", head, _Meta).opstamp, zlib.crc32(head))


def _decoded(path: Path, name: str, data: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TextIndexError(path, f"its {name} is damaged ({error})") from None


def _check_file(path: Path, name: str) -> None:
    with (path / name).open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        body = size - 8 - length
        if len(end) < 8 or int.from_bytes(end[4:], "little") != MAGIC or body < 0:
            raise TextIndexError(path, f"its file {name} has lost its end")
        file.seek(body)
        footer = _decoded(path, name, file.read(length), _Footer)
        file.seek(0)
        crc, left = 0, body
        while left and (piece := file.read(min(PIECE, left))):
            crc, left = zlib.crc32(piece, crc), left - len(piece)
    if crc != footer.crc:
        raise TextIndexError(path, f"its file {name} was changed")
