"""Asking a server that may be away, without every caller waiting for the same time-out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from mnemolog.projections.ports import VectorsAway

PAUSE_S = 3.0

T = TypeVar("T")


class Breaker:
    """After a failure nobody asks for `pause_s`; then one asks, and if that works all do again."""

    def __init__(
        self, pause_s: float = PAUSE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pause_s = pause_s
        self._clock = clock
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._until = 0.0
        self._trying = False

    @property
    def reason(self) -> str | None:
        """Why the last request failed; None when it did not."""
        return self._reason

    def ask(self, request: Callable[[], T]) -> T:
        """What `request` gives; VectorsAway from it, or at once while the pause lasts."""
        with self._lock:
            if self._reason is not None:
                if self._trying or self._clock() < self._until:
                    raise VectorsAway(self._reason)
                self._trying = True
        return self.probe(request)

    def probe(self, request: Callable[[], T]) -> T:
        """As `ask`, but never held back: for whoever watches over the server in the background."""
        try:
            answer = request()
        except VectorsAway as error:
            with self._lock:
                self._reason, self._until = str(error), self._clock() + self._pause_s
                self._trying = False
            raise
        except BaseException:
            with self._lock:
                self._trying = False
            raise
        with self._lock:
            self._reason, self._trying = None, False
        return answer
