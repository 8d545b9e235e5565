"""What every node does, whichever log it works on: take calls, answer reads, tell how it is."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import structlog

from mnemolog.events.arguments import Arguments, Refused, TooMuch
from mnemolog.events.envelope import Answered, Call, Truncated, sha256
from mnemolog.events.graph import Migrate
from mnemolog.events.ids import partition_of_space
from mnemolog.events.log import Log
from mnemolog.infra.embedder.catalogue import CATALOGUE, Model, covers
from mnemolog.infra.embedder.lazy import BackgroundEmbedder
from mnemolog.infra.embedder.store import models_dir
from mnemolog.infra.settings import Settings, SettingsError, qdrant_api_key
from mnemolog.projections.ports import Vector
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.api import Answer, Event, Follow, Request, Unavailable
from mnemolog.services.api import Progress as Tell
from mnemolog.services.counted import Counted
from mnemolog.services.decider import tool as tools
from mnemolog.services.decider.catalogue import HIDDEN, TOOLS, read_call
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.decider.rules import Rules
from mnemolog.services.node.feed import Feed
from mnemolog.services.node.feeder import Feeder
from mnemolog.services.node.follow import ReadableLog
from mnemolog.services.node.gate import Gate
from mnemolog.services.node.imports import Edge, carry_out
from mnemolog.services.node.missing import MissingVectors
from mnemolog.services.node.passages import Passages
from mnemolog.services.node.positions import Place, place_after, reached
from mnemolog.services.node.projections import Projections
from mnemolog.services.node.vectors import EDGE, open_tailed

if TYPE_CHECKING:
    from mnemolog.projections.vectors.tail import TailedVectors

EMBED_THREADS = 2
READ_THREADS = 4
HEAVY_THREADS = 1
"""Reads that take seconds wait for each other, so that the others never wait for them."""
UPKEEP_S = 1.0
COMMIT_AFTER_S = 15.0
COMMIT_AFTER = 2_000
"""The indexes are made durable when nothing was written for a moment, else after so long or so many
decisions: it holds everybody up for some 20 ms, and what is not durable comes from the log."""
LOAD_WAIT_S = 30.0
MAX_REPLY_BYTES = 16 * 1024 * 1024
"""Of a read. What a write answers is part of its decision, which is smaller."""

Clock = Callable[[], int]


def now_us() -> int:
    return time.time_ns() // 1000


_log = structlog.get_logger("mnemolog.node")


class _Part(Protocol):
    failed: str | None


class Node(ABC):
    """A node opens its log and its projections, calls `_prepare`, and when it works `_begin`."""

    feed: Feed
    missing: MissingVectors
    directory: Path
    """Where its projections are."""
    projections: Projections
    log: ReadableLog
    """The log as threads read it."""

    def __init__(
        self, settings: Settings, rules: Rules | None = None, clock: Clock = now_us
    ) -> None:
        self.settings = settings
        self.rules = rules or Rules()
        self.clock = clock
        """The time of what the service asks of itself."""
        self.using = Gate()
        """Entered by whoever uses the projections outside the deciders' threads."""
        self._moments = Gate()
        """Entered by whoever reads several things of one moment of a state."""
        self.rebuilding = threading.Lock()
        self.model = model_of(settings)
        self.embedder = BackgroundEmbedder(self.model, models_dir(settings.models or None))
        self.embedder.start()
        self._embedding = ThreadPoolExecutor(EMBED_THREADS, thread_name_prefix="embed")
        self._reading = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read")
        self._examining = ThreadPoolExecutor(HEAVY_THREADS, thread_name_prefix="examine")
        self._importing = ThreadPoolExecutor(1, thread_name_prefix="import")
        self._passages = Passages(settings.call_timeout_s)
        self.shared = shared_vectors(settings, self.model)
        self._feeder: Feeder | None = None
        self._shown = 0
        self._begun = False
        self._closing = threading.Event()
        self._upkeep = threading.Thread(target=self._keep_up, name="upkeep", daemon=True)

    # --- what each kind of node does in its own way ----------------------------------------------

    @abstractmethod
    async def _decided(
        self,
        call: Call,
        partition: int,
        tool: tools.Tool | None = None,
        args: Arguments | None = None,
    ) -> Answer:
        """Have a call decided; raises `Unavailable` when there is no decision in time."""

    @abstractmethod
    def submit(
        self, call: Call, partition: int, tool: tools.Tool | None, args: Arguments | None
    ) -> Future[Answer]:
        """From a thread: have a call decided."""

    @abstractmethod
    def submit_embedded(self, call: Call, partition: int, texts: list[str]) -> Future[Answer]:
        """From a thread: have a call decided whose texts are embedded first, so that nobody else
        waits for them. For work of the service's own."""

    @abstractmethod
    def _record(self, partition: int, call: Call) -> None:
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
    def paused(self) -> AbstractContextManager[None]:
        """From a thread: nothing is decided or applied meanwhile."""

    @abstractmethod
    def use_states(self, states: list[PartitionState]) -> None:
        """Work on these states from now on; while paused."""

    @abstractmethod
    async def aclose(self) -> None: ...

    # --- calls -----------------------------------------------------------------------------------

    async def call(self, request: Request, progress: Tell | None = None) -> Answer:
        asked = TOOLS.get(request.tool)
        if asked is not None and asked.internal and not request.internal:
            request = msgspec.structs.replace(request, tool=HIDDEN + request.tool)
        call = Call(
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
        )
        try:
            tool, args = read_call(call)
        except Refused:
            return await self._decided(call, partition_of_space(call.space, self.log.partitions))
        place = tool.place(call.tenant, args)
        call = msgspec.structs.replace(call, space=place.space)
        partition = tools.partition_of(place, self.log.partitions)
        if request.after is not None or request.consistency is not None:
            try:
                await self._reached(request, partition)
            except Refused as refused:
                return await self._refused(call, partition, refused)
        if tool.reads:
            try:
                return await self._answered(tool, call, args, partition)
            except TooMuch as refused:
                return await self._refused(call, partition, refused)
            except Refused:
                pass  # The decider refuses it in the same words, on the log.
        if isinstance(args, Migrate):
            call = await self._carried_out(call, args, partition, request, progress)
        return await self._decided(call, partition, tool, args)

    async def _refused(self, call: Call, partition: int, refused: Refused) -> Answer:
        """Have it recorded that a call was refused for what the decider cannot see."""
        wrong = Truncated(refused.sentence, len(call.arguments), sha256(call.arguments))
        return await self._decided(msgspec.structs.replace(call, truncated=wrong), partition)

    async def _carried_out(
        self, call: Call, args: Migrate, partition: int, request: Request, progress: Tell | None
    ) -> Call:
        """One after another; there is no time-out as long as its calls are decided."""
        loop = asyncio.get_running_loop()

        def tell(done: int, total: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, done, total)

        edge = Edge(
            self.submit,
            partition,
            self._closing.is_set,
            tell,
            self.settings.call_timeout_s,
            self.clock,
        )
        return await loop.run_in_executor(
            self._importing, carry_out, edge, call, args, request.files
        )

    async def _reached(self, request: Request, partition: int) -> None:
        """Wait until this node shows what the caller has seen, or everything there is."""
        count, place = self.log.partitions, Place()
        if request.after is not None:
            place = place_after(request.after, range(count), count)
        if request.consistency == "strong":
            place[partition] = max(place.get(partition, 0), await self._newest(partition))
        await reached(place, self._shows, self.settings.call_timeout_s)

    async def _answered(
        self, tool: tools.Tool, call: Call, args: Arguments, partition: int
    ) -> Answer:
        """A read's answer. One that awaits descriptions gets them, or so long to come."""
        loop = asyncio.get_running_loop()
        pool = self._examining if tool.heavy else self._reading
        if tool.awaits and self.embedder.status == "loading":
            await loop.run_in_executor(pool, self.embedder.wait, self.settings.model_wait_s)
        until_s = time.monotonic() + (self.settings.describe_wait_s if tool.awaits else 0.0)
        pause_s = 0.001
        while True:
            last = time.monotonic() >= until_s
            answer = await loop.run_in_executor(pool, self._read, tool, call, args, partition, last)
            if answer is not None:
                return answer
            await asyncio.sleep(pause_s)
            pause_s = min(0.02, pause_s * 1.5)

    def _read(
        self, tool: tools.Tool, call: Call, args: Arguments, partition: int, last: bool
    ) -> Answer | None:
        """Answer from the projections, then have the call recorded with what it returned. None:
        what the tool awaits is not there yet, and this is not the `last` time it is asked."""
        assert tool.answer is not None
        started = time.perf_counter()
        with self.using.shared(), ExitStack() as within:
            projections = self.projections
            view = projections.states[partition].reader()
            if not tool.heavy:  # One that takes seconds would hold up the state's upkeep.
                within.enter_context(self._moments.shared())
                within.enter_context(view.moment())
            pending = self.missing.pending(view, call.space, tool.awaits) if tool.awaits else None
            if pending is not None and pending.worth_waiting and not last:
                return None
            position = view.one("SELECT next_offset FROM chain")[0] - 1
            reader = tools.Reader(
                view,
                projections.text,
                projections.vectors,
                self._embed_query,
                self._embed_passages,
                None if self.model is None else _named(self.model),
                self._loaded_model,
                0 if pending is None else pending.count,
            )
            read = tool.answer(reader, call, args)
        reply = msgspec.json.encode(read.reply)
        if len(reply) > MAX_REPLY_BYTES:
            raise TooMuch(
                f"The answer has {len(reply):,} bytes; at most {MAX_REPLY_BYTES:,} are given at a "
                "time: ask for less"
            )
        took_ms = round((time.perf_counter() - started) * 1000, 1)
        answered = Answered(ids=read.ids, mode=read.mode, ms=took_ms)
        self._record(partition, msgspec.structs.replace(call, answered=answered))
        return Answer(reply=reply, position=f"{partition}:{position}")

    # --- vectors ---------------------------------------------------------------------------------

    def _embed_query(self, text: str) -> Callable[[], Vector] | None:
        """The query's vector, on its way: what is called waits for it. None: there is no model,
        or none for this script."""
        if self.model is None or not covers(self.model, text):
            return None
        embedder = self.embedder.wait(self.settings.model_wait_s)
        if embedder is None:
            return None
        return self._embedding.submit(embedder.embed_query, text).result

    def _loaded_model(self) -> str | None:
        if self.model is None or self.embedder.wait(self.settings.model_wait_s) is None:
            return None
        return self.model.name

    def _embed_passages(self, texts: Sequence[str]) -> list[Vector | None] | None:
        """The vectors of stored texts, None for one that the model does not cover."""
        if self.model is None:
            return None
        embedder = self.embedder.wait(self.settings.model_wait_s)
        return None if embedder is None else self._passages.vectors(embedder, texts)

    def _inputs_of(self, call: Call) -> Inputs:
        """What a call on the log needs for deciding."""
        return self._embed(self._texts_of(call))

    def _texts_of(self, call: Call) -> list[str]:
        try:
            tool, args = read_call(call)
        except Refused:
            return []
        return tool.texts(args)

    def _embed(self, texts: list[str]) -> Inputs:
        """The vectors of those texts that the model covers; none while there is no model."""
        if self.model is None:
            return Inputs()
        wanted = [text for text in texts if text and covers(self.model, text)]
        vectors: dict[str, bytes] = {}
        embedder = self.embedder.wait(self.settings.model_wait_s) if wanted else None
        if embedder is None:
            if wanted:
                self.missing.look()
            return Inputs(_named(self.model), vectors)
        for text in wanted:
            try:
                vectors[text] = embedder.embed_passage(text).tobytes()
            except Exception as error:
                # Deciding goes on without it, as without a model.
                _log.error("a text could not be embedded", characters=len(text), error=str(error))
        return Inputs(_named(self.model), vectors)

    # --- upkeep ----------------------------------------------------------------------------------

    async def health(self) -> dict[str, Any]:
        reasons = self._reasons()
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
                "embedding": self.missing.progress(),
            },
            "vectors": vectors,
            "partitions": await self._positions(),
        }

    def _stopped(self, parts: Sequence[_Part]) -> list[str]:
        """Why those of the node's parts that have stopped did, the projector among them."""
        every = [*parts, *([] if self._feeder is None else [self._feeder])]
        return [one.failed for one in every if one.failed]

    def _vectors_health(self) -> dict[str, Any]:
        """A vector store that is away costs hits, not calls: the node is not worse for it."""
        if self.shared is None:
            return {"status": "own"}
        found = self.shared.health()
        return found if self._feeder is None else {**found, "projector": self._feeder.health()}

    @abstractmethod
    async def _positions(self) -> list[dict[str, Any]]:
        """Per partition where the log ends and how far this node is."""

    def _show(self, partition: int, counted: Counted) -> None:
        facts = self.projections.show(partition, counted)
        self.missing.saw(partition, counted.decision, facts)
        self._shown += 1
        self.feed.publish(partition, counted)

    def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        return self.feed.events(follow)

    def _prepare(self, log: Log) -> None:
        """Before anything is shown that was not when the projections were opened."""
        self.missing = MissingVectors(self)
        self.feed = Feed(
            log,
            self._voids,
            [state.next_offset for state in self.projections.states],
            buffer=self.settings.events_buffer,
            streams=self.settings.events_streams,
            timeout_s=self.settings.call_timeout_s,
        )

    async def _voids(self, partition: int, start: int, end: int) -> set[int]:
        def look() -> set[int]:
            with self.using.shared():
                view = self.projections.states[partition].reader()
                sql = "SELECT offset FROM void WHERE offset >= ? AND offset < ?"
                return {row[0] for row in view.all(sql, start, end)}

        return await asyncio.get_running_loop().run_in_executor(self._reading, look)

    def _begin(self) -> None:
        self._begun = True
        self.missing.start()
        self._upkeep.start()

    def _end(self) -> None:
        """Let go of everything but the log, once nothing is decided or applied any more."""
        self._reading.shutdown()
        self._passages.close()
        self._examining.shutdown(cancel_futures=True)
        if self._feeder is not None:
            self._feeder.stop()
        self._embedding.shutdown()
        self.projections.close()
        if self.shared is not None:
            self.shared.close()
        self.embedder.wait(LOAD_WAIT_S)

    def _stop_background(self) -> None:
        self._closing.set()
        if self._begun:
            self._upkeep.join()
        self._importing.shutdown()
        if self._begun:
            self.missing.stop()

    def _keep_up(self) -> None:
        before = committed = self._shown
        committed_s = time.monotonic()
        while not self._closing.wait(UPKEEP_S):
            self.embedder.poll()
            if self.shared is not None:
                self.shared.refresh()
            with self.using.shared():
                grown = [one for one in self.projections.states if one.wal_has_grown]
                if grown:
                    with self._moments.alone():
                        for state in grown:
                            state.shorten_wal()
            shown, now_s = self._shown, time.monotonic()
            idle, before = shown == before, shown
            due = shown - committed >= COMMIT_AFTER or now_s - committed_s >= COMMIT_AFTER_S
            if shown == committed or not (idle or due):
                continue
            try:
                with self.using.shared():
                    self.projections.commit()
                committed, committed_s = shown, now_s
            except Exception as error:
                _log.error("the indexes could not be made durable", error=str(error))


def model_of(settings: Settings) -> Model | None:
    if settings.model == "none":
        return None
    model = CATALOGUE.get(settings.model)
    if model is None:
        raise SettingsError(
            f"There is no model {settings.model!r}; `mnemolog models list` shows them, "
            "and `none` turns vectors off"
        )
    return model


def shared_vectors(settings: Settings, model: Model | None) -> TailedVectors | None:
    """Vectors on a server, as a node searches them; None: every node has its own."""
    if settings.vectors == EDGE or model is None:
        return None
    return open_tailed(settings.vectors, model.dims, model.name, qdrant_api_key(), settings.topics)


def in_doubt(call: Call, timeout_s: float) -> Unavailable:
    return Unavailable(
        f"No decision within {timeout_s:g} s. The call may still be carried out; ask again under "
        f"the idempotency key {call.idempotency_key or call.id!r} to learn its outcome"
    )


def _named(model: Model) -> tools.Model:
    return tools.Model(model.name, model.dedup_cosine)
