"""Moving up: an embedded log copied onto Kafka, record by record, each at its own offset.

The bytes stay as they are, so the chain, the ids and the order do, too. Decisions go first: a
node that runs on the topics already then finds nothing that it would have to decide, and knows by
the decisions whose calls are not there that it must not put calls of its own in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from mnemolog.events.codec import NewerVersion, Undecodable, decode_call, decode_decision
from mnemolog.events.envelope import Call, Decision
from mnemolog.events.log import LogError, Stored
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.services.api import Progress
from mnemolog.services.node.following.follow import ReadableLog

_BATCH: Final = 200
_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Sent at once; a larger record goes alone."""


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


async def move(source: ReadableLog, target: KafkaLog, progress: Progress) -> Moved:
    """Copy what is missing; what is there has to be of the same log. When it is interrupted, the
    next one goes on where it ended; when all was copied before, nothing happens, also when nodes
    have gone on with it since. Nothing else may write to the source meanwhile."""
    if source.partitions != target.partitions:
        raise LogError(
            f"The store has {source.partitions} partitions and the topics {target.partitions}; "
            "a log keeps its count for ever: use new topics"
        )
    plan = [(p, part) for p in range(source.partitions) for part in await _parts(source, target, p)]
    total = sum(part.end for _, part in plan)
    if total == 0:
        raise LogError("The store's log is empty: there is nothing to move")
    await _check_same(plan)
    done = already = sum(min(part.there, part.end) for _, part in plan)
    progress(done, total)
    for partition, part in plan:
        start = part.there
        while start < part.end:
            batch = _within(await asyncio.to_thread(part.read, partition, start, _BATCH))
            rows = [(part.space_of(one.data), one.data) for one in batch]
            offsets = await part.append(partition, rows)
            if offsets != [one.offset for one in batch]:
                raise LogError(
                    f"Somebody else wrote to {part.name} of partition {partition} meanwhile: end "
                    "every node on these topics, delete the topics and begin anew; the store that "
                    "was to be moved is as it was"
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


async def calls_are_there(log: KafkaLog, partition: int) -> bool | None:
    """Whether the calls that the partition's decisions are about are on the log. False: a store is
    being moved there, and a call that is appended now takes the place of one of its. None: there
    is no decision yet, so this may be about to happen."""
    decisions = (await log.ends(partition)).decisions
    if decisions == 0:
        return None
    (last,) = await log.read_decisions(partition, decisions - 1, 1)
    try:
        about = decode_decision(last.data).call_offset
    except (Undecodable, NewerVersion):
        return True  # Following the log tells what is wrong with it.
    return about < (await log.ends(partition)).calls


def _within(batch: list[Stored]) -> list[Stored]:
    """The first few that are small enough together, one at least."""
    size = 0
    for i, one in enumerate(batch):
        size += len(one.data)
        if i and size > _BATCH_BYTES:
            return batch[:i]
    return batch


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
            partial(_space_of, decode_decision),
        ),
        _Part(
            "calls",
            ends.calls,
            there.calls,
            source.calls,
            target.read_calls,
            target.append_calls,
            partial(_space_of, decode_call),
        ),
    ]


async def _check_same(plan: list[tuple[int, _Part]]) -> None:
    """By the last record that both have: a decision names the one before it by its hash, and its
    call, too."""
    same = False
    for partition, part in plan:
        common = min(part.there, part.end)
        if common == 0:
            continue
        mine = await asyncio.to_thread(part.read, partition, common - 1, 1)
        if mine != await part.read_there(partition, common - 1, 1):
            raise _another(partition, part)
        same = True
    for partition, part in plan:
        if part.there > part.end and not same:
            raise _another(partition, part)


def _another(partition: int, part: _Part) -> LogError:
    return LogError(
        f"The topics hold other {part.name} in partition {partition} than this store; a store can "
        "only be moved to topics of its own: name others with MNEMOLOG_TOPICS"
    )


def _space_of(decode: Callable[[bytes], Call | Decision], data: bytes) -> str:
    try:
        return decode(data).space
    except (Undecodable, NewerVersion):
        return ""
