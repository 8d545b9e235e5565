"""What every node does, whichever log it works on: take calls, have them decided or answered, tell
how it is. Its parts do the work: `answering`, `embedding`, `following`, `upkeep`."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Call, Refusal
from mnemolog.events.log import Log
from mnemolog.infra.settings import Settings, qdrant_api_key
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.api import (
    MAX_NAMES,
    Answer,
    Begun,
    Event,
    Follow,
    Progress,
    Request,
    TimedOut,
    ask_again,
)
from mnemolog.services.catalogue import Catalogue, Rules
from mnemolog.services.counted import Counted
from mnemolog.services.decider.clock import DecisionTime
from mnemolog.services.decider.decide import Deciding
from mnemolog.services.decider.tool import Asked, Edge
from mnemolog.services.node.answering import Answering
from mnemolog.services.node.carrying import Carrying
from mnemolog.services.node.embedding.chosen import ChosenModels
from mnemolog.services.node.embedding.embedding import Embedding
from mnemolog.services.node.embedding.late import LateVectors
from mnemolog.services.node.embedding.provided import ProvidedVectors
from mnemolog.services.node.fair import OURS
from mnemolog.services.node.figures import Figures
from mnemolog.services.node.following.feed import Feed
from mnemolog.services.node.following.follow import ReadableLog
from mnemolog.services.node.following.healing import Healing
from mnemolog.services.node.following.positions import Positions, place_after, reached
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.node.gate import Gate
from mnemolog.services.node.gauges import Sizes
from mnemolog.services.node.health import Condition
from mnemolog.services.node.upkeep import Upkeep
from mnemolog.services.node.vectors.feeder import Feeder
from mnemolog.services.node.vectors.opening import EDGE, open_tailed
from mnemolog.services.node.vectors.scrub import VectorScrub

if TYPE_CHECKING:
    from mnemolog.infra.embedder.catalogue import Model
    from mnemolog.infra.embedder.lazy import BackgroundEmbedder
    from mnemolog.projections.vectors.tail import TailedVectors

Clock = Callable[[], int]
END_S = 5.0
"""How long text is made durable at the end, space by space. The rest comes from the log again."""


def now_us() -> int:
    return time.time_ns() // 1000


class _Part(Protocol):
    failed: str | None


class Node(ABC):
    """A node opens its log and its projections, calls `_prepare`, and when it works `_begin`."""

    feed: Feed
    late: LateVectors
    directory: Path
    """Where its projections are."""
    projections: Projections
    log: ReadableLog
    """The log as threads read it."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        rules: Rules | None = None,
        clock: Clock = now_us,
    ) -> None:
        self.settings = settings
        self.catalogue = catalogue
        self.deciding = Deciding(catalogue, {**catalogue.rules, **(rules or {})})
        self.clock = clock
        """The time of what the service asks of itself."""
        self.time = DecisionTime(clock, leap=settings.accept_clock)
        self.using = Gate()
        """Entered by whoever uses the projections outside the deciders' threads."""
        self.moments = Gate()
        """Entered by whoever reads several things of one moment of a state."""
        self.rebuilding = threading.Lock()
        self.embedding = Embedding(settings)
        self.models = ChosenModels(settings, self.embedding)
        self.provided = ProvidedVectors(self, self.models)
        self.shared = shared_vectors(settings, self.model)
        self.answering = Answering(self, self._record, settings.describe_wait_s)
        self.condition = Condition(self)
        self.upkeep = Upkeep(self)
        self._healing = Healing(self)
        self.vector_scrub = VectorScrub(self)
        self._figures = Figures()
        self._carrying = Carrying(agent_code=settings.agent_code)
        self._feeder: Feeder | None = None
        self._begun = False
        self._closing = threading.Event()

    @property
    def model(self) -> Model | None:
        return self.embedding.model

    @property
    def embedder(self) -> BackgroundEmbedder:
        return self.embedding.embedder

    # --- what each kind of node does in its own way ----------------------------------------------

    @abstractmethod
    async def _decided(self, asked: Asked) -> Answer:
        """Have a call decided; raises `Unavailable` when there is no decision in time."""

    @abstractmethod
    def submit(self, asked: Asked) -> Future[Answer]:
        """From a thread: have a call decided."""

    @abstractmethod
    def submit_embedded(self, call: Call) -> Future[Answer]:
        """From a thread: have a call decided whose texts are embedded first, so that nobody else
        waits for them. For work of the service's own."""

    @abstractmethod
    def _record(self, asked: Asked) -> None:
        """From a thread: put a read that was answered on the log, soon."""

    @abstractmethod
    def decides(self, partition: int) -> bool:
        """Whether the partition's calls are decided here."""

    @abstractmethod
    def _shows(self, partition: int) -> int:
        """The offset after the last decision that reads on this node see, indexes included."""

    @abstractmethod
    async def _newest(self, partition: int) -> int:
        """The offset after the last decision on the log."""

    @abstractmethod
    def _reasons(self) -> list[str]:
        """Why this node does not do all it should; empty when it does."""

    @abstractmethod
    async def _positions(self) -> list[dict[str, Any]]:
        """Per partition where the log ends and how far this node is."""

    @abstractmethod
    def _waiting(self) -> list[tuple[str, int]]:
        """Queues of this node, each with how much waits in it; several may have one name."""

    @abstractmethod
    def paused(self) -> AbstractContextManager[None]:
        """From a thread: nothing is decided or applied meanwhile."""

    @abstractmethod
    def use_states(self, states: list[PartitionState]) -> None:
        """Work on these states from now on; while paused."""

    @abstractmethod
    async def aclose(self) -> None: ...

    def log_is_gone(self) -> str | None:
        """Why what is written to the log now would be lost; None: it is where it was opened."""
        return None

    # --- calls -----------------------------------------------------------------------------------

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        began_s, refused, failed = time.perf_counter(), False, True
        try:
            answer = await self._call(request, progress)
            refused, failed = answer.refused, False
            return answer
        finally:
            if request.tool in self.catalogue.tools:
                took_s = time.perf_counter() - began_s
                self._figures.met(
                    request.tenant, request.tool, took_s, refused=refused, failed=failed
                )

    async def _call(self, request: Request, progress: Progress | None) -> Answer:
        asked = self.read(_call_of(request), internal=request.internal)
        unfit = asked.refused is not None
        try:
            if asked.refused is not None:
                raise asked.refused
            if request.after is not None or request.consistency is not None:
                await self._reached(request, asked.partition)
            assert asked.tool is not None
            if asked.tool.reads:
                with self.condition.met("read", asked):
                    return await self._answered(asked)
        except Refused as refused:
            asked = _refused(asked, self.catalogue.refusal(request.tool, refused))
        with self.condition.met("write"):
            if asked.refused is None and asked.tool is not None and asked.tool.carry_out:
                asked = await self._carried_out(asked, request, progress)
            answer = await self.answering.shown(asked, await self._decided(asked))
        return replace(answer, unfit=True) if unfit else answer

    def read(self, call: Call, *, internal: bool = True) -> Asked:
        return self.catalogue.read(call, self.log.partitions, internal=internal)

    async def _answered(self, asked: Asked) -> Answer:
        """A read's answer. Those that take seconds wait for each other, so they have no limit of
        their own; the others have one, all they may wait for included."""
        assert asked.tool is not None
        if asked.tool.heavy:
            return await self.answering.answer(asked)
        given = self.settings
        limit_s = given.call_timeout_s + given.model_wait_s + given.describe_wait_s
        try:
            async with asyncio.timeout(limit_s):
                return await self.answering.answer(asked)
        except TimeoutError:
            raise TimedOut(f"No answer within {limit_s:g} s; ask again") from None

    async def _carried_out(
        self, asked: Asked, request: Request, progress: Progress | None
    ) -> Asked:
        """There is no time-out as long as its calls are decided."""
        loop = asyncio.get_running_loop()

        def tell(done: int, total: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, done, total)

        edge = Edge(
            lambda call: self.submit(self.read(call)),
            self._closing.is_set,
            tell,
            self.settings.call_timeout_s,
            self.clock,
            self._carrying.run_code,
            request.files,
            self.models,
        )
        return await self._carrying.out(asked, edge)

    async def _reached(self, request: Request, partition: int) -> None:
        """Wait until this node shows what the caller has seen, or everything there is."""
        count, place = self.log.partitions, Positions()
        if request.after is not None:
            place = place_after(request.after, range(count), count)
        if request.consistency == "strong":
            place[partition] = max(place.get(partition, 0), await self._newest(partition))
        await reached(place, self._shows, self._newest, self.settings.call_timeout_s)

    async def names(self, begun: Begun) -> list[str]:
        """From all partitions: the names of spaces are spread over them."""
        family = self.catalogue.families.get(begun.family)
        complete = None if family is None else family.completes.get(begun.argument)
        if complete is None:
            return []

        def look() -> list[str]:
            found: set[str] = set()
            with self.using.shared():
                for state in self.projections.states:
                    view = state.reader()
                    found.update(complete(view, begun.tenant, begun.text, MAX_NAMES + 1))
            return sorted(found)[: MAX_NAMES + 1]

        return await self.answering.threads.run(begun.tenant, look)

    # --- how it is -------------------------------------------------------------------------------

    async def health(self) -> dict[str, Any]:
        return {**self.standing(), "partitions": await self._positions()}

    def standing(self) -> dict[str, Any]:
        """How it is, but for how far it is."""
        reasons = self._reasons()
        met = self.condition.reasons()
        reasons += [one for one in met if not any(said in one for said in reasons)]
        status = self.embedder.poll()
        ready = status in ("ready", "loading")
        vectors = self._vectors_health()
        return {
            "status": "degraded" if reasons else "ok",
            "reasons": reasons,
            "mode": "hybrid" if ready and vectors["status"] != "away" else "bm25_only",
            "model": {
                "name": self.embedder.name,
                "status": status,
                "reason": self.embedder.reason,
                "embedding": self.late.progress(),
            },
            "vectors": vectors,
        }

    async def figures(self) -> dict[str, Any]:
        queues = {**self.answering.waiting(), "embedding": self.embedding.waiting()}
        for name, count in self._waiting():
            queues[name] = queues.get(name, 0) + count
        if self.shared is not None:
            queues["vector_server"] = self.shared.health()["tail"]
        return {
            "queues": queues,
            "followers": self.feed.open,
            "indexes": self._indexes(),
            **await self._sizes.now(),
        }

    def _indexes(self) -> list[dict[str, int]]:
        """Per partition how many of its decisions the search indexes have made durable."""
        text, vectors = self.projections.text, self.projections.own
        fed = [] if self._feeder is None else self._feeder.positions()
        found = [
            {"partition": p, "text": text.checkpoint(p) + 1} for p in range(self.log.partitions)
        ]
        if vectors is not None:
            for one in found:
                one["vectors"] = vectors.checkpoint(one["partition"]) + 1
        for one in fed:
            found[one["partition"]]["vectors"] = one["vectors"]
        return found

    def figures_of(self, tenant: str) -> dict[str, dict[str, Any]]:
        return self._figures.of(tenant)

    def _stopped(self, parts: Sequence[_Part]) -> list[str]:
        """Why those of the node's parts that have stopped did, the projector among them."""
        every = [*parts, *([] if self._feeder is None else [self._feeder])]
        return [one.failed for one in every if one.failed]

    def _vectors_health(self) -> dict[str, Any]:
        """A vector store that is away costs hits, not calls: the node is not worse for it."""
        if self.shared is None:
            return self.projections.vectors_health()
        found = self.shared.health()
        return found if self._feeder is None else {**found, "projector": self._feeder.health()}

    # --- following along -------------------------------------------------------------------------

    def _show(self, partition: int, counted: Counted) -> None:
        """Bring a decision that counts into everything that follows."""
        self.projections.show(partition, counted)
        self.late.saw(partition, counted)
        self.provided.saw(counted)
        self.upkeep.shown += 1
        self.feed.publish(partition, counted)

    def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        return self.feed.events(follow)

    async def _voids(self, partition: int, start: int, end: int) -> frozenset[int]:
        def look() -> frozenset[int]:
            with self.using.shared():
                return self.projections.states[partition].reader().voids(start, end)

        return await self.answering.threads.run(OURS, look)

    # --- beginning and end -----------------------------------------------------------------------

    def _prepare(self, log: Log) -> None:
        """Before anything is shown that was not when the projections were opened."""
        self._sizes = Sizes(self.settings.data_dir, self._places())
        self.late = LateVectors(self)
        self.embedding.missed = self.late.look
        self.feed = Feed(
            self.catalogue,
            log,
            self._voids,
            [state.next_offset for state in self.projections.states],
            buffer=self.settings.events_buffer,
            streams=self.settings.events_streams,
            timeout_s=self.settings.call_timeout_s,
        )

    def _places(self) -> dict[str, tuple[Path, ...]]:
        """What of the disk is whose."""
        data, below = self.settings.data_dir, self.directory / "projections"
        places: dict[str, tuple[Path, ...]] = {
            name: (below / name,) for name in ("state", "text", "vectors")
        }
        if self.settings.brokers is None:
            places["log"] = (data / "log.db", data / "log.db-wal")
        return places

    def _begin(self) -> None:
        self._begun = True
        self.condition.look()
        self.late.start()
        self.provided.start()
        self.upkeep.start()
        self._healing.start()
        self.vector_scrub.start()

    def _stop_background(self) -> None:
        self._closing.set()
        self.projections.text.hurry(0.0)  # The upkeep may be making all of it durable.
        self.vector_scrub.stop()
        self._healing.stop()
        self.upkeep.stop()
        self.models.close()
        self.provided.stop()
        self._carrying.close()
        if self._begun:
            self.late.stop()

    def _end(self) -> None:
        """Let go of everything but the log, once nothing is decided or applied any more."""
        self.answering.close()
        if self._feeder is not None:
            self._feeder.stop()
        self.projections.text.hurry(END_S)
        self.projections.close()
        if self.shared is not None:
            self.shared.close()
        self.embedding.close()


