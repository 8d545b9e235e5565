"""What a run wrote, within bounds, and what is made of it.

On stdout comes the answer: a nonce that the code does not know, a length, a kind and JSON. What the
code writes there itself counts as console. Whatever comes, it is only read.
"""

from __future__ import annotations

import re
import signal
from typing import Final

import msgspec

from mnemolog.infra.sandbox.outcome import Kind, Limits, Outcome, failed

_TAIL: Final = 16384
_HEADER: Final = re.compile(rb"(\d{1,9}):")
_HEADER_BYTES: Final = 16
_FATAL: Final = re.compile(
    rb"out of memory|memory allocation of \d+ bytes failed|Failed to reserve"
)
# What Deno and V8 say when they give up: it names places of this machine, and helps nobody.
_LAST_WORDS: Final = re.compile(
    rb"(?m)^\n*(?:<--- Last few GCs|#\n# Fatal|memory allocation of \d+ b|error: Top-level await)"
)
_NO_ROOM: Final = re.compile(
    r"RangeError: .*(allocation failed|could not allocate|[Oo]ut of memory|Unable to grow)"
)


class Told:
    def __init__(self, nonce: bytes, limits: Limits) -> None:
        self._nonce = nonce
        self._limits = limits
        self._most_out = limits.result_bytes + limits.console_bytes + _HEADER_BYTES
        self._out = bytearray()
        self._answer_at: int | None = None
        self._console = bytearray()
        self._cut = False
        self._tail = b""

    def to_console(self, block: bytes) -> None:
        room = self._limits.console_bytes - len(self._console)
        self._console += block[:room]
        self._cut |= len(block) > room
        self._tail = (self._tail + block)[-_TAIL:]

    def to_stdout(self, block: bytes) -> bool:
        """Whether that is enough: the answer is there, or there will be none."""
        seen = max(0, len(self._out) - len(self._nonce))
        self._out += block
        if self._answer_at is None and (at := self._out.find(self._nonce, seen)) >= 0:
            self._answer_at = at + len(self._nonce)
        return self._answer() is not None or len(self._out) > self._most_out

    def outcome(self, status: int, killed_for: Kind) -> Outcome:
        """What came of it, once the process has ended with `status`; if it was killed, and not by
        us, then most likely for that."""
        answer = self._answer()
        if answer is None:
            return self._without_answer(status, killed_for)
        kind, _, text = answer.partition(b" ")
        try:
            return _read(kind, text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return failed("output", "the result cannot be read as JSON")
        except RecursionError:
            return failed("output", "the result is nested too deeply: return it flatter")

    def console(self) -> tuple[str, bool]:
        """What is kept of the console, and whether there was more."""
        stray = len(self._out) if self._answer_at is None else self._answer_at - len(self._nonce)
        if stray:
            self.to_console(bytes(self._out[:stray]))
        last = _LAST_WORDS.search(self._console)
        kept = self._console[: last.start()] if last else self._console
        # The last character may have been cut in two.
        return kept.decode(errors="ignore" if self._cut else "replace"), self._cut

    def _answer(self) -> bytes | None:
        if self._answer_at is None:
            return None
        header = _HEADER.match(self._out, self._answer_at)
        if header is None or len(self._out) < header.end() + int(header[1]):
            return None
        return bytes(self._out[header.end() : header.end() + int(header[1])])

    def _without_answer(self, status: int, killed_for: Kind) -> Outcome:
        if len(self._out) > self._most_out:
            return failed("output", "the code wrote more to stdout than is taken: print less")
        if status == -signal.SIGKILL:
            kind = killed_for
        else:
            kind = "memory" if status < 0 and _FATAL.search(self._tail) else "error"
        if kind == "memory":
            return failed(kind, too_much_memory(self._limits))
        if kind == "timeout":
            return failed(kind, "the code computed for too long")
        if b"promise never resolved" in self._tail:
            return failed(kind, "the promise that the code ended with is never settled")
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        return failed(kind, f"the code ended its process ({how}) without a result")


def too_much_memory(limits: Limits) -> str:
    heap, resident = limits.heap_mb, limits.resident_mb
    return f"the code took too much memory: it has {heap} MB for objects and {resident} MB in all"


def _read(kind: bytes, text: bytes) -> Outcome:
    if kind == b"value":
        msgspec.json.decode(text)
        return Outcome(ok=True, value=text)
    message = msgspec.json.decode(text, type=str)
    if kind == b"error":
        return failed("memory" if _NO_ROOM.match(message) else "error", message)
    return failed("output", message)
