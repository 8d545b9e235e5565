"""How many files and sockets the process may have open."""

from __future__ import annotations

import contextlib
import resource

MOST = 65536
"""More are of no use here."""


def raise_limit() -> int:
    """Have as many descriptors as this process may have; how many these are. What it is given to
    begin with is often a thousand, and a store with many spaces has many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return soft
