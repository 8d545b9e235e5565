"""A day, and times as the tools and the command line show them."""

from __future__ import annotations

from datetime import UTC, datetime

DAY_US = 86_400_000_000
_LAST_S = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())


def iso(at_us: int) -> str:
    """Microseconds since 1970 as UTC, to the second. A time that no calendar has, which a wrong
    clock may have left on a log, is shown as the nearest that it has."""
    second = min(max(at_us // 1_000_000, 0), _LAST_S)
    return datetime.fromtimestamp(second, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")


def zoned(at_us: int) -> str:
    """As `iso`, and says that it is UTC: how episodes show it."""
    return f"{iso(at_us)}Z"


def spaced(at_us: int) -> str:
    """As `iso`, with a space between date and time: how reflections show it."""
    return iso(at_us).replace("T", " ")
