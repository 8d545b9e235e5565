"""Records as they come in: in any order, any number of times, some never."""

from __future__ import annotations

from typing import Final

from mnemolog.events.log import Stored

MAX_RECORDS: Final = 2_000
MAX_BYTES: Final = 16 * 1024 * 1024


class Arrivals:
    """What has come of one partition and was not taken yet. What does not fit is let go of, and
    known to be missing: whoever takes reads it from the log."""

    def __init__(self) -> None:
        self.end = 0
        """The log goes at least up to here."""
        self._records: dict[int, bytes] = {}
        self._bytes = 0
        self._below = 0

    def put(self, offset: int, data: bytes) -> None:
        self.seen(offset + 1)
        if offset < self._below or offset in self._records:
            return
        if len(self._records) < MAX_RECORDS and self._bytes + len(data) <= MAX_BYTES:
            self._records[offset] = data
            self._bytes += len(data)

    def seen(self, end: int) -> None:
        self.end = max(self.end, end)

    def take(self, start: int, most: int) -> list[Stored]:
        """Those from `start` on, up to the first that is missing. What is before them is done."""
        found: list[Stored] = []
        while len(found) < most:
            data = self._records.pop(start + len(found), None)
            if data is None:
                break
            self._bytes -= len(data)
            found.append(Stored(start + len(found), data))
        self.done(start + len(found))
        return found

    def done(self, below: int) -> None:
        """Nobody needs what is below this offset."""
        if below <= self._below:
            return
        self._below = below
        if self._records and min(self._records) < below:
            self._records = {
                offset: data for offset, data in self._records.items() if offset >= below
            }
            self._bytes = sum(len(data) for data in self._records.values())
