"""The file of API keys: whose they are, what they allow, and a hash of each.

It is replaced as a whole, so whoever reads it sees it before a change or after. Whoever can write
to it lets themselves in: a file that others can change is not believed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from mnemolog.events.fields import NO_CONTROLS, TENANT
from mnemolog.services.scopes import Scope

FORMAT: Final = 1
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of the file: some ten thousand keys."""
MAX_NAME: Final = 128
MAX_SPOKEN_FOR: Final = 1000
MAX_DAYS: Final = 36_500
OTHERS_WRITE: Final = 0o022
_PART = r"[A-Za-z0-9][A-Za-z0-9._@-]*"
_NAME = rf"^{_PART}(/{_PART})*\Z"
_KEY = re.compile(r"mnk_([0-9a-f]{16})_[0-9a-f]{64}")
_SPAN = re.compile(r"(\d{1,6})([hd])")

Name = Annotated[str, msgspec.Meta(pattern=_NAME, max_length=MAX_NAME)]
Spoken = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=MAX_NAME)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class KeysProblem(Exception):
    """The sentence is for operators: it names the file, and nothing of what is in it."""


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a key: not the key."""

    name: Name
    id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}\Z")]
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
    tenant: Annotated[str, msgspec.Meta(pattern=TENANT)]
    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(min_length=1)]
    speaks_for: Annotated[tuple[Spoken, ...], msgspec.Meta(max_length=MAX_SPOKEN_FOR)] = ()
    created: Moment
    expires: Moment | None = None
    revoked: Moment | None = None

    def state(self, now: datetime) -> str:
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Annotated[int, msgspec.Meta(ge=FORMAT, le=FORMAT)]
    keys: list[Key]


class Stamp(NamedTuple):
    """Tells one state of the file from another, its owner and mode included."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, about: os.stat_result) -> Stamp:
        return cls(about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def stamp(path: Path) -> Stamp | None:
    """None: there is no such file."""
    try:
        return Stamp.of(path.stat())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from None


def read(path: Path) -> tuple[Stamp | None, list[Key]]:
    """The keys, none if there is no file. Raises `KeysProblem`."""
    try:
        # A pipe in its place must not keep anybody waiting.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None, []
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        about = os.fstat(file)
        _check(path, about)
        with os.fdopen(file, "rb", closefd=False) as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(file)
    return Stamp.of(about), _decoded(path, data)


def _check(path: Path, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise KeysProblem(f"{path} is no file: keys are kept in a regular file")
    if about.st_uid not in (os.geteuid(), 0):
        raise KeysProblem(
            f"{path} belongs to user {about.st_uid}, who could let in anybody: it has to be this "
            f"user's ({os.geteuid()}) or root's"
        )
    if about.st_mode & OTHERS_WRITE:
        raise KeysProblem(
            f"{path} can be changed by other users, who could let in anybody: look whether its "
            "keys are yours (`mnemolog keys list` after `chmod 600`), and revoke what is not"
        )
    if about.st_size > MAX_BYTES:
        raise KeysProblem(f"{path} has {about.st_size:,} bytes; at most {MAX_BYTES:,} are read")


def _decoded(path: Path, data: bytes) -> list[Key]:
    try:
        found = msgspec.json.decode(data, type=_File).keys
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = None
    if found is None or any(
        len({getattr(key, field) for key in found}) < len(found) for field in ("id", "name")
    ):
        raise KeysProblem(
            f"{path} is damaged, or of a newer version: put a copy of it back, or move it away and "
            "make new keys with `mnemolog keys add`"
        )
    return found


def change(path: Path, of: Callable[[list[Key]], list[Key]]) -> None:
    """Replace the keys by what `of` makes of them; two who do it at once come one after another."""
    # A link stays one: what it leads to is replaced.
    path = path.resolve()
    with _lock(path.with_name(f"{path.name}.lock")):
        _, keys = read(path)
        data = msgspec.json.format(msgspec.json.encode(_File(FORMAT, of(keys))))
        if len(data) > MAX_BYTES:
            raise KeysProblem(f"{path} is full: at most {MAX_BYTES:,} bytes are read")
        new = path.with_name(f"{path.name}.new")
        new.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
            file.write(data + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        _sync(path.parent)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _sync(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _unreadable(path: Path, error: OSError) -> KeysProblem:
    return KeysProblem(f"{path} cannot be read: {error.strerror}")


# --- keys -----------------------------------------------------------------------------------------


def new_key() -> tuple[str, str]:
    """A key nobody has, and its id."""
    id_ = secrets.token_hex(8)
    return f"mnk_{id_}_{secrets.token_hex(32)}", id_


def id_of(key: str) -> str | None:
    """The id in what may be a key."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]


def hashed(key: str) -> str:
    # Nobody guesses 256 random bits, so a slow hash would only cost every request its time.
    return hashlib.sha256(key.encode()).hexdigest()


def expiry(written: str, now: datetime) -> datetime:
    """When `90d`, `12h`, or a date or time in ISO 8601 (UTC unless it says otherwise) is. Raises
    `ValueError`."""
    span = _SPAN.fullmatch(written)
    if span is not None:
        hours = int(span[1]) * (24 if span[2] == "d" else 1)
        found = now + timedelta(hours=hours)
    else:
        found = datetime.fromisoformat(written)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    if not now < found <= now + timedelta(days=MAX_DAYS):
        raise ValueError(written)
    return found
