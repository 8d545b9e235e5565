"""The node on Kafka: any number of them share one log, each with projections of its own.

Every gateway and decider follows all decisions into its own state and text. The calls are decided
by whichever node Kafka gives a partition to. What this node has acknowledged is on the log; its
own files can be lost.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from mnemolog.events.envelope import Call
from mnemolog.events.log import LogError
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.infra.log.kafka_way import way_of
from mnemolog.infra.settings import Settings
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.api import Answer, Progress, Request, Unavailable
from mnemolog.services.catalogue import Catalogue, Rules
from mnemolog.services.counted import Counted
from mnemolog.services.decider.tool import Asked
from mnemolog.services.node.following.belongs import check_belongs
from mnemolog.services.node.following.follow import Advance
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.node.kafka.ahead import Ahead
from mnemolog.services.node.kafka.logs import SyncLog, remember, replica_dir
from mnemolog.services.node.kafka.member import Member
from mnemolog.services.node.kafka.outbox import Outbox
from mnemolog.services.node.kafka.partition import Partition
from mnemolog.services.node.kafka.watch import Watch
from mnemolog.services.node.node import Clock, Node, now_us
from mnemolog.services.node.vectors.feeder import Feeder

WORK_THREADS = 4
_REMEDY = (
    "If the log is the right one, delete the replica directory in the data directory: it is made "
    "anew from the log"
)


class KafkaNode(Node):
    """Made by `open`, within the event loop that it is used in. Needs the directory's lock."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        log: KafkaLog,
        rules: Rules | None,
        clock: Clock,
    ) -> None:
        roles = settings.roles
        super().__init__(settings, catalogue, rules, clock)
        self.directory = replica_dir(settings)
        self.projections = Projections(
            self.directory / "projections",
            log.partitions,
            catalogue.projected,
            self.model,
            self.shared,
        )
        self._loop = asyncio.get_running_loop()
        self._kafka = log
        self.log = SyncLog(log, self._loop)
        ahead = Ahead(self.embedding)
        self._work = ThreadPoolExecutor(WORK_THREADS, thread_name_prefix="partition")
        self.partitions = [
            Partition(
                log,
                self.log,
                state,
                self.deciding,
                self.time,
                self._work,
                ahead.inputs,
                self._show,
                self._told,
            )
            for state in self.projections.states
        ]
        self.outbox = Outbox(log, self.partitions, settings.call_timeout_s)
        self._ahead = ahead
        self._watch = Watch(log, self.partitions, settings.call_timeout_s)
        brokers, prefix = settings.brokers or "", settings.topics
        self._decides = Member(
            brokers, f"{prefix}.deciders", log.calls_topic, self._call_came, self._own, log.way
        )
        replica = f"{prefix}.replica.{_own_id(settings)}"
        self._members = [
            Member(brokers, replica, log.decisions_topic, self._decision_came, way=log.way)
        ]
        if "decider" in roles:
            self._members.append(self._decides)
        if self.shared is not None and self.model is not None and "projector" in roles:
            self._feeder = Feeder(settings, catalogue.projected, self.model, self.log)
            self._members.append(projectors(settings, log, self._feeder))
        self._takes_calls = "gateway" in roles

    @classmethod
    async def open(
        cls,
        settings: Settings,
        catalogue: Catalogue,
        rules: Rules | None = None,
        progress: Advance | None = None,
        clock: Clock = now_us,
    ) -> KafkaNode:
        brokers = settings.brokers
        assert brokers is not None
        log = await KafkaLog.open(
            brokers,
            settings.partitions,
            prefix=settings.topics,
            replication=settings.replication,
            timeout_s=settings.call_timeout_s,
            way=way_of(settings),
        )
        node: KafkaNode | None = None
        try:
            node = cls(settings, catalogue, log, rules, clock)
            await asyncio.to_thread(node._catch_up, progress)
            await node._start()
        except BaseException:
            if node is not None:
                await node.aclose()
            else:
                await log.close()
            raise
        return node

    def _catch_up(self, progress: Advance | None) -> None:
        for state in self.projections.states:
            check_belongs(self.log, state, _REMEDY)
        self.projections.catch_up(self.log, progress)
        for partition in self.partitions:
            partition.use(partition.state)
        self._prepare(self._kafka)
        remember(self.settings)

    async def _start(self) -> None:
        if self._feeder is not None:
            self._feeder.start()
        for partition in self.partitions:
            partition.start()
        await self._watch.look()
        await asyncio.gather(*(member.start() for member in self._members))
        self._watch.start()
        self._begin()

    # --- calls -----------------------------------------------------------------------------------

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        if not self._takes_calls:
            raise Unavailable(
                f"This process is a {self.settings.role} and takes no calls; ask a gateway"
            )
        return await super().call(request, progress)

    async def _decided(self, asked: Asked) -> Answer:
        place = self.partitions[asked.partition]
        if place.failed is not None:
            raise Unavailable(place.failed)
        self.outbox.check(asked)  # What is refused is not embedded for nothing.
        if place.ours:
            self._ahead.start(asked.texts, asked.call.tenant, asked.call.trace)
        return await self.outbox.decided(asked)

    def _told(self, partition: int, counted: Counted) -> None:
        self.outbox.told(partition, counted)

    def _call_came(self, partition: int, offset: int, data: bytes) -> None:
        self.partitions[partition].call_came(offset, data)

    def _decision_came(self, partition: int, offset: int, data: bytes) -> None:
        self.partitions[partition].decision_came(offset, data)

    def submit(self, asked: Asked) -> Future[Answer]:
        return asyncio.run_coroutine_threadsafe(self._decided(asked), self._loop)

    def submit_embedded(self, call: Call) -> Future[Answer]:
        asked = self.read(call)
        for vector in self._ahead.start(asked.texts):
            vector.result()
        return self.submit(asked)

    def _record(self, asked: Asked) -> None:
        self._loop.call_soon_threadsafe(self.outbox.keep_read, asked)

    # --- how it is -------------------------------------------------------------------------------

    def _own(self, owned: frozenset[int]) -> None:
        for partition in self.partitions:
            partition.own(partition.number in owned)
        if owned:
            self.late.look()

    def _reasons(self) -> list[str]:
        reasons = self._stopped(self.partitions)
        reasons += [
            f"The Faust worker of {member.group} is not running"
            for member in self._members
            if not member.running
        ]
        return reasons + self._watch.reasons()

    def decides(self, partition: int) -> bool:
        return self.partitions[partition].ours

    def _shows(self, partition: int) -> int:
        return self.partitions[partition].shown

    async def _newest(self, partition: int) -> int:
        try:
            return (await self._kafka.ends(partition)).decisions
        except LogError as error:
            raise Unavailable(f"The newest position is not known: {error}") from error

    def standing(self) -> dict[str, Any]:
        found = super().standing()
        if self._takes_calls:
            return found
        return {**found, "role": self.settings.role, "takes_calls": False}

    def _waiting(self) -> list[tuple[str, int]]:
        return [
            *(("deciding", one.undecided) for one in self.partitions if one.ours),
            ("answers", self.outbox.waiting),
            ("reads_to_record", self.outbox.reads),
        ]

    async def _positions(self) -> list[dict[str, Any]]:
        return [
            {
                "partition": one.number,
                "calls": one.calls.end,
                "decisions": one.decisions.end,
                "state": one.state.next_offset,
                "decided_here": one.ours,
                "voids": one.voids,
            }
            for one in self.partitions
        ]

    @contextmanager
    def paused(self) -> Iterator[None]:
        held: list[Partition] = []
        try:
            for partition in self.partitions:
                busy = partition.busy.acquire()
                asyncio.run_coroutine_threadsafe(busy, self._loop).result()
                held.append(partition)
            yield
        finally:
            for partition in held:
                self._loop.call_soon_threadsafe(partition.busy.release)

    def use_states(self, states: list[PartitionState]) -> None:
        for partition, state in zip(self.partitions, states, strict=True):
            partition.use(state)

    async def aclose(self) -> None:
        if hasattr(self, "feed"):
            self.feed.close()
        await self._watch.stop()
        await asyncio.to_thread(self._stop_background)
        await self.outbox.send_reads()
        await asyncio.gather(*(member.stop() for member in self._members))
        await asyncio.gather(*(partition.stop() for partition in self.partitions))
        self.outbox.close()
        self._work.shutdown()
        await asyncio.to_thread(self._end)
        await self._kafka.close()


def projectors(settings: Settings, log: KafkaLog, feeder: Feeder) -> Member:
    """A member of the group that keeps the shared vectors."""
    return Member(
        settings.brokers or "",
        f"{settings.topics}.projectors",
        log.decisions_topic,
        feeder.came,
        feeder.own,
        log.way,
    )


def _own_id(settings: Settings) -> str:
    """The node's name among the replicas, kept with its files."""
    file = replica_dir(settings) / "node"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(uuid.uuid4().hex)
    return file.read_text().strip()
