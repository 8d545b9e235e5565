"""A node's upkeep: indexes made durable, write-ahead files kept short, a model that was installed
meanwhile noticed, what is open and what failed looked after."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from mnemolog.services.node.background import Background
from mnemolog.services.node.failing import Complaints
from mnemolog.services.node.host import Host

EVERY_S = 1.0
COMMIT_AFTER_S = 15.0
COMMIT_AFTER = 2_000
"""The indexes are made durable when nothing was written for a moment, else after so long or so many
decisions: it holds everybody up for some 20 ms, and what is not durable comes from the log."""

_log = structlog.get_logger("mnemolog.node")


class Upkeep(Background):
    """`shown` counts the decisions that were shown."""

    def __init__(self, host: Host) -> None:
        super().__init__("upkeep")
        self.shown = 0
        self._host = host
        self._before = 0
        # Once after the start, too: what came from the log then may not be durable.
        self._committed = -1
        self._committed_s = time.monotonic()

    def _run(self) -> None:
        """Whatever fails is tried again the next time round, and keeps nothing else from it."""
        complaints = Complaints(_log)
        steps: list[tuple[str, Callable[[], object]]] = [
            ("a model could not be looked for", lambda: self._host.embedding.embedder.poll()),
            ("the vector server could not be asked", self._refresh),
            ("write-ahead files could not be shortened", self._shorten),
            ("the indexes could not be made durable", self._commit),
            ("the store could not be looked after", self._host.condition.look),
        ]
        while not self._stopping.wait(EVERY_S):
            for what, step in steps:
                with complaints.about(what):
                    step()

    def _refresh(self) -> None:
        if self._host.shared is not None:
            self._host.shared.refresh()

    def _commit(self) -> None:
        shown, now_s = self.shown, time.monotonic()
        idle, self._before = shown == self._before, shown
        due = shown - self._committed >= COMMIT_AFTER or now_s - self._committed_s >= COMMIT_AFTER_S
        if shown == self._committed or not (idle or due):
            return
        with self._host.using.shared():
            self._host.projections.commit()
        self._committed, self._committed_s = shown, now_s

    def _shorten(self) -> None:
        with self._host.using.shared():
            states = self._host.projections.states
            grown = [one for one in states if one.wal_has_grown]
            if grown:
                with self._host.moments.alone():
                    for state in grown:
                        state.shorten_wal()
            for state in states:
                state.seal()
