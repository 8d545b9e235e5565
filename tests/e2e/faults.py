"""Faults that real processes meet: system calls that fail, disks that are full, a process that is
stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def failing(pid: int, calls: str, error: str) -> Iterator[None]:
    """Meanwhile the process's system calls of these names fail with `error`."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.fail("strace is missing")
    wanted = ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
    tracing = subprocess.Popen(
        [strace, "-f", "-p", str(pid), *wanted, "-o", "/dev/null"], stderr=subprocess.PIPE
    )
    try:
        assert tracing.stderr is not None
        told = tracing.stderr.readline().decode()
        assert "attached" in told, told
        yield
    finally:
        tracing.terminate()
        tracing.communicate()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A disk of its own at `place`, with little room."""
    place.mkdir()
    size = f"size={megabytes}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "mnemolog", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """A file that takes all of the room but `left` bytes."""
    filler = disk / "filler"
    room = os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - left)
    return filler
