"""The embedded node: log, deciders and projections of one data directory, in this process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import msgspec
import structlog

from events.arguments import Arguments, Refused
from events.envelope import Answered, Call
from events.ids import partition_of_id, partition_of_session, partition_of_space
from infra.embedder.catalogue import CATALOGUE, Model, covers
from infra.embedder.lazy import BackgroundEmbedder
from infra.embedder.store import models_dir
from infra.log.sqlite import SqliteLog
from infra.settings import Settings, SettingsError
from projections.ports import Vector
from services.api import Answer, Request, Unavailable
from services.decider import tool as tools
from services.decider.catalogue import TOOLS, read_call
from services.decider.decide import Inputs
from services.decider.partition import PartitionDecider
from services.decider.rules import Rules
from services.node.follow import Counted, Progress
from services.node.gate import Gate
from services.node.missing import MissingVectors
from services.node.projections import Projections
from services.node.worker import PartitionWorker

EMBED_THREADS = 2
READ_THREADS = 4
UPKEEP_S = 1.0
COMMIT_AFTER_S = 15.0
COMMIT_AFTER = 2_000
"""The indexes are made durable when nothing was written for a moment, else after so long or so many
decisions: it holds everybody up for some 20 ms, and what is not durable comes from the log."""
LOAD_WAIT_S = 30.0

_log = structlog.get_logger("mnemolog.node")


class EmbeddedNode:
    """Opens the store in `settings.data_dir`. The caller holds the directory's lock."""

    def __init__(
        self, settings: Settings, rules: Rules | None = None, progress: Progress | None = None
    ) -> None:
        self.settings = settings
        self.using = Gate()
        """Entered by whoever uses the projections outside the deciders' threads."""
        self.rebuilding = threading.Lock()
        self.model = model_of(settings)
        self.embedder = BackgroundEmbedder(self.model, models_dir(settings.models or None))
        self.embedder.start()
        with ExitStack() as undo:
            # The runtime aborts a process that ends while a model is being loaded.
            undo.callback(self.embedder.wait, LOAD_WAIT_S)
            self.log = SqliteLog(settings.data_dir / "log.db", settings.partitions)
            undo.callback(self.log.shut)
            directory = settings.data_dir / "projections"
            self.projections = Projections(directory, self.log.partitions, self.model)
            undo.callback(self.projections.close)
            self.projections.catch_up(self.log, progress)
            undo.pop_all()
        self._embedding = ThreadPoolExecutor(EMBED_THREADS, thread_name_prefix="embed")
        self._reading = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read")
        self.rules = rules or Rules()
        self._shown = 0
        self.workers = [
            PartitionWorker(p, self.log, PartitionDecider(state, self.rules), self._show)
            for p, state in enumerate(self.projections.states)
        ]
        self.missing = MissingVectors(self)
        for worker in self.workers:
            worker.decide_backlog(self._inputs_of)
            worker.start()
        self.missing.start()
        self._closing = threading.Event()
        self._upkeep = threading.Thread(target=self._keep_up, name="upkeep", daemon=True)
        self._upkeep.start()

    async def call(self, request: Request) -> Answer:
        asked = TOOLS.get(request.tool)
        if asked is not None and asked.internal:
            request = msgspec.structs.replace(request, tool=f"?{request.tool}")
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
        partition = self.partition_of(place)
        if request.after is not None or request.consistency is not None:
            await self._reached(request)
        if tool.reads:
            try:
                return await self._answered(tool, call, args, partition)
            except Refused:
                pass  # The decider refuses it in the same words, on the log.
        return await self._decided(call, partition, tool, args)

    def partition_of(self, place: tools.Place) -> int:
        count = self.log.partitions
        if place.number is not None:
            return partition_of_id(place.number, count)
        if place.session is not None:
            found = partition_of_session(place.session, count)
            if found is not None:
                return found
        return partition_of_space(place.space, count)

    def submit(
        self, call: Call, partition: int, tool: tools.Tool | None, args: Arguments | None
    ) -> Future[Answer]:
        """Have a call decided. What it needs embedded is on its way while it waits its turn."""
        inputs = None
        if tool is not None and args is not None:
            texts = tool.texts(args)
            inputs = self._embedding.submit(self._embed, texts) if texts else _done(self._embed([]))
        return self.workers[partition].submit(call, inputs)

    def submit_embedded(self, call: Call, partition: int, texts: list[str]) -> Future[Answer]:
        """As `submit`, but the texts are embedded before the call takes its place in the queue:
        for work of the service's own, which nobody else should wait for."""
        return self.workers[partition].submit(call, _done(self._embed(texts)))

    async def health(self) -> dict[str, Any]:
        stopped = [worker.failed for worker in self.workers if worker.failed]
        status = self.embedder.poll()
        ready = status in ("ready", "loading")
        return {
            "status": "degraded" if stopped else "ok",
            "reasons": stopped,
            "mode": "hybrid" if ready else "bm25_only",
            "model": {
                "name": self.embedder.name,
                "status": status,
                "reason": self.embedder.reason,
                "embedding": self.missing.progress(),
            },
            "partitions": [
                {
                    "partition": state.partition,
                    "calls": self.log.end(state.partition).calls,
                    "decisions": self.log.end(state.partition).decisions,
                    "state": state.next_offset,
                }
                for state in self.projections.states
            ],
        }

    def close(self) -> None:
        """Decide what is waiting, make the indexes durable, let go of everything."""
        self._closing.set()
        self._upkeep.join()
        self.missing.stop()
        for worker in self.workers:
            worker.stop()
        self._reading.shutdown()
        self._embedding.shutdown()
        self.projections.close()
        self.log.shut()
        self.embedder.wait(LOAD_WAIT_S)

    async def _decided(
        self,
        call: Call,
        partition: int,
        tool: tools.Tool | None = None,
        args: Arguments | None = None,
    ) -> Answer:
        answer = asyncio.wrap_future(self.submit(call, partition, tool, args))
        try:
            return await asyncio.wait_for(answer, self.settings.call_timeout_s)
        except TimeoutError:
            raise Unavailable(
                f"No decision within {self.settings.call_timeout_s:g} s. The call may still be "
                "carried out; ask again under the idempotency key "
                f"{call.idempotency_key or call.id!r} to learn its outcome"
            ) from None

    async def _reached(self, request: Request) -> None:
        """Wait until this node shows the position the caller has seen, or say that it does not."""
        if request.consistency not in (None, "strong"):
            raise Unavailable(f"consistency can be 'strong', not {request.consistency[:40]!r}")
        if request.after is None:
            return
        try:
            partition, offset = (int(part) for part in request.after.split(":"))
            known = 0 <= partition < self.log.partitions
        except ValueError:
            known = False
        if not known:
            raise Unavailable(
                f"after must be a position from an earlier answer, such as 0:41, "
                f"not {request.after[:40]!r}"
            )
        deadline = time.monotonic() + self.settings.call_timeout_s
        while (stands := self.projections.states[partition].next_offset) <= offset:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Position {request.after} was not reached here within "
                    f"{self.settings.call_timeout_s:g} s; this node stands at "
                    f"{partition}:{stands - 1}"
                )
            await asyncio.sleep(0.01)

    async def _answered(
        self, tool: tools.Tool, call: Call, args: Arguments, partition: int
    ) -> Answer:
        """A read's answer. One that awaits descriptions gets them, or so long to come."""
        loop = asyncio.get_running_loop()
        if tool.awaits and self.embedder.status == "loading":
            await loop.run_in_executor(
                self._reading, self.embedder.wait, self.settings.model_wait_s
            )
        until_s = time.monotonic() + (self.settings.describe_wait_s if tool.awaits else 0.0)
        pause_s = 0.001
        while True:
            last = time.monotonic() >= until_s
            answer = await loop.run_in_executor(
                self._reading, self._read, tool, call, args, partition, last
            )
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
        with self.using.shared():
            projections = self.projections
            view = projections.states[partition].reader()
            pending = self.missing.pending(view, call.space, tool.awaits) if tool.awaits else 0
            if pending and not last:
                return None
            position = view.one("SELECT next_offset FROM chain")[0] - 1
            reader = tools.Reader(
                view,
                projections.text,
                projections.vectors,
                self._embed_query,
                self._loaded_model,
                pending,
            )
            read = tool.answer(reader, call, args)
        took_ms = round((time.perf_counter() - started) * 1000, 1)
        answered = Answered(ids=read.ids, mode=read.mode, ms=took_ms)
        self.workers[partition].record(msgspec.structs.replace(call, answered=answered))
        return Answer(reply=msgspec.json.encode(read.reply), position=f"{partition}:{position}")

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

    def _show(self, partition: int, counted: Counted) -> None:
        facts = self.projections.show(partition, counted)
        self.missing.saw(partition, counted.decision, facts)
        self._shown += 1

    def _inputs_of(self, call: Call) -> Inputs:
        """What a call on the log needs for deciding."""
        try:
            tool, args = read_call(call)
        except Refused:
            return Inputs()
        return self._embed(tool.texts(args))

    def _embed(self, texts: list[str]) -> Inputs:
        """The vectors of those texts that the model covers; none while there is no model."""
        if self.model is None:
            return Inputs()
        wanted = [text for text in texts if text and covers(self.model, text)]
        embedder = self.embedder.wait(self.settings.model_wait_s) if wanted else None
        if wanted and embedder is None:
            self.missing.look()
        vectors = (
            {text: embedder.embed_passage(text).tobytes() for text in wanted} if embedder else {}
        )
        return Inputs(_named(self.model), vectors)

    def _keep_up(self) -> None:
        before = committed = self._shown
        committed_s = time.monotonic()
        while not self._closing.wait(UPKEEP_S):
            self.embedder.poll()
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


def _done(inputs: Inputs) -> Future[Inputs]:
    done: Future[Inputs] = Future()
    done.set_result(inputs)
    return done


def _named(model: Model) -> tools.Model:
    return tools.Model(model.name, model.dedup_cosine)
