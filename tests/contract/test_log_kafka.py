"""The log on Kafka keeps the contract, and what is its own: topics that keep everything, and a
producer that outlives its broker's absence. Against a real broker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete

from mnemolog.events.log import Ends, Log, LogError, Stored
from mnemolog.infra.kafka.broker import Broker, BrokerError
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.infra.log.kafka_topics import MAX_MESSAGE_BYTES, NEW_PARTITIONS
from tests.conftest import start_broker
from tests.contract.log_contract import (
    PARTITIONS,
    PATIENCE_S,
    LogContract,
    Opened,
    closing,
    numbered,
    records,
    run,
)

KEEPING = {"retention.ms": "-1"}
"""What a topic needs beside Kafka's own defaults to keep everything."""


@pytest.fixture(scope="module")
def restarted() -> Iterator[Broker]:
    """Another one, for tests that end it: with few topics, it is back soon."""
    started = start_broker()
    yield started
    started.close()


@pytest.fixture
def prefix() -> str:
    """Topics of this test's own on the broker that all share."""
    return f"test-{uuid.uuid4().hex[:12]}"


class TestKafkaLog(LogContract):
    @pytest.fixture
    def opened(self, broker: Broker, prefix: str) -> Opened:
        async def opened(partitions: int | None = PARTITIONS) -> Log:
            return await KafkaLog.open(broker.bootstrap, partitions, prefix=prefix)

        return opened


