"""One run: a process without any permission, fed, watched, and killed in the end."""

from __future__ import annotations

import base64
import contextlib
import math
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Final

import msgspec

from mnemolog.infra.sandbox.minder import Minder
from mnemolog.infra.sandbox.outcome import Kind, Limits, Outcome, failed
from mnemolog.infra.sandbox.told import Told, too_much_memory

_LOOK_S: Final = 0.02
_BLOCK: Final = 65536
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_BOOTSTRAP: Final = Path(__file__).with_name("bootstrap.js")

# Limits that the system holds, whoever is gone: no cores, no files, few descriptors, computing time
# and memory. A system that does not know one of them goes without.
_SHELL: Final = """
exec 9>&2 2>/dev/null
ulimit -c 0; ulimit -f 0; ulimit -n 256; ulimit -t "$1"; ulimit -d "$2"
shift 2
exec "$@" 2>&9 9>&-
"""
# Whatever Deno keeps from one run to the next (its cache, localStorage) would be a way from one
# caller to another. Nothing can be made below a device, so nothing is kept.
_ENVIRONMENT: Final = {
    "DENO_DIR": "/dev/null/none",
    "DENO_EMIT_CACHE_MODE": "disable",
    "DENO_NO_PACKAGE_JSON": "1",
    "DENO_NO_UPDATE_CHECK": "1",
    "HOME": "/nonexistent",
    "NO_COLOR": "1",
    "TZ": "UTC",
}
_FLAGS: Final = (
    *("--no-prompt", "--no-check", "--no-code-cache", "--no-config", "--no-lock"),
    *("--no-remote", "--no-npm", "--cached-only"),
    *(f"--deny-{it}" for it in ("read", "write", "net", "env", "sys", "run", "ffi", "import")),
)


def bootstrap() -> str:
    """The script that runs the code, named by what is in it: a stack then does not show where
    this is installed."""
    return "data:text/javascript;base64," + base64.b64encode(_BOOTSTRAP.read_bytes()).decode()


def command(deno: str, script: str, limits: Limits, cpu_s: float) -> list[str]:
    limited = ["/bin/sh", "-c", _SHELL, "sh", f"{math.ceil(cpu_s)}", f"{limits.data_mb * 1024}"]
    heap = f"--v8-flags=--max-old-space-size={limits.heap_mb}"
    return [*limited, deno, "run", *_FLAGS, heap, script]


class Run:
    def __init__(self, limits: Limits, wall_s: float, minder: Minder) -> None:
        self._limits = limits
        self._wall_s = wall_s
        self._cpu_s = wall_s * limits.cpu_share
        self._minder = minder
        self._nonce = secrets.token_hex(16)
        self._told = Told(self._nonce.encode(), limits)
        self._cpu_seen = 0.0
        self._resident_seen = 0

    def outcome(self, deno: str, script: str, payload: dict[str, object]) -> Outcome:
        sent = msgspec.json.encode({**payload, "nonce": self._nonce})
        began = time.monotonic()
        process = subprocess.Popen(
            command(deno, script, self._limits, self._cpu_s),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env=_ENVIRONMENT,
            start_new_session=True,
        )
        assert process.stdin and process.stdout and process.stderr
        pipes = (process.stdin, process.stdout, process.stderr)
        try:
            # It gets what it is to do afterwards, and ends if that never comes.
            self._minder.begins(process.pid)
            stopped = self._watch(process.pid, pipes, sent, began + self._wall_s)
        finally:
            status = self._end(process)
            while block := os.read(process.stderr.fileno(), _BLOCK):
                self._told.to_console(block)
            for pipe in pipes:
                _close(pipe)
        return self._finished(stopped, status, time.monotonic() - began)

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Its status. What had ended by itself by now keeps the one that it ended with."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            self._minder.ends(process.pid)
        finally:
            status = process.wait()
        return status

    def _finished(self, stopped: Outcome | None, status: int, took: float) -> Outcome:
        found = stopped or self._told.outcome(status, self._nearest_limit())
        text, cut = self._told.console()
        return msgspec.structs.replace(found, console=text, console_cut=cut, ms=took * 1000)

    def _watch(
        self,
        pid: int,
        pipes: tuple[IO[bytes], IO[bytes], IO[bytes]],
        sent: bytes,
        deadline: float,
    ) -> Outcome | None:
        """Until there is an answer, or the process has closed its ends; or until it is past a
        limit, which is returned. The process is not waited for here, so its number stays its."""
        stdin, stdout, stderr = pipes
        left = memoryview(sent)
        with selectors.DefaultSelector() as selector:
            os.set_blocking(stdin.fileno(), False)
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            looked = 0.0
            while stdout in selector.get_map() or stderr in selector.get_map():
                now = time.monotonic()
                if now >= deadline:
                    return failed("timeout", f"the code ran for longer than {self._wall_s:g} s")
                if now - looked >= _LOOK_S:
                    looked = now
                    if past := self._past_limit(pid):
                        return past
                for key, _ in selector.select(min(_LOOK_S, deadline - now)):
                    if key.fileobj is stdin:
                        left = _feed(stdin, left)
                        if not left:
                            selector.unregister(stdin)
                            _close(stdin)
                    elif not (block := os.read(key.fd, _BLOCK)):
                        selector.unregister(key.fileobj)
                    elif key.fileobj is stderr:
                        self._told.to_console(block)
                    elif self._told.to_stdout(block):
                        return None
        return None

    def _past_limit(self, pid: int) -> Outcome | None:
        """By what /proc says; on other systems what the shell set, and the time, have to do."""
        if sys.platform != "linux":
            return None
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        fields = stat[stat.rindex(b")") + 2 :].split()
        self._cpu_seen = (int(fields[11]) + int(fields[12])) / _TICKS
        if self._cpu_seen > self._cpu_s:
            return failed("timeout", f"the code computed for longer than {self._cpu_s:g} s")
        self._resident_seen = max(self._resident_seen, int(fields[21]) * _PAGE)
        if self._resident_seen > self._limits.resident_mb << 20:
            return failed("memory", too_much_memory(self._limits))
        return None

    def _nearest_limit(self) -> Kind:
        """What the system would have killed it for: it does so a moment before or after we do."""
        if self._cpu_seen > self._cpu_s * 0.8:
            return "timeout"
        return "memory" if self._resident_seen > self._limits.resident_mb << 19 else "error"


def _feed(pipe: IO[bytes], left: memoryview) -> memoryview:
    """What is left of it then; nothing, too, if it is not read any more."""
    try:
        return left[os.write(pipe.fileno(), left[:_BLOCK]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]


def _close(pipe: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):
        pipe.close()
