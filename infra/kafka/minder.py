"""Ends a process when the one that started it is gone, however that one ended.

The system's own signal for that comes when the thread ends that started the process, and on Linux
alone. So a shell waits at a pipe that only the parent holds the other end of: it reads a line
when all is well, and comes to the end when the parent was killed.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import Final

_SCRIPT: Final = """
read -r all_is_well && exit
kill "$1"
for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kill -0 "$1" || exit
    sleep 1
done
kill -KILL "$1"
"""


class Minder:
    def __init__(self, pid: int) -> None:
        # A session of its own: what ends the parent's group must not end it, too.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "minder", str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def release(self) -> None:
        """The process has ended, and need not be minded any more."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(b"all is well\n")