async def make(
    broker: Broker, name: str, partitions: int = 1, settings: dict[str, str] | None = None
) -> None:
    """A topic of somebody else's making."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        topic = NewTopic(name, partitions, 1, topic_configs={**KEEPING, **(settings or {})})
        answer = await admin.create_topics([topic])
        assert [code for _, code, _ in answer.topic_errors] == [0]
    finally:
        await admin.close()


async def settings_of(broker: Broker, name: str) -> dict[str, str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        topic = ConfigResource(ConfigResourceType.TOPIC, name)
        (answer,) = await admin.describe_configs([topic])
        return {entry[0]: entry[1] for entry in answer.resources[0][4]}
    finally:
        await admin.close()


# --- the topics ----------------------------------------------------------------------------------


def test_topics_are_made_to_keep_everything(broker: Broker, prefix: str) -> None:
    async def check() -> None:
        async with closing(KafkaLog.open(broker.bootstrap, prefix=prefix)) as log:
            assert log.partitions == NEW_PARTITIONS
        for name in (f"{prefix}.calls", f"{prefix}.decisions"):
            settings = await settings_of(broker, name)
            assert settings["cleanup.policy"] == "delete"
            assert settings["retention.ms"] == "-1"
            assert settings["retention.bytes"] == "-1"
            assert settings["message.timestamp.type"] == "LogAppendTime"
            assert settings["max.message.bytes"] == str(MAX_MESSAGE_BYTES)
            assert settings["flush.messages"] == "1", "the only copy is on the disk"

    run(check())


@pytest.mark.parametrize("what", ["calls", "decisions"])
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000000"),
        ("unclean.leader.election.enable", "true"),
    ],
)
def test_topics_that_would_lose_history_are_refused(
    broker: Broker, prefix: str, what: str, setting: str, value: str
) -> None:
    async def check() -> None:
        for name in ("calls", "decisions"):
            wrong = {setting: value} if name == what else {}
            await make(broker, f"{prefix}.{name}", settings=wrong)
        with pytest.raises(LogError, match=rf"{prefix}\.{what} has {setting}={value}"):
            await KafkaLog.open(broker.bootstrap, prefix=prefix)

    run(check())


def test_topics_with_settings_of_an_operator_are_taken(broker: Broker, prefix: str) -> None:
    async def check() -> None:
        for name in ("calls", "decisions"):
            await make(broker, f"{prefix}.{name}", 2, {"max.message.bytes": "2000000"})
        async with closing(KafkaLog.open(broker.bootstrap, prefix=prefix)) as log:
            assert log.partitions == 2
            assert await log.append_calls(1, records("x" * 1_990_000, "a")) == [0, 1]
            with pytest.raises(LogError, match=r"too large.*at most 1,999,872"):
                await log.append_calls(1, records("x" * 2_000_000))

    run(check())


def test_topics_with_unequal_partitions_are_refused(broker: Broker, prefix: str) -> None:
    async def check() -> None:
        await make(broker, f"{prefix}.calls", 2)
        await make(broker, f"{prefix}.decisions", 3)
        with pytest.raises(LogError, match=r"calls has 2 and .*decisions has 3"):
            await KafkaLog.open(broker.bootstrap, prefix=prefix)
        with pytest.raises(LogError, match=r"decisions was made with 3 partitions, not 2"):
            await KafkaLog.open(broker.bootstrap, 2, prefix=prefix)

    run(check())


def test_one_topic_without_the_other_is_refused(broker: Broker, prefix: str) -> None:
    """Decisions that are gone must not be made anew in silence."""

    async def check() -> None:
        await make(broker, f"{prefix}.calls")
        with pytest.raises(LogError, match="the other one was lost"):
            await KafkaLog.open(broker.bootstrap, prefix=prefix, timeout_s=5)
        # It was refused for that alone.
        await make(broker, f"{prefix}.decisions")
        await (await KafkaLog.open(broker.bootstrap, prefix=prefix)).close()

    run(check())


def test_two_that_open_a_new_log_at_once_get_the_same(broker: Broker, prefix: str) -> None:
    async def check() -> None:
        opening = [KafkaLog.open(broker.bootstrap, 2, prefix=prefix) for _ in range(3)]
        logs = await asyncio.gather(*opening)
        offsets = await asyncio.gather(*(log.append_calls(1, records("a")) for log in logs))
        assert sorted(offsets) == [[0], [1], [2]]
        await asyncio.gather(*(log.close() for log in logs))

    run(check())


def test_more_copies_than_brokers_is_refused(broker: Broker, prefix: str) -> None:
    async def check() -> None:
        with pytest.raises(LogError, match=rf"would not make the topic {prefix}\.calls"):
            await KafkaLog.open(broker.bootstrap, prefix=prefix, replication=3)

    run(check())


# --- records -------------------------------------------------------------------------------------


def test_a_record_that_is_too_large_stops_nothing_else(broker: Broker, prefix: str) -> None:
    large = b"x" * (MAX_MESSAGE_BYTES - 200)

    async def check() -> None:
        async with closing(KafkaLog.open(broker.bootstrap, prefix=prefix)) as log:
            with pytest.raises(LogError, match=rf"too large for the topic {prefix}\.calls"):
                await log.append_calls(0, [("s", b"small"), ("s", large + b"x" * 200)])
            assert await log.ends(0) == Ends(0, 0)
            assert await log.append_calls(0, [("s", large), ("s", b"small")]) == [0, 1]
            assert [one.data for one in await log.read_calls(0, 0, 2)] == [large, b"small"]

    run(check())


def test_after_a_failed_append_the_next_ones_work(broker: Broker, prefix: str) -> None:
    """The topic takes less than it said when the log was opened, so the broker refuses."""

    async def check() -> None:
        async with closing(KafkaLog.open(broker.bootstrap, prefix=prefix)) as log:
            assert await log.append_calls(0, records("a")) == [0]
            await alter(broker, f"{prefix}.calls", {**KEEPING, "max.message.bytes": "1000"})
            large, taken = "x" * 5000, 0
            with pytest.raises(LogError, match="did not take it: MessageSizeTooLarge"):
                # Kafka puts a changed setting into effect some time after it has said yes to it.
                while await log.append_calls(0, records(large)) == [1 + taken]:
                    taken += 1
                    await asyncio.sleep(0.02)
            assert await log.append_calls(0, records("b", "c")) == [1 + taken, 2 + taken]
            assert await log.append_decisions(0, records("A")) == [0]
            texts = ["a", *[large] * taken, "b", "c"]
            assert await log.read_calls(0, 0, 10**6) == numbered(0, *texts)

    run(check())


def test_the_space_is_the_key(broker: Broker, prefix: str) -> None:
    async def check() -> None:
        async with closing(KafkaLog.open(broker.bootstrap, prefix=prefix)) as log:
            await log.append_calls(0, records("a", space="默认/robot/厨房"))
        place = TopicPartition(f"{prefix}.calls", 0)
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
            consumer.assign([place])
            consumer.seek(place, 0)
            record = await consumer.getone(place)
        assert (record.key, record.value) == ("默认/robot/厨房".encode(), b"a")
        assert record.timestamp_type == 1, "the broker's clock"

    run(check())


def test_a_gap_is_noticed(broker: Broker, prefix: str) -> None:
    async def check() -> None:
        async with closing(KafkaLog.open(broker.bootstrap, prefix=prefix)) as log:
            await log.append_decisions(0, records("a", "b", "c"))
            place = TopicPartition(f"{prefix}.decisions", 0)
            admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
            await admin.start()
            await admin.delete_records({place: RecordsToDelete(before_offset=2)})
            await admin.close()
            with pytest.raises(LogError, match="does not have these records"):
                await log.read_decisions(0, 0, 10)
            assert await log.read_decisions(0, 2, 10) == [Stored(2, b"c")]

    run(check())


def test_a_hole_in_the_middle_is_noticed(broker: Broker, prefix: str) -> None:
    """A transaction's end takes an offset that no reader gets to see."""

    async def check() -> None:
        async with closing(KafkaLog.open(broker.bootstrap, prefix=prefix)) as log:
            await log.append_decisions(0, records("a"))
            producer = AIOKafkaProducer(
                bootstrap_servers=broker.bootstrap, transactional_id=f"{prefix}-t"
            )
            async with producer:
                # The second begins when the first one's end is written.
                for text in (b"b", b"c"):
                    async with producer.transaction():
                        await producer.send_and_wait(f"{prefix}.decisions", text, partition=0)
            with pytest.raises(LogError, match="has a hole: after 1 comes 3"):
                await log.read_decisions(0, 0, 10)

    run(check())


