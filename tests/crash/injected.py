"""Errors of real system calls in a running process, injected by strace while a block runs."""

from __future__ import annotations

import shutil
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
