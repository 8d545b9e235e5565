"""Where a follower stands: the next decision of each partition it follows.

Written down it is the last one of each that it has seen, `0:41` or `0:41,3:7`. A partition that is
left out had nothing yet.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence

from mnemolog.events.arguments import Refused
from mnemolog.events.ids import partition_of_space
from mnemolog.services.api import Unavailable

START = "start"
_POLL_S = 0.005
_POSITION = re.compile(r"\d{1,4}:\d{1,18}(,\d{1,4}:\d{1,18})*")


class Positions(dict[int, int]):
    """The offset of the next decision, by partition."""

    def __str__(self) -> str:
        return ",".join(f"{p}:{offset - 1}" for p, offset in self.items() if offset > 0) or START

    def behind(self, ends: Positions) -> int:
        """How many decisions the partition that is furthest behind `ends` has to go."""
        return max(ends[partition] - offset for partition, offset in self.items())


def partitions_of(space: str | None, count: int) -> list[int]:
    return list(range(count)) if space is None else [partition_of_space(space, count)]


def place_after(after: str, partitions: Sequence[int], count: int) -> Positions:
    """The place after a position that somebody wrote down."""
    if after == START:
        return Positions(dict.fromkeys(partitions, 0))
    if len(after) > 32 * count or not _POSITION.fullmatch(after):
        raise Refused(
            f"after must be start, or a position from an earlier event or answer, such as 0:41; "
            f"not {after[:60]!r}"
        )
    seen = {int(p): int(offset) for p, offset in (one.split(":") for one in after.split(","))}
    unknown = [p for p in seen if p >= count]
    if unknown:
        raise Refused(
            f"after names partition {unknown[0]}, and the log has {count}: it is of another store"
        )
    if len(partitions) == 1 and partitions[0] not in seen:
        raise Refused(
            f"after is a position in partition {next(iter(seen))}, and the space is in "
            f"{partitions[0]}: give one that an event of this space had"
        )
    return Positions({p: seen.get(p, -1) + 1 for p in partitions})


async def reached(
    place: Positions,
    shows: Callable[[int], int],
    newest: Callable[[int], Awaitable[int]],
    timeout_s: float,
) -> None:
    """Wait until this node shows everything before `place`, or say that it does not. What is not on
    the log, whose end `newest` asks for, nobody can have seen: that is not waited for."""
    for partition, offset in place.items():
        if offset > shows(partition) and offset > (end := await newest(partition)):
            raise Refused(
                f"after is {partition}:{offset - 1}, and partition {partition} of the log has "
                f"{end} decisions: give a position from an earlier event or answer of this store"
            )
    deadline = time.monotonic() + timeout_s
    while any(offset > shows(partition) for partition, offset in place.items()):
        if time.monotonic() > deadline:
            stands = Positions({partition: shows(partition) for partition in place})
            raise Unavailable(
                f"Position {place} was not reached here within {timeout_s:g} s; this node stands "
                f"at {stands}"
            )
        await asyncio.sleep(_POLL_S)
