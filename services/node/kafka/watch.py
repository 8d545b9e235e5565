"""Watching the log's ends: what Faust did not deliver is noticed and fetched, and what stands still
is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from mnemolog.events.log import LogError
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.services.node.kafka.partition import Partition

WATCH_S = 1.0
STALLED_S = 15.0


class Watch:
    """Asks Kafka every second where the log ends."""

    def __init__(self, log: KafkaLog, partitions: Sequence[Partition], timeout_s: float) -> None:
        self.away: str | None = None
        """Why Kafka does not answer."""
        self._log = log
        self._partitions = partitions
        self._timeout_s = timeout_s
        self._task: asyncio.Task[None] | None = None
        self._moved: list[tuple[int, int]] = [(0, 0)] * len(partitions)
        self._moved_s: list[float] = [time.monotonic()] * len(partitions)

    async def look(self) -> None:
        for partition, ends in zip(self._partitions, await self._log.all_ends(), strict=True):
            partition.log_ends(ends.calls, ends.decisions)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def reasons(self) -> list[str]:
        now_s = time.monotonic()
        if self.away is not None:
            reasons = [f"Kafka is away: {self.away}"]
        else:
            reasons = [
                f"Partition {i} cannot go on: {one.trouble}"
                for i, one in enumerate(self._partitions)
                if one.trouble is not None
            ]
        return reasons + [
            f"Partition {i} stands still: calls up to {one.calls.end} wait, and decisions up to "
            f"{one.decisions.end}; this node is at {one.state.next_offset}"
            for i, one in enumerate(self._partitions)
            if one.late and now_s - self._moved_s[i] > STALLED_S and one.failed is None
        ]

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self.look()
                self.away = None
            except (LogError, TimeoutError) as error:
                self.away = str(error) or "Kafka does not answer"
            except Exception as error:
                self.away = f"{type(error).__name__}: {error}"
            now_s = time.monotonic()
            for i, partition in enumerate(self._partitions):
                stands = (partition.state.next_offset, partition.state.head.next_call)
                if stands != self._moved[i] or not partition.late:
                    self._moved[i], self._moved_s[i] = stands, now_s
