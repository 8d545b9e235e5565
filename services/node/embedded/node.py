"""The embedded node: log, deciders and projections of one data directory, in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

from mnemolog.events.envelope import Call
from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.infra.settings import Settings
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.api import Answer
from mnemolog.services.catalogue import Catalogue, Rules
from mnemolog.services.decider.partition import PartitionDecider
from mnemolog.services.decider.tool import Asked
from mnemolog.services.node.embedded.scrub import Scrub
from mnemolog.services.node.embedded.worker import PartitionWorker
from mnemolog.services.node.following.belongs import check_belongs, check_not_lost
from mnemolog.services.node.following.follow import Advance
from mnemolog.services.node.following.projections import Projections
from mnemolog.services.node.node import Clock, Node, in_doubt, now_us
from mnemolog.services.node.vectors.feeder import Feeder


class EmbeddedNode(Node):
    """Opens the store in `settings.data_dir`. The caller holds the directory's lock."""

    log: SqliteLog

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        rules: Rules | None = None,
        progress: Advance | None = None,
        clock: Clock = now_us,
    ) -> None:
        super().__init__(settings, catalogue, rules, clock)
        self.directory = settings.data_dir
        with ExitStack() as undo:
            undo.callback(self.embedding.close)
            directory = self.directory / "projections"
            check_not_lost(settings.data_dir / "log.db", directory)
            self.log = SqliteLog(settings.data_dir / "log.db", settings.partitions)
            undo.callback(self.log.shut)
            self.projections = Projections(
                directory, self.log.partitions, catalogue.projected, self.model, self.shared
            )
            undo.callback(self.projections.close)
            for state in self.projections.states:
                check_belongs(self.log, state)
            self.projections.catch_up(self.log, progress)
            undo.pop_all()
        self._prepare(self.log)
        self.workers = [
            PartitionWorker(
                p, self.log, PartitionDecider(state, self.deciding, self.time), self._show
            )
            for p, state in enumerate(self.projections.states)
        ]
        for worker in self.workers:
            worker.decide_backlog(self.embedding.inputs)
            worker.start()
        if self.shared is not None and self.model is not None:
            self._feeder = Feeder(settings, catalogue.projected, self.model, self.log)
            self._feeder.own(frozenset(range(self.log.partitions)))
            self._feeder.start()
        self._begin()
        self.scrub = Scrub(self.log, self._damaged)
        self.scrub.start()

    def _damaged(self, partition: int, sentence: str) -> None:
        self.workers[partition].give_up(sentence)

    def submit(self, asked: Asked) -> Future[Answer]:
        """What a call needs embedded is on its way while it waits its turn."""
        worker = self.workers[asked.partition]
        worker.check(asked)  # What is refused is not embedded for nothing.
        call = asked.call
        return worker.submit(asked, self.embedding.start(asked.texts, call.tenant, call.trace))

    def submit_embedded(self, call: Call) -> Future[Answer]:
        asked = self.read(call)
        return self.workers[asked.partition].submit(asked, self.embedding.made(asked.texts))

    def close(self) -> None:
        """Decide what is waiting, make the indexes durable, let go of everything."""
        self.feed.close()
        self.scrub.stop()
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
            worker.use(state)

    async def _decided(self, asked: Asked) -> Answer:
        answer = asyncio.wrap_future(self.submit(asked))
        try:
            return await asyncio.wait_for(answer, self.settings.call_timeout_s)
        except TimeoutError:
            raise in_doubt(asked.call, self.settings.call_timeout_s) from None

    def _record(self, asked: Asked) -> None:
        self.workers[asked.partition].record(asked)

    def decides(self, partition: int) -> bool:
        return True

    def log_is_gone(self) -> str | None:
        return self.log.gone()

    def _shows(self, partition: int) -> int:
        return self.workers[partition].shown

    async def _newest(self, partition: int) -> int:
        return self.log.end(partition).decisions

    def _reasons(self) -> list[str]:
        return self._stopped(self.workers) + [one.trouble for one in self.workers if one.trouble]

    def _waiting(self) -> list[tuple[str, int]]:
        return [("deciding", one.waiting) for one in self.workers]

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
