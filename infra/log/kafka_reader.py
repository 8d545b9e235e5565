"""Reading the log's topics: plain consumers with a partition by hand, no group, nothing committed.

Offsets have no holes (nothing here is transactional or compacted), so a record that does not
follow the one before is an error, never skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import ConsumerStoppedError, KafkaError, OffsetOutOfRangeError

from mnemolog.events.log import LogError, Stored
from mnemolog.infra.log.kafka_way import Way

_MAX_READERS: Final = 8
"""Reads at a time; further ones wait for their turn."""

_FETCH_BYTES: Final = 4 * 1024 * 1024
_READ_WAIT_MS: Final = 10
"""A read asks only for what is there. What a reader fetched ahead must not keep its next read
waiting, since a connection answers in order."""


class Readers:
    """Made and used within one event loop. `start` before anything else."""

    def __init__(self, bootstrap: str, timeout_s: float, way: Way) -> None:
        self._bootstrap = bootstrap
        self._way = way
        self._timeout_ms = int(timeout_s * 1000)
        self._asking: AIOKafkaConsumer | None = None
        self._idle: list[AIOKafkaConsumer] = []
        self._busy: set[AIOKafkaConsumer] = set()
        self._turns = asyncio.Semaphore(_MAX_READERS)
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = False

    async def start(self) -> None:
        self._asking = await self._consumer(_READ_WAIT_MS)

    async def ends(self, *places: TopicPartition) -> list[int]:
        """The offset that the next record of each will get."""
        if self._closed or self._asking is None:
            raise LogError("The log is closed")
        question = asyncio.ensure_future(self._asking.end_offsets(list(places)))
        try:
            with _as_log_error(self._bootstrap):
                # Closing ends a question, which would go on asking until its time-out.
                await asyncio.wait({question, self._closing}, return_when=asyncio.FIRST_COMPLETED)
                if not question.done():
                    raise LogError("The log is closed")
                found = question.result()
        finally:
            question.cancel()
        return [found[place] for place in places]

    async def read(self, place: TopicPartition, start: int, limit: int) -> list[Stored]:
        """At most `limit` records from `start` on, of those that are there now."""
        start = max(start, 0)
        (end,) = await self.ends(place)
        end = min(end, start + limit)
        if start >= end:
            return []
        async with self._turns:
            consumer = await self._take(place)
            self._busy.add(consumer)
            try:
                with _as_log_error(self._bootstrap):
                    found = await self._read(consumer, place, start, end)
                    consumer.pause(place)
            except BaseException:
                await consumer.stop()
                raise
            finally:
                self._busy.discard(consumer)
            if self._closed:
                await consumer.stop()
            else:
                self._idle.append(consumer)
            return found

    async def close(self) -> None:
        self._closed = True
        if not self._closing.done():
            self._closing.set_result(None)
        ending = [*self._busy, *self._idle, *filter(None, [self._asking])]
        self._idle.clear()
        await asyncio.gather(*(consumer.stop() for consumer in ending))

    async def _read(
        self, consumer: AIOKafkaConsumer, place: TopicPartition, start: int, end: int
    ) -> list[Stored]:
        consumer.seek(place, start)
        consumer.resume(place)
        found: list[Stored] = []
        while start < end:
            batch = await consumer.getmany(
                place, timeout_ms=self._timeout_ms, max_records=end - start
            )
            if not batch:
                raise LogError(
                    f"Kafka at {self._bootstrap} did not give record {start} of {place.topic}, "
                    f"partition {place.partition}, within {self._timeout_ms} ms"
                )
            for record in batch[place]:
                found.append(_stored(record, start))
                start += 1
        return found

    async def _take(self, place: TopicPartition) -> AIOKafkaConsumer:
        """A consumer that nobody else uses, best the one that read here before: it may have
        fetched ahead."""
        for consumer in self._idle:
            if place in consumer.assignment():
                self._idle.remove(consumer)
                return consumer
        consumer = self._idle.pop(0) if self._idle else await self._consumer(_READ_WAIT_MS)
        consumer.assign([place])
        return consumer

    async def _consumer(self, wait_ms: int) -> AIOKafkaConsumer:
        if self._closed:
            raise LogError("The log is closed")
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=wait_ms,
            max_partition_fetch_bytes=_FETCH_BYTES,
            request_timeout_ms=self._timeout_ms,
            **self._way.arguments(),
        )
        try:
            with _as_log_error(self._bootstrap):
                await consumer.start()
                # Its own tasks begin: one that is ended before that would end us, too.
                await asyncio.sleep(0)
        except BaseException:
            await consumer.stop()
            raise
        return consumer


def _stored(record: ConsumerRecord, expected: int) -> Stored:
    if record.offset != expected:
        raise LogError(
            f"{record.topic}, partition {record.partition}, has a hole: after {expected - 1} comes "
            f"{record.offset}; records were deleted, and what follows cannot be trusted"
        )
    return Stored(record.offset, record.value or b"")


@contextmanager
def _as_log_error(bootstrap: str) -> Iterator[None]:
    try:
        yield
    except ConsumerStoppedError as error:
        raise LogError("The log is closed") from error
    except OffsetOutOfRangeError as error:
        raise LogError(f"Kafka does not have these records (any more): {error}") from error
    except (KafkaError, OSError) as error:
        raise LogError(f"Kafka at {bootstrap} could not be read: {error!r}") from error
