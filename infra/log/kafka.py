"""The log on Kafka: topics `mnemolog.calls` and `mnemolog.decisions`, partition by partition.

One idempotent producer with acks=all writes. What waits for a partition while a batch is on its
way goes into the next one, so concurrent callers share the cost; each gets its answer only after
Kafka's. Retries never write a record twice.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError
from aiokafka.structs import RecordMetadata

from mnemolog.events.log import Ends, LogError, Stored
from mnemolog.infra.log.kafka_reader import Readers
from mnemolog.infra.log.kafka_topics import Topics, prepare
from mnemolog.infra.log.kafka_way import PLAIN, Way

PREFIX: Final = "mnemolog"
TIMEOUT_S: Final = 30.0
_MAX_WAITING: Final = 4096
_BATCH_BYTES: Final = 256 * 1024
_OVERHEAD_BYTES: Final = 128
"""More than what Kafka adds to one record and its batch."""

_STOP_S: Final = 2.0

Rows = Sequence[tuple[str, bytes]]


class KafkaLog:
    """Made by `open`, and used within one event loop.

    An append that Kafka did not acknowledge in time is a LogError, and its records may still be
    written: the producer goes on trying until the log is closed.
    """

    def __init__(
        self, bootstrap: str, topics: Topics, readers: Readers, timeout_s: float, way: Way
    ) -> None:
        self.way = way
        """How others may reach the same brokers."""
        self._bootstrap = bootstrap
        self._topics = topics
        self._readers = readers
        self._timeout_s = timeout_s
        self._producer: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()
        # One append's records follow each other, in the order in which the appends were made.
        self._orders: defaultdict[TopicPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._appending: set[asyncio.Task[list[int]]] = set()
        self._retiring: set[asyncio.Task[None]] = set()
        self._closed = False

    @classmethod
    async def open(
        cls,
        bootstrap: str,
        partitions: int | None = None,
        *,
        prefix: str = PREFIX,
        replication: int = 1,
        timeout_s: float = TIMEOUT_S,
        make: bool = True,
        way: Way = PLAIN,
    ) -> KafkaLog:
        """The log in `PREFIX.calls` and `PREFIX.decisions`; `bootstrap` is `HOST:PORT[,…]`.

        New topics get `partitions` partitions (16 for None), each on `replication` brokers.
        Topics that are there need that count (None takes theirs) and settings that keep history.
        Without `make`, topics that are not there are a LogError.
        """
        topics = await prepare(bootstrap, prefix, partitions, replication, timeout_s, make, way)
        readers = Readers(bootstrap, timeout_s, way)
        log = cls(bootstrap, topics, readers, timeout_s, way)
        try:
            async with asyncio.timeout(timeout_s):
                await readers.start()
                await log._started()
        except TimeoutError as error:
            await log.close()
            raise LogError(
                f"Kafka at {bootstrap} did not let this process read and write within "
                f"{timeout_s:g} s"
            ) from error
        except BaseException:
            await log.close()
            raise
        return log

    @property
    def partitions(self) -> int:
        return self._topics.partitions

    async def append_calls(self, partition: int, calls: Rows) -> list[int]:
        return await self._append(self._place(self._topics.calls, partition), calls)

    async def append_decisions(self, partition: int, decisions: Rows) -> list[int]:
        """One batch after another, each whole or not at all: a decision is never on the log without
        those of its append that it follows, or it would look as if something had been removed."""
        place = self._place(self._topics.decisions, partition)
        return await self._append(place, decisions, in_turn=True)

    async def read_calls(self, partition: int, start: int, limit: int) -> list[Stored]:
        return await self._readers.read(self._place(self._topics.calls, partition), start, limit)

    async def read_decisions(self, partition: int, start: int, limit: int) -> list[Stored]:
        place = self._place(self._topics.decisions, partition)
        return await self._readers.read(place, start, limit)

    async def ends(self, partition: int) -> Ends:
        calls = self._place(self._topics.calls, partition)
        decisions = self._place(self._topics.decisions, partition)
        return Ends(*await self._readers.ends(calls, decisions))

    async def all_ends(self) -> list[Ends]:
        """`ends` of every partition, in one question."""
        topics, every = self._topics, range(self.partitions)
        found = await self._readers.ends(
            *(TopicPartition(topics.calls, p) for p in every),
            *(TopicPartition(topics.decisions, p) for p in every),
        )
        return [Ends(found[p], found[p + self.partitions]) for p in every]

    @property
    def calls_topic(self) -> str:
        return self._topics.calls

    @property
    def decisions_topic(self) -> str:
        return self._topics.decisions

    async def close(self) -> None:
        """Finish what is under way, within the log's time-out, then let go of Kafka."""
        if self._closed:
            return
        self._closed = True
        if self._appending:
            await asyncio.wait(self._appending)
        self._retire(self._producer)
        await asyncio.gather(*self._retiring, self._readers.close())

    def _place(self, topic: str, partition: int) -> TopicPartition:
        if not 0 <= partition < self.partitions:
            raise LogError(f"There is no partition {partition}; the log has {self.partitions}")
        return TopicPartition(topic, partition)

    async def _append(
        self, place: TopicPartition, rows: Rows, *, in_turn: bool = False
    ) -> list[int]:
        if self._closed:
            raise LogError("The log is closed for writing")
        if not rows:
            return []
        records = [(space.encode(), data) for space, data in rows]
        most = self._topics.max_bytes - _OVERHEAD_BYTES
        for key, data in records:
            if len(key) + len(data) > most:
                raise LogError(
                    f"A record of {len(key) + len(data):,} bytes is too large for the topic "
                    f"{place.topic}; at most {most:,} are allowed (its max.message.bytes)"
                )
        if len(self._appending) >= _MAX_WAITING:
            raise LogError(f"Kafka cannot keep up: {_MAX_WAITING} appends are waiting")
        # A task of its own: a caller that gives up must not cut an append in two.
        task = asyncio.create_task(self._write(place, records, in_turn))
        self._appending.add(task)
        task.add_done_callback(self._appending.discard)
        return await asyncio.shield(task)

    async def _write(
        self, place: TopicPartition, records: list[tuple[bytes, bytes]], in_turn: bool
    ) -> list[int]:
        producer: AIOKafkaProducer | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._orders[place]:
                    producer = await self._started()
                    if in_turn:
                        return await _send_in_turn(producer, place, records)
                    sent = [
                        await producer.send(place.topic, data, key=key, partition=place.partition)
                        for key, data in records
                    ]
                return [_offset(one) for one in await asyncio.gather(*sent)]
        except (TimeoutError, KafkaTimeoutError) as error:
            raise LogError(
                f"Kafka at {self._bootstrap} did not acknowledge within {self._timeout_s:g} s; "
                f"the records may still be written"
            ) from error
        except (KafkaError, OSError) as error:
            # The broker numbers a producer's batches, so one that failed for good would fail all
            # that follow: the next append begins with a new producer.
            self._retire(producer)
            raise LogError(f"Kafka at {self._bootstrap} did not take it: {error!r}") from error

    async def _started(self) -> AIOKafkaProducer:
        async with self._starting:
            if self._producer is not None:
                return self._producer
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                acks="all",
                enable_idempotence=True,
                # A topic's limit is on a batch, so a batch may not outgrow a record's limit.
                max_batch_size=min(_BATCH_BYTES, self._topics.max_bytes),
                max_request_size=self._topics.max_bytes,
                request_timeout_ms=int(self._timeout_s * 1000),
                **self.way.arguments(),
            )
            try:
                await producer.start()
            except (KafkaError, OSError) as error:
                await producer.stop()
                raise LogError(f"Kafka at {self._bootstrap} does not answer: {error!r}") from error
            except BaseException:
                await producer.stop()
                raise
            self._producer = producer
            return producer

    def _retire(self, producer: AIOKafkaProducer | None) -> None:
        """Let a producer finish and end it, beside whatever else goes on."""
        if producer is None or producer is not self._producer:
            return
        self._producer = None
        task = asyncio.create_task(_stop(producer))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


