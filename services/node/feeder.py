"""Keeps a shared vector store up to the log: the projector's thread."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import structlog

from events.log import LogError
from infra.embedder.catalogue import Model
from infra.settings import qdrant_api_key
from projections.ports import VectorsAway
from services.node.follow import ReadableLog, counted_after, follow_vectors
from services.node.projector import Gap, Projector
from services.node.vectors import open_server

BATCH = 200
LOOK_S = 1.0
RETRY_S = 2.0

_log = structlog.get_logger("mnemolog.projector")


class Feeder:
    """Feeds the partitions that it `own`s, from the store's own checkpoint on; a store that is
    away is tried again until it is back, and nothing is skipped meanwhile."""

    def __init__(self, url: str, model: Model, log: ReadableLog) -> None:
        self.failed: str | None = None
        self.away: str | None = None
        self._url = url
        self._model = model
        self._log = log
        self._owned: frozenset[int] = frozenset()
        self._fed: dict[int, int] = {}
        self._projector: Projector | None = None
        self._index: Any = None
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="projector", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def own(self, partitions: frozenset[int]) -> None:
        self._owned = partitions
        self._wake.set()

    def came(self, partition: int, offset: int, data: bytes) -> None:
        """There is something new on the log."""
        self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._index is not None:
            self._index.close()

    def positions(self) -> list[dict[str, int]]:
        return [{"partition": p, "vectors": fed + 1} for p, fed in sorted(self._fed.items())]

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(LOOK_S)
            self._wake.clear()
            try:
                self._feed_all()
                self.away = None
            except (VectorsAway, LogError, Gap) as error:
                if self.away is None:
                    _log.warning("vectors are not brought up to the log", reason=str(error))
                self.away = str(error)
                self._fed.clear()
                self._stopping.wait(RETRY_S)
            except Exception as error:
                # What cannot be read or applied is not skipped: it stops, and says so.
                _log.error("the projector has stopped", error=str(error), exc_info=True)
                self.failed = f"The projector has stopped: {error}"
                return

    def _feed_all(self) -> None:
        if self._projector is None:
            self._index = open_server(
                self._url, self._model.dims, self._model.name, qdrant_api_key()
            )
            self._projector = Projector(self._index, self._model.name)
        self._fed = {p: fed for p, fed in self._fed.items() if p in self._owned}
        for partition in self._owned:
            if partition not in self._fed:
                self._fed[partition] = self._projector.checkpoint(partition)
            self._feed(self._projector, partition)

    def _feed(self, projector: Projector, partition: int) -> None:
        counted = counted_after(self._log, partition, self._fed[partition])
        while batch := list(itertools.islice(counted, BATCH)):
            if self._stopping.is_set() or partition not in self._owned:
                return
            projector.feed(partition, batch)
            self._fed[partition] = batch[-1].offset


def rebuild_shared(url: str, model: Model, log: ReadableLog) -> None:
    """The shared vectors made anew from the log beside the old ones, then switched over."""
    live = open_server(url, model.dims, model.name, qdrant_api_key())
    try:
        fresh = live.fresh()
        try:
            follow_vectors(log, fresh, model.name)
            fresh.commit()
            live.switch_to(fresh)
        finally:
            fresh.close()
    finally:
        live.close()
