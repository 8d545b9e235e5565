"""A seal on a state's file: whether it is still what was written.

SQLite has sums in its write-ahead file, none in the database itself. That changes only when the
write-ahead file is carried over into it, which is done at chosen moments alone; after each, a hash
of the whole file is written beside it. The seal also says which write-ahead file belongs to it, by
the number that SQLite draws whenever it begins one: an older one would be laid over newer pages.
The number is known once something was written; until then the seal says that any may come. A state
that is not what was sealed is thrown away and made anew from the log.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

from mnemolog.projections import files

_HEADER_BYTES = 32
_SALT = slice(16, 20)


class Seal(msgspec.Struct, frozen=True):
    hash: str
    wal: int | Literal["any"] | None
    """The number of the write-ahead file beside it; None: there is none."""


def broken(path: Path) -> str | None:
    """What is wrong with a state's file; None when it is as it was sealed, or is not sealed."""
    seal = _read(path)
    if seal is None:
        return None
    if not path.exists():
        return "it is missing"
    if _hash(path) != seal.hash:
        return "its contents are not those that were written"
    if seal.wal != "any" and _wal_number(path) not in (None, seal.wal):
        return "the -wal file beside it is not its own"
    return None


def begin(path: Path) -> None:
    """To be called before a file that is as it was sealed is used: another write-ahead file may
    belong to it from now on."""
    there = _read(path)
    if there is not None and there.wal != "any":
        _write(path, Seal(there.hash, "any"))


def settle(path: Path) -> bool:
    """Seal what is in the file now, if it is not, and say which write-ahead file is its own, once
    there is one: True when that is known. Nothing may be carried over meanwhile."""
    number, there = _wal_number(path), _read(path)
    if there is None or (there.wal == "any" and number is not None):
        hash = _hash(path) if there is None else there.hash
        _write(path, Seal(hash, "any" if number is None else number))
    return number is not None


def close(path: Path) -> None:
    """Seal a file that nobody has open, unless a write-ahead file is left beside it."""
    if _wal_number(path) is None:
        _write(path, Seal(_hash(path), None))


def unseal(path: Path) -> None:
    _place(path).unlink(missing_ok=True)


def _wal_number(path: Path) -> int | None:
    """The number of the write-ahead file beside a database; None: there is nothing in it."""
    try:
        with path.with_name(f"{path.name}-wal").open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None
    return None if len(header) < _HEADER_BYTES else int.from_bytes(header[_SALT])


def _place(path: Path) -> Path:
    return path.with_name(f"{path.name}.seal")


def _read(path: Path) -> Seal | None:
    try:
        return msgspec.json.decode(_place(path).read_bytes(), type=Seal)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write(path: Path, seal: Seal) -> None:
    files.put(_place(path), msgspec.json.encode(seal))


def _hash(path: Path) -> str:
    found = hashlib.sha256()
    for piece in files.pieces(path):
        found.update(piece)
    return found.hexdigest()
