"""Lines in and bytes out over file descriptors, on the event loop, with no thread in between.

The descriptors stay in blocking mode: that mode belongs to the open file, which a terminal shares
between stdin, stdout and stderr. Reading and writing wait for readiness instead.
"""

from __future__ import annotations

import asyncio
import os
import select

from mnemolog.services.gateway.sizes import KEPT_BYTES, MAX_MESSAGE_BYTES, Raw

CHUNK_BYTES = 1 << 16


class Lines:
    """The lines of a descriptor. `stop` ends them as the end of the file would."""

    def __init__(self, fd: int, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._fd = fd
        self._max = max_bytes
        self._buffer = bytearray()
        self._searched = 0
        self._ended = False
        self._waiting: asyncio.Future[None] | None = None

    async def next(self) -> bytes | Raw | None:
        """The next line that is not blank, without its end; a `Raw` for one over the limit; None
        at the end. What follows the last line end counts as a line too."""
        while True:
            line = self._take()
            if line is None and self._ended:
                rest, self._buffer = bytes(self._buffer), bytearray()
                return rest if rest.strip() else None
            if line is None:
                if len(self._buffer) > self._max:
                    return await self._skip()
                self._buffer += await self._read()
            elif line.strip():
                return line

    def stop(self) -> None:
        self._ended = True
        self._buffer.clear()
        if self._waiting is not None:
            _wake(self._waiting)

    def _take(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    async def _skip(self) -> Raw:
        """Read to the end of a line that is too long, keeping its ends and its digest."""
        # Here and not above: a client is greeted before it is needed.
        import hashlib

        head = bytes(self._buffer[:KEPT_BYTES])
        digest, size, tail = hashlib.sha256(), 0, b""
        part, found = bytes(self._buffer), False
        self._buffer.clear()
        self._searched = 0
        while part and not found:
            part, newline, rest = part.partition(b"\n")
            found = bool(newline)
            digest.update(part)
            size += len(part)
            tail = (tail + part)[-KEPT_BYTES:]
            if found:
                self._buffer += rest
            else:
                part = await self._read()
        return Raw(head, tail, size, digest.digest())

    async def _read(self) -> bytes:
        if not self._ended:
            await self._readable()
        data = b"" if self._ended else os.read(self._fd, CHUNK_BYTES)
        self._ended = not data
        return data

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        try:
            loop.add_reader(self._fd, _wake, self._waiting)
        except PermissionError:
            # A file on disk cannot be waited for, and never has to be.
            await asyncio.sleep(0)
            return
        try:
            await self._waiting
        finally:
            loop.remove_reader(self._fd)


class Output:
    """Writes whole messages, one after the other, without blocking the loop when nobody reads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = asyncio.Lock()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self.broken = False

    async def write(self, data: bytes) -> None:
        """Returns when `data` is handed over; drops it when the reader is gone."""
        async with self._lock:
            place = 0
            try:
                while place < len(data) and not self.broken:
                    if not self._poll.poll(0):
                        await self._writable()
                    # A pipe that is writable takes this much at once; more could block.
                    place += os.write(self._fd, data[place : place + select.PIPE_BUF])
            except OSError:
                self.broken = True

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._fd, _wake, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._fd)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
