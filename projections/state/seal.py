"""A seal on a state's file: whether it is still what was written.

SQLite has sums in its write-ahead file, none in the database itself. That changes only when the
write-ahead file is carried over into it, which is done at chosen moments alone; after each, a hash
of the whole file is written beside it. The seal also says which write-ahead file belongs to it, by
the number that SQLite counts up whenever it begins one anew: an older one would be laid over newer
pages. A state that is not what was sealed is thrown away and made anew from the log.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from mnemolog.projections import files

_HEADER_BYTES = 32
_SALT = slice(16, 20)


class Seal(msgspec.Struct, frozen=True):
    hash: str
    wal: int | None
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
    number = wal_number(path)
    if number is not None and number != seal.wal:
        return "the -wal file beside it is not its own"
    return None


def seal(path: Path, wal: int | None) -> None:
    """Seal what is in the file now. Nothing may be carried over into it meanwhile."""
    _write(path, Seal(_hash(path), wal))


def begin(path: Path) -> None:
    """To be called when a file that is as it was sealed is used: another write-ahead file belongs
    to it from now on."""
    number, there = wal_number(path), _read(path)
    if there is None:
        seal(path, number)
    elif there.wal != number:
        _write(path, Seal(there.hash, number))


def unseal(path: Path) -> None:
    _place(path).unlink(missing_ok=True)


def is_sealed(path: Path) -> bool:
    return _place(path).exists()


def wal_number(path: Path) -> int | None:
    """The number of the write-ahead file beside a database; None: there is nothing in it."""
    try:
        with path.with_name(f"{path.name}-wal").open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None
    return None if len(header) < _HEADER_BYTES else int.from_bytes(header[_SALT])


def next_number(number: int) -> int:
    """Of the write-ahead file that SQLite begins after this one."""
    return (number + 1) % 2**32


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
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