async def _send_in_turn(
    producer: AIOKafkaProducer, place: TopicPartition, records: list[tuple[bytes, bytes]]
) -> list[int]:
    offsets: list[int] = []
    while len(offsets) < len(records):
        batch = producer.create_batch()
        for key, data in records[len(offsets) :]:
            if batch.append(key=key, value=data, timestamp=None) is None:
                break
        count = batch.record_count()
        sent = await producer.send_batch(batch, place.topic, partition=place.partition)
        first = _offset(await sent)
        offsets += range(first, first + count)
    return offsets


async def _stop(producer: AIOKafkaProducer) -> None:
    """End it; what it could not send within `_STOP_S` fails. By itself it would try for ever while
    Kafka is away, and has no public way to be told otherwise."""
    stopping = asyncio.ensure_future(producer.stop())
    done, _ = await asyncio.wait({stopping}, timeout=_STOP_S)
    if not done:
        await producer._sender.close()
        accumulator = producer._message_accumulator
        queued = [batch for batches in accumulator._batches.values() for batch in batches]
        accumulator._pending_batches.update(queued)  # where a batch that failed is looked for
        accumulator.fail_all(KafkaTimeoutError())
        for batch in queued:
            batch._drain_waiter.exception()  # seen, so that nothing is logged about it
    await stopping


def _offset(one: RecordMetadata) -> int:
    """Kafka says "written before" without an offset when it has forgotten where: with one batch
    on its way per partition it never should."""
    if one.offset < 0 or one.log_start_offset == -1:
        raise LogError(
            f"Kafka took a record of {one.topic}, partition {one.partition}, without saying where"
        )
    return int(one.offset)
