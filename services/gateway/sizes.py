"""How large a message may be, and what is kept of one that is larger."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""A message over this is not kept in memory; it is refused and recorded by its digest. Arguments
of `MAX_ARGUMENT_BYTES` fit in, also where every letter that is not ASCII is written as `\\uXXXX`:
that makes them three times as long."""
MAX_OTHER_BYTES: Final = 64 * 1024
"""Only tool calls carry contents; any other message is small."""
KEPT_BYTES: Final = 1000
"""How much is kept of what is too large or cannot be read."""


class Raw(msgspec.Struct, frozen=True):
    """What is known of bytes that were not kept whole: their beginning, their end, their digest."""

    head: bytes
    tail: bytes
    size: int
    sha256: bytes


def raw(data: bytes) -> Raw:
    # Here and not above: a client is greeted before it is needed.
    from hashlib import sha256

    return Raw(data[:KEPT_BYTES], data[-KEPT_BYTES:], len(data), sha256(data).digest())
