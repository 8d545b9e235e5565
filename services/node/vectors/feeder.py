"""Keeps a shared vector store up to the log: the projector's thread."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import structlog

from mnemolog.events.log import LogError
from mnemolog.infra.embedder.catalogue import Model
from mnemolog.infra.settings import Settings, qdrant_api_key
from mnemolog.projections.ports import VectorsAway
from mnemolog.projections.projection import Projected
from mnemolog.services.api import Unavailable
from mnemolog.services.node.failing import Complaints
from mnemolog.services.node.following.follow import ReadableLog, counted_after, follow_vectors
from mnemolog.services.node.vectors.opening import open_server
from mnemolog.services.node.vectors.projector import OutOfOrder, Projector

if TYPE_CHECKING:
    from mnemolog.projections.vectors.server import ServerVectors

BATCH = 200
TURN = 10
"""Batches of one partition before the next one has its turn."""
LOOK_S = 1.0
RETRY_FIRST_S, RETRY_S = 0.1, 2.0
FAILED_S = 10.0
STOPPED = "the projector has stopped"
SWITCH_TRIES = 20
"""A rebuilt index is fed again when the old one was fed meanwhile; it lags less each time."""

_log = structlog.get_logger("mnemolog.projector")


class Feeder:
    """Feeds the partitions that it `own`s, from the store's own checkpoint on; a store that is
    away is tried again until it is back, and nothing is skipped meanwhile."""

    def __init__(
        self, settings: Settings, projected: Projected, model: Model, log: ReadableLog
    ) -> None:
        self.failed: str | None = None
        self.away: str | None = None
        self._settings = settings
        self._projected = projected
        self._model = model
        self._log = log
        self._owned: frozenset[int] = frozenset()
        self._fed: dict[int, int] = {}
        self._new: set[int] = set()
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
        self._new.add(partition)
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

    def health(self) -> dict[str, Any]:
        """How far it is, and why no further."""
        return {"reason": self.failed or self.away, "fed": self.positions()}

    def _run(self) -> None:
        looked_s = 0.0
        complaints = Complaints(_log)
        while not self._stopping.is_set():
            self._wake.wait(LOOK_S)
            self._wake.clear()
            now_s = time.monotonic()
            look = now_s - looked_s >= LOOK_S
            looked_s = now_s if look else looked_s
            try:
                self._feed_all(news_only=not look)
                self.away = self.failed = None
                complaints.gone(STOPPED)
            except (VectorsAway, LogError, OutOfOrder) as error:
                first = self.away is None
                if first:
                    _log.warning("vectors are not brought up to the log", reason=str(error))
                self.away = str(error)
                self._fed.clear()
                # At first it may be that a rebuild has replaced the collection.
                self._stopping.wait(RETRY_FIRST_S if first else RETRY_S)
                self._wake.set()
            except BaseException as error:
                # What cannot be read or applied is not skipped: it stands still there, says so,
                # and tries again. The cause may pass: a disk, or an index that is made anew.
                complaints.of(STOPPED, error)
                self.failed = f"The projector has stopped: {type(error).__name__}: {error}"
                self._fed.clear()
                self._stopping.wait(FAILED_S)

    def _feed_all(self, news_only: bool) -> None:
        """Feed what is owned: that of which there is news, and every now and then all of it."""
        if self._projector is None:
            self._index = _opened(self._settings, self._model)
            self._projector = Projector(
                self._index, self._projected, self._model.name, sleep=self._pause
            )
        owned = self._owned
        self._fed = {p: fed for p, fed in self._fed.items() if p in owned}
        waiting = {p for p in owned if not news_only or p in self._new or p not in self._fed}
        while waiting and not self._stopping.is_set():
            self._new -= waiting
            for partition in waiting:
                if partition not in self._fed:
                    self._fed[partition] = self._projector.checkpoint(partition)
            waiting = {p for p in waiting if self._feed(self._projector, p)}

    def _feed(self, projector: Projector, partition: int) -> bool:
        """A turn's worth of the partition; whether there may be more."""
        counted = counted_after(self._log, self._projected, partition, self._fed[partition])
        for _ in range(TURN):
            batch = list(itertools.islice(counted, BATCH))
            if not batch or self._stopping.is_set() or partition not in self._owned:
                return False
            projector.feed(partition, batch)
            self._fed[partition] = batch[-1].offset
        return True

    def _pause(self, pause_s: float) -> None:
        if self._stopping.wait(pause_s):
            raise VectorsAway("The service is ending")


def _opened(settings: Settings, model: Model) -> ServerVectors:
    key, ca = qdrant_api_key(), settings.vectors_ca
    return open_server(settings.vectors, model.dims, model.name, key, settings.topics, ca)


def rebuild_shared(
    settings: Settings, projected: Projected, model: Model, log: ReadableLog
) -> None:
    """The shared vectors made anew from the log beside the old ones, then switched over."""
    try:
        _rebuild_shared(settings, projected, model, log)
    except (VectorsAway, ValueError) as error:
        raise Unavailable(
            f"The vectors on the server were not made anew, everything else was: {error}"
        ) from error


def _rebuild_shared(
    settings: Settings, projected: Projected, model: Model, log: ReadableLog
) -> None:
    live = _opened(settings, model)
    try:
        fresh = live.fresh()
        try:
            for left in range(SWITCH_TRIES - 1, -1, -1):
                follow_vectors(log, fresh, projected, model.name)
                fresh.commit()
                try:
                    live.switch_to(fresh)
                    return
                except ValueError:
                    if not left:
                        raise
        finally:
            fresh.close()
    finally:
        live.close()
