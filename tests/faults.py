"""Faults that real processes meet: system calls that fail (by strace), disks that are full, a
process that is stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ATTACH_WITHIN_S = 60.0


@contextmanager
def failing(pid: int, error: str, *calls: str, files: tuple[Path, ...] = ()) -> Iterator[None]:
    """Within the block, `calls` of the process on `files` (none: on any) fail with `error`."""
    assert shutil.which("strace"), "strace is missing: install it"
    paths = [part for file in files for part in ("-P", str(file))]
    names = ",".join(calls)
    what = ["-e", f"trace={names}", "-e", f"inject={names}:error={error}", "-o", "/dev/null"]
    tracer = subprocess.Popen(
        ["strace", "-f", "-p", str(pid), *paths, *what], stderr=subprocess.PIPE
    )
    try:
        _wait_until_attached(pid, tracer)
        yield
    finally:
        tracer.terminate()
        tracer.wait(ATTACH_WITHIN_S)
        assert tracer.stderr is not None
        tracer.stderr.close()


def _wait_until_attached(pid: int, tracer: subprocess.Popen[bytes]) -> None:
    """Until every thread has its tracer; one that is started later has it from the beginning."""
    deadline = time.monotonic() + ATTACH_WITHIN_S
    while time.monotonic() < deadline:
        assert tracer.poll() is None, tracer.stderr.read() if tracer.stderr else ""
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        if all(f"TracerPid:\t{tracer.pid}\n" in (one / "status").read_text() for one in threads):
            return
        time.sleep(0.01)
    raise AssertionError(f"strace did not attach to process {pid}")


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
