"""The log's two topics on Kafka: made with settings that keep everything, refused otherwise."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaConnectionError, KafkaError

from mnemolog.events.ids import MAX_PARTITIONS
from mnemolog.events.log import LogError
from mnemolog.infra.log.kafka_way import PLAIN, Way, why_not

NEW_PARTITIONS: Final = 16
MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""Of a record with its key, in topics that the service makes."""

_KEEPS_EVERYTHING: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}
"""With any other value, records that were acknowledged can be gone. Checked whenever a log is
opened: a topic may have been made, or changed, by somebody else."""

_ALREADY_EXISTS: Final = 36
_POLL_S: Final = 0.05


class Topics(msgspec.Struct, frozen=True):
    """`max_bytes` is the largest batch that both topics take."""

    calls: str
    decisions: str
    partitions: int
    max_bytes: int


class _Topic(msgspec.Struct, frozen=True):
    partitions: int
    settings: dict[str, str]


async def prepare(
    bootstrap: str,
    prefix: str,
    partitions: int | None,
    replication: int,
    timeout_s: float,
    make: bool = True,
    way: Way = PLAIN,
) -> Topics:
    """Find or make `PREFIX.calls` and `PREFIX.decisions`; what is wrong with them is a LogError.

    The topics themselves record the partition count; `None` takes what is there, and
    `NEW_PARTITIONS` for new ones.
    """
    if partitions is not None and not 1 <= partitions <= MAX_PARTITIONS:
        raise LogError(f"partitions must be from 1 to {MAX_PARTITIONS}, not {partitions}")
    names = (f"{prefix}.calls", f"{prefix}.decisions")
    admin = AIOKafkaAdminClient(
        bootstrap_servers=bootstrap,
        request_timeout_ms=int(timeout_s * 1000),
        **way.arguments(),
    )
    try:
        async with asyncio.timeout(timeout_s):
            await admin.start()
            found = await _look(admin, names)
            if not found and not make:
                raise LogError(f"There are no topics {names[0]} and {names[1]} at {bootstrap}")
            if not found:
                await _make(admin, names, partitions or NEW_PARTITIONS, replication)
            while len(found) < len(names):
                await asyncio.sleep(_POLL_S)
                found = await _look(admin, names)
    except TimeoutError as error:
        wrong = await why_not(way, bootstrap)
        raise LogError(wrong or _unusable(bootstrap, names, timeout_s)) from error
    except KafkaConnectionError as error:
        wrong = await why_not(way, bootstrap)
        nobody = f"No Kafka answers at {bootstrap}; `make kafka` starts one"
        raise LogError(wrong or nobody) from error
    except (KafkaError, OSError, ValueError) as error:
        wrong = await why_not(way, bootstrap)
        raise LogError(wrong or f"Kafka at {bootstrap} cannot be used: {error!r}") from error
    finally:
        await admin.close()
    found = {name: found[name] for name in names}
    _check(found, partitions)
    return Topics(
        *names,
        partitions=found[names[0]].partitions,
        max_bytes=min(int(one.settings["max.message.bytes"]) for one in found.values()),
    )


def _unusable(bootstrap: str, names: tuple[str, str], timeout_s: float) -> str:
    return (
        f"Kafka at {bootstrap} did not show the topics {names[0]} and {names[1]}, every partition "
        f"with a leader, within {timeout_s:g} s. They are made together: if only one of them "
        f"exists, the other one was lost; restore it, or delete both to begin anew"
    )


def _check(found: dict[str, _Topic], partitions: int | None) -> None:
    for name, topic in found.items():
        if partitions is not None and topic.partitions != partitions:
            raise LogError(
                f"The topic {name} was made with {topic.partitions} partitions, not {partitions}; "
                f"the count is fixed when a log is made: leave --partitions out, or use new topics "
                "(MNEMOLOG_TOPICS names them)"
            )
        for setting, needed in _KEEPS_EVERYTHING.items():
            actual = topic.settings.get(setting, needed)
            if actual != needed:
                raise LogError(
                    f"The topic {name} has {setting}={actual} and would lose history; "
                    f"set {setting}={needed}"
                )
    counts = {name: topic.partitions for name, topic in found.items()}
    if len(set(counts.values())) > 1:
        said = " and ".join(f"{name} has {count}" for name, count in counts.items())
        raise LogError(f"The log's topics need equally many partitions, but {said}")


async def _make(
    admin: AIOKafkaAdminClient, names: tuple[str, str], partitions: int, replication: int
) -> None:
    settings = {
        **_KEEPS_EVERYTHING,
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
        # With three copies or more, one broker may be away; what is acknowledged is on two.
        "min.insync.replicas": "2" if replication > 2 else "1",
    }
    if replication == 1:
        # No other broker has it, so what is acknowledged has to be on the disk.
        settings["flush.messages"] = "1"
    wanted = [NewTopic(name, partitions, replication, topic_configs=settings) for name in names]
    answer = await admin.create_topics(wanted)
    for name, code, message in answer.topic_errors:
        # Another node that starts at the same time may be first; what it made is checked as well.
        if code not in (0, _ALREADY_EXISTS):
            raise LogError(f"Kafka would not make the topic {name}: {message or code}")


async def _look(admin: AIOKafkaAdminClient, names: tuple[str, str]) -> dict[str, _Topic]:
    """Those of the topics that are ready. Asking for all of them never makes any, asking by name
    would on a broker that makes topics by itself."""
    counts = {
        topic["topic"]: len(topic["partitions"])
        for topic in await admin.describe_topics()
        if topic["topic"] in names and all(one["leader"] >= 0 for one in topic["partitions"])
    }
    if not counts:
        return {}
    answers = await admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, name) for name in counts]
    )
    return {
        name: _Topic(counts[name], {entry[0]: entry[1] for entry in entries})
        for answer in answers
        for code, _, _, name, entries in answer.resources
        if code == 0
    }
