"""What requests send, as bytes in memory: bounded for each, and for all of them together."""

from __future__ import annotations

import hashlib
from typing import Final

from starlette.requests import Request

from mnemolog.services.gateway.sizes import KEPT_BYTES, MAX_MESSAGE_BYTES, Raw

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""What large messages may take together, from when they come in until they are answered."""
SMALL_BYTES: Final = 64 * 1024
"""A message up to this does not count, so that a few large ones cannot keep the others out."""
MAX_DISCARDED_BYTES: Final = 64 * 1024 * 1024
"""A body over `MAX_MESSAGE_BYTES` is read up to here for its digest, then cut off."""


class Full(Exception):
    """There is no room for another large message at the moment."""


class Room:
    """The bytes that large messages may still take."""

    def __init__(self, most: int = MAX_BUFFERED_BYTES) -> None:
        self.left = most


class Body:
    """One request's. To be closed when it is answered."""

    __slots__ = ("_room", "_taken")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._taken = 0

    async def read(self, request: Request) -> bytes | Raw:
        """All of it, or what is known of one that is too large; `Full` when it has no room,
        `ClientDisconnect` when the client is gone."""
        body = bytearray()
        stream = request.stream()
        async for chunk in stream:
            body += chunk
            if len(body) > MAX_MESSAGE_BYTES:
                break
            if len(body) > SMALL_BYTES:
                self._take(len(body))
        else:
            return bytes(body)
        digest, size, tail = hashlib.sha256(body), len(body), bytes(body[-KEPT_BYTES:])
        head = bytes(body[:KEPT_BYTES])
        body.clear()
        self.close()
        async for chunk in stream:
            digest.update(chunk)
            size += len(chunk)
            tail = (tail + chunk)[-KEPT_BYTES:]
            if size > MAX_DISCARDED_BYTES:
                break
        return Raw(head, tail, size, digest.digest())

    def close(self) -> None:
        self._room.left += self._taken
        self._taken = 0

    def _take(self, size: int) -> None:
        more = size - self._taken
        if more > self._room.left:
            raise Full
        self._room.left -= more
        self._taken = size
