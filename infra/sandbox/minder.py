"""Ends what runs in the sandbox when the process that started it is gone, however it ended.

One shell for all of them: it reads which processes there are from a pipe that only their parent
holds the other end of. When that comes to its end, it kills those that are left.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from typing import IO, Final

_SCRIPT: Final = """
running=
while read -r what group; do
    case $what in
        begins) running="$running $group" ;;
        ends)
            others=
            for one in $running; do
                [ "$one" = "$group" ] || others="$others $one"
            done
            running=$others ;;
    esac
done
for one in $running; do kill -s KILL -- "-$one"; done
"""


class Minder:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def begins(self, group: int) -> None:
        """From now on the process group ends with this process. Say so before it has anything
        that it could do."""
        self._tell(f"begins {group}\n")

    def ends(self, group: int) -> None:
        """It was killed. Say so before it is waited for: after that its number may be another's."""
        self._tell(f"ends {group}\n")

    def close(self) -> None:
        with self._lock:
            if self._process is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._process.communicate()
                self._process = None

    def _tell(self, line: str) -> None:
        with self._lock:
            try:
                self._pipe().write(line.encode())
            except BrokenPipeError:
                # Somebody ended the shell. Another one takes over, for what begins from now on.
                assert self._process is not None
                self._process.communicate()
                self._process = None
                self._pipe().write(line.encode())

    def _pipe(self) -> IO[bytes]:
        if self._process is None:
            # A session of its own: what ends the parent's group must not end it, too.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                start_new_session=True,
            )
        assert self._process.stdin is not None
        return self._process.stdin