def test_a_reader_can_be_ended_as_soon_as_it_has_begun(broker: Broker, prefix: str) -> None:
    """As one is that begins while the log is being closed."""

    async def check() -> None:
        async with closing(KafkaLog.open(broker.bootstrap, prefix=prefix)) as log:
            assert isinstance(log, KafkaLog)
            consumer = await log._readers._consumer(500)
            await consumer.stop()

    run(check())


# --- a broker that goes away ---------------------------------------------------------------------


def test_no_kafka_there() -> None:
    async def check() -> None:
        with pytest.raises(LogError, match=r"No Kafka answers at 127\.0\.0\.1:1;"):
            await KafkaLog.open("127.0.0.1:1")

    run(check())


def test_no_java_or_maven_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerError, match="'java', which is not there: install a Java runtime"):
        Broker(tmp_path / "data").start()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_goes_away_and_comes_back(restarted: Broker, prefix: str, how: str) -> None:
    """What was acknowledged is there, once, where the log said."""

    async def check() -> None:
        opening = KafkaLog.open(restarted.bootstrap, 2, prefix=prefix, timeout_s=PATIENCE_S)
        async with closing(opening) as log:
            given: dict[int, bytes] = {}
            going = True
            written = asyncio.Event()

            async def write(name: int) -> None:
                i = 0
                while going:
                    rows = records(f"{name}-{i}", f"{name}-{i + 1}")
                    offsets = await log.append_decisions(1, rows)
                    given.update(zip(offsets, (data for _, data in rows), strict=True))
                    written.set()
                    i += 2

            writers = [asyncio.create_task(write(name)) for name in range(4)]
            await written.wait()
            end = restarted.stop if how == "stop" else restarted.kill
            await asyncio.to_thread(end)
            await asyncio.to_thread(restarted.start)
            (last,) = await log.append_decisions(1, records("back"))
            given[last] = b"back"
            going = False
            await asyncio.gather(*writers)
            found = await log.read_decisions(1, 0, 10**6)
            assert {one.offset: one.data for one in found} == given
            assert [one.offset for one in found] == list(range(len(found)))

    run(check())


def test_appending_while_kafka_is_away_fails_in_time(restarted: Broker, prefix: str) -> None:
    async def check() -> None:
        async with closing(KafkaLog.open(restarted.bootstrap, prefix=prefix)) as made:
            assert await made.append_calls(0, records("a")) == [0]
        log = await KafkaLog.open(restarted.bootstrap, prefix=prefix, timeout_s=5)
        await asyncio.to_thread(restarted.stop)
        try:
            with pytest.raises(LogError, match=r"within 5 s; the records may still be written"):
                await log.append_calls(0, records("b"))
            with pytest.raises(LogError, match="could not be read: KafkaTimeoutError"):
                await log.ends(0)
            with pytest.raises(LogError, match="could not be read: KafkaTimeoutError"):
                await log.read_calls(0, 0, 1)
            await log.close()
        finally:
            await asyncio.to_thread(restarted.start)
        async with closing(KafkaLog.open(restarted.bootstrap, prefix=prefix)) as again:
            assert (await again.read_calls(0, 0, 1)) == numbered(0, "a")

    run(check())


async def alter(broker: Broker, name: str, settings: dict[str, Any]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        topic = ConfigResource(ConfigResourceType.TOPIC, name, settings)
        await admin.alter_configs([topic])
    finally:
        await admin.close()
