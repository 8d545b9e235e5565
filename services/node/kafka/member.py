"""A member of a consumer group, by Faust: assignment, flow, and nothing that counts.

Faust acknowledges what an agent failed on, and its committed offset can run past a hole. So what
it delivers is taken as news, never as the truth: whoever is told compares with its own checkpoint
and fetches what is missing from the log. Nothing here raises into Faust.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import structlog

from mnemolog.infra.log.kafka_way import PLAIN, Way

SESSION_TIMEOUT_S: Final = 8.0
"""How long a member may be silent before its partitions go to others."""
HEARTBEAT_S: Final = 2.0
_COMMIT_EVERY_S: Final = 2.8
_STOP_S: Final = 10.0
_RESTART_S: Final = 1.0

Told = Callable[[int, int, bytes], None]
"""A record of a partition: its offset and its bytes."""
Owned = Callable[[frozenset[int]], None]
"""Which partitions are this member's own now."""

_log = structlog.get_logger("mnemolog.worker")


class Member:
    """Follows `topic` as a member of `group`. Made and used within one event loop.

    A Faust app that ends by itself is replaced by a new one; meanwhile the partitions are nobody's.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        told: Told,
        owned: Owned = lambda _: None,
        way: Way = PLAIN,
    ) -> None:
        self.group = group
        self.owns: frozenset[int] = frozenset()
        self._bootstrap = bootstrap
        self._topic = topic
        self._told = told
        self._owned = owned
        self._way = way
        self._app: Any = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        for name in ("faust", "mode", "aiokafka"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._app = self._make()
        await self._app.start()
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._end()

    @property
    def running(self) -> bool:
        return not self._ended()

    async def restart(self) -> None:
        """A new app in place of one that has ended or does nothing."""
        await self._end()
        self._app = self._make()
        await self._app.start()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_RESTART_S)
            if not self._ended():
                continue
            _log.warning("a Faust worker has ended and is started again", group=self.group)
            try:
                await self.restart()
            except Exception as error:
                _log.warning(
                    "a Faust worker could not be started", group=self.group, error=str(error)
                )
                await self._end()  # So that it is seen not to run, and tried again.

    def _ended(self) -> bool:
        return self._app is None or bool(self._app.crashed or self._app.should_stop)

    async def _end(self) -> None:
        app, self._app = self._app, None
        self._own(frozenset())
        if app is None:
            return
        try:
            await asyncio.wait_for(app.stop(), _STOP_S)
        except Exception as error:
            _log.warning("a Faust worker did not end in order", group=self.group, error=repr(error))

    def _own(self, partitions: frozenset[int]) -> None:
        self.owns = partitions
        try:
            self._owned(partitions)
        except Exception:
            _log.error("an assignment could not be taken", group=self.group, exc_info=True)

    def _make(self) -> Any:
        import faust

        app: Any = faust.App(
            self.group,
            broker=[f"kafka://{one}" for one in self._bootstrap.split(",")],
            broker_credentials=self._way.credentials(),
            loop=asyncio.get_running_loop(),
            autodiscover=False,
            web_enabled=False,
            store="memory://",
            key_serializer="raw",
            value_serializer="raw",
            topic_disable_leader=True,
            topic_allow_declare=False,
            table_standby_replicas=0,
            # The log is read up to its end before anything that comes here is needed.
            consumer_auto_offset_reset="latest",
            broker_session_timeout=SESSION_TIMEOUT_S,
            broker_heartbeat_interval=HEARTBEAT_S,
            broker_max_poll_records=500,
            broker_commit_interval=_COMMIT_EVERY_S,
            stream_wait_empty=False,
        )
        # Nothing is kept in files; by itself Faust makes directories where the process was started.
        app._create_directories = lambda: None
        topic = app.topic(self._topic, key_type=bytes, value_type=bytes, value_serializer="raw")

        async def take(stream: Any) -> None:
            async for event in stream.events():
                message = event.message
                try:
                    self._told(message.partition, message.offset, message.value or b"")
                except Exception:
                    _log.error("a record could not be taken", group=self.group, exc_info=True)

        app.agent(topic, concurrency=1)(take)

        async def assigned(_app: Any, assigned: Any, **_: Any) -> None:
            self._own(frozenset(one.partition for one in assigned if one.topic == self._topic))

        async def revoked(_app: Any, revoked: Any, **_: Any) -> None:
            gone = {one.partition for one in revoked if one.topic == self._topic}
            self._own(self.owns - gone)

        app.on_partitions_assigned.connect(assigned, weak=False)
        app.on_partitions_revoked.connect(revoked, weak=False)
        return app
