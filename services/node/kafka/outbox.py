"""A node's calls on their way: onto the log, records of reads before them, and back as answers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

import structlog

from mnemolog.events.codec import encode_call
from mnemolog.events.log import LogError
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.services import tracing
from mnemolog.services.api import Answer, Busy, Unavailable
from mnemolog.services.counted import Counted
from mnemolog.services.decider.tool import Asked
from mnemolog.services.node.kafka.moving import calls_are_there
from mnemolog.services.node.kafka.partition import Partition
from mnemolog.services.node.node import in_doubt
from mnemolog.services.shares import Shares

READS_WAIT_S = 0.05
MAX_READS = 1_000
"""Records of reads that wait for their place on a partition's log; past it the oldest are lost."""
MAX_WAITING = 1_024
"""Calls that wait for their decision."""
CLOSE_S = 2.0

_log = structlog.get_logger("mnemolog.node")


class Outbox:
    """Used within one event loop. `told` is to hear of every decision that this node shows."""

    def __init__(self, log: KafkaLog, partitions: Sequence[Partition], timeout_s: float) -> None:
        self._log = log
        self._partitions = partitions
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[int, str], list[asyncio.Future[Answer]]] = {}
        self._shares = Shares(MAX_WAITING)
        self._reads: defaultdict[int, list[Asked]] = defaultdict(list)
        self._flushing: dict[int, asyncio.Task[None]] = {}
        self._whole: set[int] = set()
        """Partitions that no store is being moved to."""

    def check(self, asked: Asked) -> None:
        """`Busy` when there is no room for another call of the tenant's."""
        if not self._shares.has_room(asked.call.tenant):
            raise Busy(
                f"Too many calls are waiting ({self._shares.taken}); nothing was recorded, "
                "try again"
            )

    async def decided(self, asked: Asked) -> Answer:
        """Put a call on the log and wait for its decision."""
        self.check(asked)
        call = asked.call
        answer: asyncio.Future[Answer] = self._loop.create_future()
        key = (asked.partition, call.id)
        self._waiting.setdefault(key, []).append(answer)
        self._shares.take(call.tenant)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._append(asked.partition, asked)
                return await answer
        except LogError as error:
            raise Unavailable(
                f"The call could not be put on the log: {error}. If it is there nevertheless it "
                "will be carried out; ask again under the idempotency key "
                f"{call.idempotency_key or call.id!r} to learn its outcome"
            ) from error
        except TimeoutError:
            raise in_doubt(call, self._timeout_s) from None
        finally:
            self._shares.leave(call.tenant)
            self._waiting[key].remove(answer)
            if not self._waiting[key]:
                del self._waiting[key]

    def told(self, partition: int, counted: Counted) -> None:
        for answer in self._waiting.get((partition, counted.decision.call_id), ()):
            if not answer.done():
                answer.set_result(counted.answer(partition))

    def keep_read(self, asked: Asked) -> None:
        """Put the record of a read that was answered on the log, soon."""
        partition = asked.partition
        reads = self._reads[partition]
        reads.append(asked)
        if len(reads) > MAX_READS:
            del reads[0]
        if partition not in self._flushing:
            self._flushing[partition] = self._loop.create_task(self._flush(partition))

    @property
    def waiting(self) -> int:
        """Calls that are not answered yet."""
        return len(self._waiting)

    @property
    def reads(self) -> int:
        """Records of reads that are not on the log yet."""
        return sum(map(len, self._reads.values()))

    def is_empty(self) -> bool:
        """Whether no record of a read waits."""
        return not self._reads

    async def send_reads(self) -> None:
        """What waits, at once; what cannot be put on the log now is lost."""
        for partition in list(self._reads):
            with suppress(LogError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._append(partition)

    def close(self) -> None:
        for task in list(self._flushing.values()):
            task.cancel()

    async def _append(self, partition: int, *calls: Asked) -> None:
        """Put calls on the log, and before them the reads that were answered here until now."""
        if partition not in self._whole:
            await self._check_whole(partition)
        every = [*self._reads.pop(partition, ()), *calls]
        rows = [(one.call.space, encode_call(one.call)) for one in every]
        traced = [one.call for one in every]
        with tracing.part("log.append", *traced, partition=partition, of="calls"):
            offsets = await self._log.append_calls(partition, rows)
        for offset, (_, data), asked in zip(offsets, rows, every, strict=True):
            # Kafka has it: there is no need to wait until it brings it round, nor to read it again.
            self._partitions[partition].call_came(offset, data, asked)

    async def _check_whole(self, partition: int) -> None:
        whole = await calls_are_there(self._log, partition)
        if whole is False:
            raise LogError(
                "a store is being moved to this log, and its calls are not all there yet; "
                "calls are taken when `mnemolog import` has ended"
            )
        if whole:
            self._whole.add(partition)

    async def _flush(self, partition: int) -> None:
        try:
            await asyncio.sleep(READS_WAIT_S)
        finally:
            del self._flushing[partition]
        try:
            if self._reads.get(partition):
                await self._append(partition)
        except Exception as error:
            _log.warning("records of reads were lost", partition=partition, reason=str(error))
