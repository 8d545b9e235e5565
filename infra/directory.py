"""The data directory is its user's alone.

Whoever can read it has the memory, whoever can write to it changes the memory, and its socket takes
calls. So what the service makes is closed to others. A directory that is open to them is closed if
it holds a memory and nothing else, and refused otherwise: it may be somebody's home.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

from mnemolog.infra.settings import SettingsError

OTHERS = 0o077
ROOT = 0
_OURS = (
    r"log\.db(-wal|-shm|-journal)?|(serve\.)?lock|socket|import|replica"
    r"|projections(\.(new|old|kept(-\d+)?))?|keys\.json(\.new|\.lock)?"
)
_AS_IT_IS = ("import", "keys.json")
"""What is imported is only read, and may be put there by others. Keys that others could change are
not made good by closing the file: that is for whoever reads it to find."""


def close_to_others() -> None:
    """What this process makes from here on is its user's alone."""
    os.umask(OTHERS)


def own_directory(path: Path) -> None:
    """Make the directory, or see to it that the one there is this user's alone."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = path.stat()
    # Of root, too, another user's directory is refused: what root makes there is root's, and that
    # user could no longer open the store.
    if about.st_uid != os.geteuid():
        raise _not_ours(path, about)
    names = [one.name for one in path.iterdir()]
    if about.st_mode & OTHERS:
        strange = next((name for name in names if not re.fullmatch(_OURS, name)), None)
        if strange is not None:
            raise SettingsError(
                f"{path} is open to other users, and holds more than a memory ({strange!r}). Close "
                "it to them with `chmod 700`, or give a directory of its own with --data"
            )
        path.chmod(0o700)
    for name in names:
        if re.fullmatch(_OURS, name) and name not in _AS_IT_IS:
            with contextlib.suppress(FileNotFoundError):  # another process is at work here
                _close(path / name)


def _close(path: Path) -> None:
    """What an earlier version, or a copy, left open to others. A link may lead to another disk."""
    for about in (path.lstat(), path.stat()):
        if about.st_uid not in (os.geteuid(), ROOT):
            raise _not_ours(path, about)
    if about.st_uid == os.geteuid() and about.st_mode & OTHERS:
        path.chmod(stat.S_IMODE(about.st_mode) & ~OTHERS)


def _not_ours(path: Path, about: os.stat_result) -> SettingsError:
    return SettingsError(
        f"{path} belongs to user {about.st_uid}, and this process is user {os.geteuid()}'s: run it "
        "as that user, or give another directory with --data"
    )
