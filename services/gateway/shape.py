"""How large a message is, found out before anything is made of it.

A value of a few bytes becomes an object of fifty, and validating it takes microseconds: without a
bound on their number, one message would keep everybody waiting. Counting is a matter of bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from mnemolog.services.gateway.malformed import (
    INVALID_REQUEST,
    PARSE_ERROR,
    TOO_DEEP,
    Malformed,
    outline,
)
from mnemolog.services.gateway.sizes import MAX_OTHER_BYTES, raw

MAX_VALUES: Final = 50_000
"""Values and keys of a message with a tool call."""
MAX_OTHER_VALUES: Final = 2_000
SMALL_BYTES: Final = 2_000
"""So few bytes cannot hold too many values."""


LARGE_BYTES: Final = 256 * 1024
"""What is larger is read on a thread."""

_T = TypeVar("_T")


class _Envelope(msgspec.Struct):
    method: str = ""


_envelope = msgspec.json.Decoder(_Envelope)


async def in_time(read: Callable[[bytes], _T], data: bytes) -> _T:
    """What `read` makes of a message, beside everything else when that may take a while."""
    return read(data) if len(data) <= LARGE_BYTES else await asyncio.to_thread(read, data)


def too_much(data: bytes) -> Malformed | None:
    """What is wrong with the size of a message; None: it may be read."""
    if len(data) <= SMALL_BYTES:
        return None
    if _is_call(data):
        return _too_many(data, MAX_VALUES)
    if len(data) > MAX_OTHER_BYTES:
        reason = (
            f"The message is too large: {len(data):,} bytes; one that is no tool call may have "
            f"{MAX_OTHER_BYTES:,}"
        )
        return _refused(data, reason, record=False)
    return _too_many(data, MAX_OTHER_VALUES, record=False)


def _is_call(data: bytes) -> bool:
    """What cannot be read may have been a call."""
    try:
        return _envelope.decode(data).method == "tools/call"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return True


def _too_many(data: bytes, most: int, *, record: bool = True) -> Malformed | None:
    if _openings(data) + data.count(b",") <= most:
        return None
    # Some of that stands in texts, which are left out. A text's own quotes are escaped.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') <= 4 * most:
        plain = b"".join(plain.split(b'"')[::2])
        if _openings(plain) + plain.count(b",") <= most:
            return None
        if plain.count(b",") <= most // 2:
            return _refused(data, TOO_DEEP, PARSE_ERROR, record=record)
    reason = f"The message holds too many values: at most {most:,} are allowed"
    return _refused(data, reason, record=record)


def _openings(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")


def _refused(
    data: bytes, reason: str, code: int = INVALID_REQUEST, *, record: bool = True
) -> Malformed:
    given = raw(data)
    return Malformed(code, reason, given, *outline(given), record=record)
