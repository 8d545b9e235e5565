"""The node on Kafka: any number of them share one log, each with projections of its own.

Every gateway and decider follows all decisions into its own state and text. The calls are decided
by whichever node Kafka gives a partition to. What this node has acknowledged is on the log; its
own files can be lost.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import structlog

from mnemolog.events.codec import encode_call
from mnemolog.events.envelope import Call, sha256
from mnemolog.events.log import LogError
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.infra.settings import Settings
from mnemolog.projections.state.store import PartitionState, StateError
from mnemolog.services.api import Answer, Progress, Request, Unavailable
from mnemolog.services.catalogue import Catalogue, Rules
from mnemolog.services.counted import Counted
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.decider.tool import Asked
from mnemolog.services.node.following.follow import Advance, ReadableLog
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.node.kafka.logs import SyncLog, remember, replica_dir
from mnemolog.services.node.kafka.member import Member
from mnemolog.services.node.kafka.moving import calls_are_there
from mnemolog.services.node.kafka.partition import Partition
from mnemolog.services.node.node import Clock, Node, in_doubt, now_us
from mnemolog.services.node.vectors.feeder import Feeder

WORK_THREADS = 4
WATCH_S = 1.0
STALLED_S = 15.0
READS_WAIT_S = 0.05
MAX_READS = 1_000
"""Records of reads that wait for their place on a partition's log; past it the oldest are lost."""
VECTORS_KEPT = 512

