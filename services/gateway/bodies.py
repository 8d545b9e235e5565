"""What requests send, as bytes in memory: bounded for each, and for all of them together."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, Final

from starlette.requests import Request

from mnemolog.services.gateway.sizes import KEPT_BYTES, MAX_MESSAGE_BYTES, Raw

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""What large messages may take together, from when they come in until they are answered."""
SMALL_BYTES: Final = 64 * 1024
"""A message up to this does not count, so that a few large ones cannot keep the others out."""
HURRY_S = 1.0
"""How long a large message may take to come in when others need its room. Most take a few
milliseconds; one that hangs would keep all others out."""
MAX_DISCARDED_BYTES: Final = 64 * 1024 * 1024
"""A body over `MAX_MESSAGE_BYTES` is read up to here for its digest, then cut off."""


class Full(Exception):
    """There is no room for another large message at the moment."""


class Room:
    """The bytes that large messages may still take. `coming` are those that are not whole yet, with
    when they began to take some, the first ones first."""

    def __init__(self, most: int = MAX_BUFFERED_BYTES) -> None:
        self.left = most
        self.coming: dict[Body, float] = {}

    def take(self, size: int, asking: Body, now: float) -> None:
        """`Full` when there is not as much, even without the others that take too long."""
        for body, since in list(self.coming.items()):
            if size <= self.left or now - since < HURRY_S:
                break
            if body is not asking:
                body.drop()
        if size > self.left:
            raise Full
        self.left -= size


class Body:
    """One request's. To be closed when it is answered."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._taken = 0
        self._bytes = bytearray()
        self._reading: asyncio.Task[Any] | None = None

    async def read(self, request: Request) -> bytes | Raw:
        """All of it, or what is known of one that is too large; `Full` when it has no room, or has
        to make some, `ClientDisconnect` when the client is gone."""
        reading = self._reading = asyncio.current_task()
        try:
            return await self._read(request)
        except asyncio.CancelledError:
            if self._reading is not None or reading is None:
                raise
            reading.uncancel()
            raise Full from None
        finally:
            self._room.coming.pop(self, None)

    async def _read(self, request: Request) -> bytes | Raw:
        body = self._bytes
        stream = request.stream()
        async for chunk in stream:
            body += chunk
            if len(body) > MAX_MESSAGE_BYTES:
                break
            if len(body) > SMALL_BYTES:
                self._take(len(body))
        else:
            whole = bytes(body)
            body.clear()
            return whole
        digest, size, tail = hashlib.sha256(body), len(body), bytes(body[-KEPT_BYTES:])
        head = bytes(body[:KEPT_BYTES])
        self.close()
        async for chunk in stream:
            digest.update(chunk)
            size += len(chunk)
            tail = (tail + chunk)[-KEPT_BYTES:]
            if size > MAX_DISCARDED_BYTES:
                break
        return Raw(head, tail, size, digest.digest())

    def close(self) -> None:
        self._bytes.clear()
        self._room.coming.pop(self, None)
        self._room.left += self._taken
        self._taken = 0

    def drop(self) -> None:
        """Others need its room, and it is not whole yet."""
        self.close()
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()

    def _take(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        self._room.take(size - self._taken, self, now)
        self._taken = size
        self._room.coming.setdefault(self, now)
