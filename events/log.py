"""The log as everybody else sees it: the port that SQLite and Kafka implement.

Offsets count from 0 within a partition, calls and decisions each on their own. What an append
returned for is durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Stored(msgspec.Struct, frozen=True):
    offset: int
    data: bytes


class Ends(msgspec.Struct, frozen=True):
    """The offsets that the next call and the next decision of a partition will get."""

    calls: int
    decisions: int


class LogError(Exception):
    """The log cannot be used as asked; the sentence says what to do."""


class LogDamaged(LogError):
    """The log was changed, or something of it is missing: nothing is decided past that place."""


class Log(Protocol):
    @property
    def partitions(self) -> int: ...

    async def append_calls(self, partition: int, calls: Sequence[tuple[str, bytes]]) -> list[int]:
        """Append `(space, bytes)` in order; returns their offsets once they are durable."""
        ...

    async def append_decisions(
        self, partition: int, decisions: Sequence[tuple[str, bytes]]
    ) -> list[int]:
        """As `append_calls`. The log takes what it is given: what counts is the chain's matter."""
        ...

    async def read_calls(self, partition: int, start: int, limit: int) -> list[Stored]: ...

    async def read_decisions(self, partition: int, start: int, limit: int) -> list[Stored]: ...

    async def ends(self, partition: int) -> Ends: ...

    async def close(self) -> None: ...
