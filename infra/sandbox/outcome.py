"""What the sandbox allows, and what came of running something in it."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["error", "timeout", "memory", "busy", "refused", "unavailable", "output"]
"""What went wrong: the code threw something or ended its process, took too long, took too much
memory, got no turn, was not taken at all; there is no Deno; what came out cannot be passed on."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    wall_s: float = 5.0
    cpu_share: float = 0.5
    """The part of its time that code may spend computing, on all of its threads together."""
    heap_mb: int = 128
    """For what JavaScript's own memory manager counts; what is past it ends the process."""
    resident_mb: int = 320
    """For all memory that is really in use, buffers and Deno itself included (35 MB of them)."""
    data_mb: int = 800
    """For writable memory, in use or not. V8 takes 540 MB for itself and hardly uses them, so this
    leaves 260. The system holds it without anybody watching; it knows it on Linux alone."""
    at_once: int = 20
    code_bytes: int = 256 * 1024
    input_bytes: int = 1024 * 1024
    task_bytes: int = 64 * 1024
    result_bytes: int = 1024 * 1024
    console_bytes: int = 64 * 1024


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    value: bytes = b"null"
    """The value of the last expression, as JSON."""
    console: str = ""
    console_cut: bool = False
    """There was more on the console than is kept."""
    kind: Kind | None = None
    message: str = ""
    ms: float = 0.0
    """How long it ran, the start of its process included, waiting for its turn not."""


def failed(kind: Kind, message: str) -> Outcome:
    return Outcome(ok=False, kind=kind, message=message)
