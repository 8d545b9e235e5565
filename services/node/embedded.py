"""The embedded node: log, deciders and projections of one data directory, in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

from mnemolog.events.arguments import Arguments
from mnemolog.events.envelope import Call
from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.infra.settings import Settings
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.api import Answer
from mnemolog.services.decider import tool as tools
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.decider.partition import PartitionDecider
from mnemolog.services.decider.rules import Rules
from mnemolog.services.node.feeder import Feeder
from mnemolog.services.node.follow import Progress
from mnemolog.services.node.node import LOAD_WAIT_S, Clock, Node, in_doubt, now_us
from mnemolog.services.node.projections import Projections
from mnemolog.services.node.worker import PartitionWorker


class EmbeddedNode(Node):
    """Opens the store in `settings.data_dir`. The caller holds the directory's lock."""

    log: SqliteLog

    def __init__(
        self,
        settings: Settings,
        rules: Rules | None = None,
        progress: Progress | None = None,
        clock: Clock = now_us,
    ) -> None:
        super().__init__(settings, rules, clock)
        self.directory = settings.data_dir
        with ExitStack() as undo:
            # The runtime aborts a process that ends while a model is being loaded.
            undo.callback(self.embedder.wait, LOAD_WAIT_S)
            self.log = SqliteLog(settings.data_dir / "log.db", settings.partitions)
            undo.callback(self.log.shut)
            directory = self.directory / "projections"
            self.projections = Projections(directory, self.log.partitions, self.model, self.shared)
            undo.callback(self.projections.close)
            self.projections.catch_up(self.log, progress)
            undo.pop_all()
        self._prepare(self.log)
        self.workers = [
            PartitionWorker(p, self.log, PartitionDecider(state, self.rules), self._show)
            for p, state in enumerate(self.projections.states)
        ]
        for worker in self.workers:
            worker.decide_backlog(self._inputs_of)
            worker.start()
        if self.shared is not None and self.model is not None:
            self._feeder = Feeder(settings, self.model, self.log)
            self._feeder.own(frozenset(range(self.log.partitions)))
            self._feeder.start()
        self._begin()

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
        return self.workers[partition].submit(call, _done(self._embed(texts)))

    def close(self) -> None:
        """Decide what is waiting, make the indexes durable, let go of everything."""
        self.feed.close()
        self._stop_background()
        for worker in self.workers:
            worker.stop()
        self._end()
        self.log.shut()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    @contextmanager
    def paused(self) -> Iterator[None]:
        go_on = threading.Event()
        arrived = threading.Barrier(len(self.workers) + 1)

        def pause() -> None:
            arrived.wait(timeout=60)
            go_on.wait()

        for worker in self.workers:
            worker.between_batches(pause)
        try:
            arrived.wait(timeout=60)
            yield
        finally:
            go_on.set()

    def use_states(self, states: list[PartitionState]) -> None:
        for worker, state in zip(self.workers, states, strict=True):
            worker.decider.state = state

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
            raise in_doubt(call, self.settings.call_timeout_s) from None

    def _record(self, partition: int, call: Call) -> None:
        self.workers[partition].record(call)

    def decides(self, partition: int) -> bool:
        return True

    def _shows(self, partition: int) -> int:
        return self.workers[partition].shown

    async def _newest(self, partition: int) -> int:
        return self.log.end(partition).decisions

    def _reasons(self) -> list[str]:
        return self._stopped(self.workers)

    async def _positions(self) -> list[dict[str, Any]]:
        return [
            {
                "partition": state.partition,
                "calls": self.log.end(state.partition).calls,
                "decisions": self.log.end(state.partition).decisions,
                "state": state.next_offset,
            }
            for state in self.projections.states
        ]


def _done(inputs: Inputs) -> Future[Inputs]:
    done: Future[Inputs] = Future()
    done.set_result(inputs)
    return done
