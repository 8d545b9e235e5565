"""A node's upkeep: indexes made durable, write-ahead files kept short, a model that was installed
meanwhile noticed."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog

from mnemolog.services.node.host import Host

if TYPE_CHECKING:
    pass

EVERY_S = 1.0
COMMIT_AFTER_S = 15.0
COMMIT_AFTER = 2_000
"""The indexes are made durable when nothing was written for a moment, else after so long or so many
decisions: it holds everybody up for some 20 ms, and what is not durable comes from the log."""

_log = structlog.get_logger("mnemolog.node")


class Upkeep:
    """One thread, from `start` to `stop`. `shown` counts the decisions that were shown."""

    def __init__(self, host: Host) -> None:
        self.shown = 0
        self._host = host
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        # Once after the start, too: what came from the log then may not be durable.
        before, committed = self.shown, -1
        committed_s = time.monotonic()
        while not self._stopping.wait(EVERY_S):
            self._host.embedding.embedder.poll()
            if self._host.shared is not None:
                self._host.shared.refresh()
            self._shorten()
            shown, now_s = self.shown, time.monotonic()
            idle, before = shown == before, shown
            due = shown - committed >= COMMIT_AFTER or now_s - committed_s >= COMMIT_AFTER_S
            if shown == committed or not (idle or due):
                continue
            try:
                with self._host.using.shared():
                    self._host.projections.commit()
                committed, committed_s = shown, now_s
            except Exception as error:
                _log.error("the indexes could not be made durable", error=str(error))

    def _shorten(self) -> None:
        with self._host.using.shared():
            grown = [one for one in self._host.projections.states if one.wal_has_grown]
            if grown:
                with self._host.moments.alone():
                    for state in grown:
                        state.shorten_wal()