_log = structlog.get_logger("mnemolog.node")


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
        self._work = ThreadPoolExecutor(WORK_THREADS, thread_name_prefix="partition")
        self.partitions = [
            Partition(log, state, self.deciding, self._work, self._inputs, self._show, self._told)
            for state in self.projections.states
        ]
        self._waiting: dict[tuple[int, str], list[asyncio.Future[Answer]]] = {}
        self._reads: defaultdict[int, list[Asked]] = defaultdict(list)
        self._flushing: dict[int, asyncio.Task[None]] = {}
        self._vectors: OrderedDict[str, Future[Inputs]] = OrderedDict()
        brokers, prefix = settings.brokers or "", settings.topics
        self._decides = Member(
            brokers, f"{prefix}.deciders", log.calls_topic, self._call_came, self._own
        )
        replica = f"{prefix}.replica.{_own_id(settings)}"
        self._members = [Member(brokers, replica, log.decisions_topic, self._decision_came)]
        if "decider" in roles:
            self._members.append(self._decides)
        if self.shared is not None and self.model is not None and "projector" in roles:
            self._feeder = Feeder(settings, catalogue.projected, self.model, self.log)
            self._members.append(projectors(settings, log, self._feeder))
        self._takes_calls = "gateway" in roles
        self._whole: set[int] = set()
        """Partitions that no store is being moved to."""
        self._watching: asyncio.Task[None] | None = None
        self._away: str | None = None
        self._moved: list[tuple[int, int]] = [(0, 0)] * log.partitions
        self._moved_s: list[float] = [time.monotonic()] * log.partitions

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
            _check_belongs(self.log, state)
        self.projections.catch_up(self.log, progress)
        for partition in self.partitions:
            partition.shown = partition.state.next_offset
        self._prepare(self._kafka)
        remember(self.settings)

    async def _start(self) -> None:
        if self._feeder is not None:
            self._feeder.start()
        for partition in self.partitions:
            partition.start()
        await self._look()
        await asyncio.gather(*(member.start() for member in self._members))
        self._watching = asyncio.create_task(self._watch())
        self._begin()

    # --- calls -----------------------------------------------------------------------------------

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        if not self._takes_calls:
            raise Unavailable(
                f"This process is a {self.settings.role} and takes no calls; ask a gateway"
            )
        return await super().call(request, progress)

    async def _decided(self, asked: Asked) -> Answer:
        partition, call = asked.partition, asked.call
        place = self.partitions[partition]
        if place.failed is not None:
            raise Unavailable(place.failed)
        if place.ours:
            self._start_embedding(asked.texts)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        key = (partition, call.id)
        self._waiting.setdefault(key, []).append(answer)
        try:
            async with asyncio.timeout(self.settings.call_timeout_s):
                await self._append(partition, asked)
                return await answer
        except LogError as error:
            raise Unavailable(
                f"The call could not be put on the log: {error}. If it is there nevertheless it "
                "will be carried out; ask again under the idempotency key "
                f"{call.idempotency_key or call.id!r} to learn its outcome"
            ) from error
        except TimeoutError:
            raise in_doubt(call, self.settings.call_timeout_s) from None
        finally:
            self._waiting[key].remove(answer)
            if not self._waiting[key]:
                del self._waiting[key]

    async def _append(self, partition: int, *calls: Asked) -> None:
        """Put calls on the log, and before them the reads that were answered here until now."""
        if partition not in self._whole:
            await self._check_whole(partition)
        every = [*self._reads.pop(partition, ()), *calls]
        rows = [(one.call.space, encode_call(one.call)) for one in every]
        offsets = await self._kafka.append_calls(partition, rows)
        for offset, (_, data), asked in zip(offsets, rows, every, strict=True):
            # Kafka has it: there is no need to wait until it brings it round, nor to read it again.
            self.partitions[partition].call_came(offset, data, asked)

    async def _check_whole(self, partition: int) -> None:
        whole = await calls_are_there(self._kafka, partition)
        if whole is False:
            raise LogError(
                "a store is being moved to this log, and its calls are not all there yet; "
                "calls are taken when `mnemolog import` has ended"
            )
        if whole:
            self._whole.add(partition)

    def _told(self, partition: int, counted: Counted) -> None:
        for answer in self._waiting.get((partition, counted.decision.call_id), ()):
            if not answer.done():
                answer.set_result(counted.answer(partition))

    def _call_came(self, partition: int, offset: int, data: bytes) -> None:
        self.partitions[partition].call_came(offset, data)

    def _decision_came(self, partition: int, offset: int, data: bytes) -> None:
        self.partitions[partition].decision_came(offset, data)

    def submit(self, asked: Asked) -> Future[Answer]:
        return asyncio.run_coroutine_threadsafe(self._decided(asked), self._loop)

    def submit_embedded(self, call: Call) -> Future[Answer]:
        asked = self.read(call)
        for text in asked.texts:
            self._embedded(text).result()
        return self.submit(asked)

    def _record(self, asked: Asked) -> None:
        self._loop.call_soon_threadsafe(self._keep_read, asked)

    def _keep_read(self, asked: Asked) -> None:
        partition = asked.partition
        reads = self._reads[partition]
        reads.append(asked)
        if len(reads) > MAX_READS:
            del reads[0]
        if partition not in self._flushing:
            self._flushing[partition] = self._loop.create_task(self._flush(partition))

    async def _flush(self, partition: int) -> None:
        try:
            await asyncio.sleep(READS_WAIT_S)
        finally:
            del self._flushing[partition]
        try:
            if self._reads.get(partition):
                await self._append(partition)
        except LogError as error:
            _log.warning("records of reads were lost", partition=partition, reason=str(error))

    # --- vectors ---------------------------------------------------------------------------------

    def _start_embedding(self, texts: list[str]) -> None:
        """What is decided here can be embedded while Kafka takes the call."""
        for text in texts:
            self._embedded(text)

    def _embedded(self, text: str) -> Future[Inputs]:
        """The vector of one text; of the newest it is kept, for the decider to find."""
        found = self._vectors.get(text)
        if found is None:
            found = self._vectors[text] = self.embedding.start([text])
            if len(self._vectors) > VECTORS_KEPT:
                self._vectors.popitem(last=False)
        return found

    async def _inputs(self, texts: list[str]) -> Inputs:
        if not texts:
            return self.embedding.inputs([])
        given = [await asyncio.wrap_future(self._embedded(text)) for text in texts]
        vectors = {text: vector for one in given for text, vector in one.vectors.items()}
        if not all(one.vectors for one in given):
            # No model, perhaps not yet: the next time it may be there.
            for text in texts:
                self._vectors.pop(text, None)
        return Inputs(given[0].model, vectors)

    # --- upkeep ----------------------------------------------------------------------------------

    def _own(self, owned: frozenset[int]) -> None:
        for partition in self.partitions:
            partition.own(partition.number in owned)
        if owned:
            self.late.look()

    async def _look(self) -> None:
        for partition, ends in zip(self.partitions, await self._kafka.all_ends(), strict=True):
            partition.log_ends(ends.calls, ends.decisions)

    async def _watch(self) -> None:
        """Ask Kafka where the log ends: what Faust did not deliver is noticed and fetched."""
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                async with asyncio.timeout(self.settings.call_timeout_s):
                    await self._look()
                self._away = None
            except (LogError, TimeoutError) as error:
                self._away = str(error) or "Kafka does not answer"
            now_s = time.monotonic()
            for i, partition in enumerate(self.partitions):
                stands = (partition.state.next_offset, partition.state.head.next_call)
                if stands != self._moved[i] or not partition.late:
                    self._moved[i], self._moved_s[i] = stands, now_s

    def _reasons(self) -> list[str]:
        reasons = self._stopped(self.partitions)
        if self._away is not None:
            reasons.append(f"Kafka is away: {self._away}")
        reasons += [
            f"The Faust worker of {member.group} is not running"
            for member in self._members
            if not member.running
        ]
        now_s = time.monotonic()
        reasons += [
            f"Partition {i} stands still: calls up to {one.calls.end} wait, and decisions up to "
            f"{one.decisions.end}; this node is at {one.state.next_offset}"
            for i, one in enumerate(self.partitions)
            if one.late and now_s - self._moved_s[i] > STALLED_S and one.failed is None
        ]
        return reasons

    def decides(self, partition: int) -> bool:
        return self.partitions[partition].ours

    def _shows(self, partition: int) -> int:
        return self.partitions[partition].shown

    async def _newest(self, partition: int) -> int:
        try:
            return (await self._kafka.ends(partition)).decisions
        except LogError as error:
            raise Unavailable(f"The newest position is not known: {error}") from error

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
            partition.state = state

    async def aclose(self) -> None:
        if hasattr(self, "feed"):
            self.feed.close()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await asyncio.to_thread(self._stop_background)
        for partition in list(self._reads):
            with suppress(LogError, TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._append(partition)
        await asyncio.gather(*(member.stop() for member in self._members))
        await asyncio.gather(*(partition.stop() for partition in self.partitions))
        for task in list(self._flushing.values()):
            task.cancel()
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
    )


def _check_belongs(log: ReadableLog, state: PartitionState) -> None:
    """A state that followed another log must not go on with this one."""
    last = state.next_offset - 1
    void = state.view.voids()
    while last in void:
        last -= 1
    if last < 0:
        return
    if log.end(state.partition).decisions > last:
        (stored,) = log.decisions(state.partition, last, 1)
        if sha256(stored.data) == state.head.hash:
            return
    raise StateError(
        f"The node's files of partition {state.partition} followed another log than this one, or "
        "this log has lost records. If the log is the right one, delete the replica directory in "
        "the data directory: it is made anew from the log"
    )


def _own_id(settings: Settings) -> str:
    """The node's name among the replicas, kept with its files."""
    file = replica_dir(settings) / "node"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(uuid.uuid4().hex)
    return file.read_text().strip()
