"""Keeping the process small."""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8
_ARENAS = 2


def limit_arenas() -> None:
    """Have glibc use few memory pools. It keeps one for every thread there ever was otherwise,
    and the search engines start many short-lived ones: 235 MB instead of 70. Where the C library
    is another one, nothing happens. Call it before the first thread is started."""
    try:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
    except (AttributeError, OSError):
        return
