"""A day, and times as the tools and the command line show them."""

from __future__ import annotations

from datetime import UTC, datetime

DAY_US = 86_400_000_000


def iso(at_us: int) -> str:
    """Microseconds since 1970 as UTC, to the second."""
    return datetime.fromtimestamp(at_us // 1_000_000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")


def spaced(at_us: int) -> str:
    """As `iso`, with a space between date and time: how reflections show it."""
    return iso(at_us).replace("T", " ")
