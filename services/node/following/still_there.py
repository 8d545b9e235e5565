"""Whether files that are open are still what is found at their paths. What is written to one that
was deleted, or has another in its place, is gone when the process ends, and nothing tells."""

from __future__ import annotations

from pathlib import Path

Opened = dict[Path, tuple[int, int]]
"""By path the device and inode of a file that is open."""


def opened(*paths: Path) -> Opened:
    """Which files are at these paths now: to be asked when they have just been opened. A path
    where there is none is not looked at later either."""
    return {path: found for path in paths if (found := _found(path)) is not None}


def log_files(log: Path) -> Opened:
    """Of an SQLite log that has just been opened: the newest transactions are in its `-wal`."""
    return opened(log, log.with_name(f"{log.name}-wal"))


def log_is_gone(files: Opened) -> str | None:
    """Why what is written to the log now would be lost; None: its files are where they were."""
    for path, then in files.items():
        now = _found(path)
        if now is None:
            return (
                f"{path} was deleted or moved while it was in use. What is written now would be "
                "lost, so nothing is: put it back where it was, or restore it from a backup and "
                "restart mnemolog"
            )
        if now != then:
            return (
                f"{path} was replaced by another file while it was in use. What is written now "
                "would be lost, so nothing is: restart mnemolog to go on with the file that is "
                "there, or put the old one back"
            )
    return None


def _found(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