def _call_of(request: Request) -> Call:
    return Call(
        id=request.call_id,
        tool=request.tool,
        arguments=request.arguments,
        space=f"{request.tenant}/",
        received_at_us=request.received_at_us,
        tenant=request.tenant,
        actor=request.actor,
        client=request.client,
        idempotency_key=request.idempotency_key,
        truncated=request.truncated,
        refused=request.refused,
        trace=request.trace,
    )


def _refused(asked: Asked, refused: Refused) -> Asked:
    """What is not carried out goes to the log with the sentence that its caller gets."""
    call = asked.call
    if call.truncated is None:
        call = replace(call, refused=Refusal(refused.sentence, refused.code, dict(refused.data)))
    return replace(asked, call=call, refused=refused)


def shared_vectors(settings: Settings, model: Model | None) -> TailedVectors | None:
    """Vectors on a server, as a node searches them; None: every node has its own."""
    if settings.vectors == EDGE or model is None:
        return None
    key, ca = qdrant_api_key(), settings.vectors_ca
    return open_tailed(settings.vectors, model.dims, model.name, key, settings.topics, ca)


def in_doubt(call: Call, timeout_s: float) -> TimedOut:
    key = call.idempotency_key or call.id
    return TimedOut(f"No decision within {timeout_s:g} s. {ask_again(key)}")
