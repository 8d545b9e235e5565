"""A thread of a node's own, for work beside the calls."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


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
