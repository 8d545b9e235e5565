"""A store's log, for commands that only read it, wherever it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from mnemolog.events.log import Ends, Stored
from mnemolog.infra.settings import Settings
from mnemolog.services.node.following.follow import ReadableLog

if TYPE_CHECKING:
    from mnemolog.infra.log.kafka import KafkaLog

_T = TypeVar("_T")
_WAY = tuple(name for name in Settings.__struct_fields__ if name.startswith("kafka_"))
"""The settings that say how brokers are reached."""


class SyncLog:
    """The log on Kafka for threads, through the loop that it belongs to."""

    def __init__(self, log: KafkaLog, loop: asyncio.AbstractEventLoop) -> None:
        self._log = log
        self._loop = loop

    @property
    def partitions(self) -> int:
        return self._log.partitions

    def calls(self, partition: int, start: int, limit: int) -> list[Stored]:
        return self._wait(self._log.read_calls(partition, start, limit))

    def decisions(self, partition: int, start: int, limit: int) -> list[Stored]:
        return self._wait(self._log.read_decisions(partition, start, limit))

    def end(self, partition: int) -> Ends:
        return self._wait(self._log.ends(partition))

    def _wait(self, question: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()


def replica_dir(settings: Settings) -> Path:
    """Where a node on Kafka keeps its own files."""
    return settings.data_dir / "replica"


def remember(settings: Settings) -> None:
    """Note which log a node's files follow, and the way there, for commands that are given the
    directory alone. The password is theirs to give."""
    place = {name: getattr(settings, name) for name in ("log", "topics", *_WAY)}
    (replica_dir(settings) / "log.json").write_bytes(msgspec.json.encode(place))


def with_its_log(settings: Settings) -> Settings:
    """The settings for a directory that a node on Kafka made, when no log was named."""
    file = replica_dir(settings) / "log.json"
    if settings.brokers is not None or (settings.data_dir / "log.db").exists():
        return settings
    if not file.exists():
        return settings
    kept = msgspec.json.decode(file.read_bytes())
    if settings.kafka_security != "plaintext":
        kept = {name: value for name, value in kept.items() if name not in _WAY}
    return msgspec.structs.replace(settings, **kept)


@contextmanager
def reading(settings: Settings) -> Iterator[tuple[ReadableLog, Path]]:
    """A store's log, and the directory its projections are in. Nothing is made that is not there:
    then it is a LogError."""
    settings = with_its_log(settings)
    if settings.brokers is None:
        from mnemolog.infra.log.sqlite import SqliteLog

        log = SqliteLog(settings.data_dir / "log.db", read_only=True)
        try:
            yield log, settings.data_dir
        finally:
            log.shut()
        return
    from mnemolog.infra.log.kafka import KafkaLog
    from mnemolog.infra.log.kafka_way import way_of

    way = way_of(settings)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="kafka", daemon=True)
    thread.start()
    try:
        opening = KafkaLog.open(
            settings.brokers,
            prefix=settings.topics,
            timeout_s=settings.call_timeout_s,
            make=False,
            way=way,
        )
        kafka = asyncio.run_coroutine_threadsafe(opening, loop).result()
        try:
            yield SyncLog(kafka, loop), replica_dir(settings)
        finally:
            asyncio.run_coroutine_threadsafe(kafka.close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
