"""Moving up: an embedded log copied onto Kafka, record by record, each at its own offset.

The bytes stay as they are, so the chain, the ids and the order do, too. Decisions go first: a
node that runs on the topics already then finds nothing that it would have to decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from events.codec import NewerVersion, Undecodable, decode_call, decode_decision
from events.log import LogError, Stored
from infra.log.kafka import KafkaLog
from services.node.follow import OnProgress, ReadableLog

_BATCH: Final = 500


class Moved(msgspec.Struct, frozen=True):
    """How many records the log has, and how many of them were there already."""

    partitions: int
    calls: int
    decisions: int
    already_there: int


class _Part(msgspec.Struct, frozen=True):
    """One topic's partition: where it is read from and written to."""

    name: str
    end: int
    there: int
    read: Callable[[int, int, int], list[Stored]]
    read_there: Callable[[int, int, int], Awaitable[list[Stored]]]
    append: Callable[[int, Sequence[tuple[str, bytes]]], Awaitable[list[int]]]
    space_of: Callable[[bytes], str]


async def move(source: ReadableLog, target: KafkaLog, progress: OnProgress) -> Moved:
    """Copy what is missing; what is there has to be the beginning of the same log. When it is
    interrupted, the next one goes on where it ended."""
    if source.partitions != target.partitions:
        raise LogError(
            f"The store has {source.partitions} partitions and the topics {target.partitions}; "
            "a log keeps its count for ever: use new topics"
        )
    plan = [(p, part) for p in range(source.partitions) for part in await _parts(source, target, p)]
    for partition, part in plan:
        await _check_same(partition, part)
    total = sum(part.end for _, part in plan)
    done = already = sum(part.there for _, part in plan)
    progress(done, total)
    for partition, part in plan:
        start = part.there
        while start < part.end:
            batch = await asyncio.to_thread(part.read, partition, start, _BATCH)
            rows = [(part.space_of(one.data), one.data) for one in batch]
            offsets = await part.append(partition, rows)
            if offsets != [one.offset for one in batch]:
                raise LogError(
                    f"Somebody else wrote to {part.name} of partition {partition} meanwhile: end "
                    "every node on these topics, delete them and begin anew"
                )
            start += len(batch)
            done += len(batch)
            progress(done, total)
    return Moved(
        partitions=source.partitions,
        calls=sum(part.end for _, part in plan if part.name == "calls"),
        decisions=sum(part.end for _, part in plan if part.name == "decisions"),
        already_there=already,
    )


async def _parts(source: ReadableLog, target: KafkaLog, partition: int) -> list[_Part]:
    ends, there = source.end(partition), await target.ends(partition)
    return [
        _Part(
            "decisions",
            ends.decisions,
            there.decisions,
            source.decisions,
            target.read_decisions,
            target.append_decisions,
            _space_of_decision,
        ),
        _Part(
            "calls",
            ends.calls,
            there.calls,
            source.calls,
            target.read_calls,
            target.append_calls,
            _space_of_call,
        ),
    ]


async def _check_same(partition: int, part: _Part) -> None:
    """By the last record that is there: a decision names the one before it by its hash."""
    if part.there == 0:
        return
    if part.there <= part.end:
        mine = await asyncio.to_thread(part.read, partition, part.there - 1, 1)
        theirs = await part.read_there(partition, part.there - 1, 1)
        if mine == theirs:
            return
    raise LogError(
        f"The topics hold other {part.name} in partition {partition} than this store; "
        "a store can only be moved to topics of its own"
    )


def _space_of_call(data: bytes) -> str:
    try:
        return decode_call(data).space
    except (Undecodable, NewerVersion):
        return ""


def _space_of_decision(data: bytes) -> str:
    try:
        return decode_decision(data).space
    except (Undecodable, NewerVersion):
        return ""
