"""A thread of a node's own, for work beside the calls."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod

IDLE = 9
"""What reads everything through rests so many times as long as it works."""


class Stopped(Exception):
    """The node ends."""


class Background(ABC):
    """One thread, from `start` to `stop`. What it does waits on `_stopping`, and ends by it."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def _run(self) -> None: ...


class Quiet(Background):
    """One that works a little at a time, and rests in between; then `Stopped` may be raised."""

    _worked_s = 0.0

    def _begin_work(self) -> None:
        self._worked_s = time.monotonic()

    def _rest(self) -> None:
        if self._stopping.wait(IDLE * (time.monotonic() - self._worked_s)):
            raise Stopped
        self._begin_work()
