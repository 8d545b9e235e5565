"""An embedder that loads behind the scenes, so that a process answers before its model is there."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mnemolog.infra.embedder.catalogue import Model
from mnemolog.infra.embedder.store import fingerprint

if TYPE_CHECKING:
    from mnemolog.infra.embedder.onnx import OnnxEmbedder

Status = Literal["absent", "loading", "ready", "failed"]

# How often `poll` looks at the disk at most; between looks it is a comparison of two numbers.
POLL_INTERVAL_S = 1.0


class BackgroundEmbedder:
    """A model on its way: absent, loading, ready, or failed (see `reason`).

    All methods may be called from several threads. No method but `wait` blocks.
    """

    def __init__(self, model: Model | None, directory: Path) -> None:
        """`model` None: the service runs without embeddings, and `status` stays "absent"."""
        self.model = model
        self.directory = directory
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._settled.set()
        self._embedder: OnnxEmbedder | None = None
        self._failed_files: tuple[int, ...] | None = None
        self._next_look_s = 0.0
        self._status: Status = "absent"
        self._reason = self._absent_reason()

    @property
    def name(self) -> str | None:
        return self.model.name if self.model else None

    @property
    def dims(self) -> int | None:
        return self.model.dims if self.model else None

    @property
    def status(self) -> Status:
        return self._status

    @property
    def reason(self) -> str:
        """Why there is no embedder and what to do, as sentences; empty when loading or ready."""
        return self._reason

    def start(self) -> None:
        """Begin loading in a daemon thread if the files are there. Calling it again is harmless:
        it tries again when the model was absent or had failed."""
        self._begin(retry_same_files=True)

    def poll(self) -> Status:
        """Notice a model that was pulled since (or again, after a failure) and begin loading it.
        Cheap enough for every request."""
        if self._status in ("absent", "failed"):
            now_s = time.monotonic()
            if now_s >= self._next_look_s:
                self._next_look_s = now_s + POLL_INTERVAL_S
                self._begin(retry_same_files=False)
        return self._status

    def wait(self, timeout_s: float) -> OnnxEmbedder | None:
        """The embedder; while it is loading, waits for it up to `timeout_s` seconds.
        None when the model is absent, has failed, or is not there in time."""
        self._settled.wait(timeout_s)
        return self._embedder

    def _begin(self, *, retry_same_files: bool) -> None:
        if self.model is None:
            return
        with self._lock:
            if self._status in ("loading", "ready"):
                return
            files = fingerprint(self.model, self.directory)
            if files is None:
                self._status, self._reason = "absent", self._absent_reason()
                return
            if files == self._failed_files and not retry_same_files:
                return
            self._status, self._reason = "loading", ""
            self._settled.clear()
        threading.Thread(
            target=self._load, args=(self.model, files), name="embedder-load", daemon=True
        ).start()

    def _load(self, model: Model, files: tuple[int, ...]) -> None:
        try:
            from mnemolog.infra.embedder.onnx import OnnxEmbedder

            embedder = OnnxEmbedder.load(model, self.directory)
            # The first run of a session is slower than the rest; better here than for a caller.
            embedder.embed_query("ready")
        except BaseException as error:  # The tokenizer's own errors are no `Exception`.
            with self._lock:
                self._failed_files = files
                self._reason = (
                    f"The embedding model {model.name} in {self.directory} could not be loaded: "
                    f"{error}. Run `mnemolog models pull {model.name}` to check and repair it."
                )
                self._status = "failed"
        else:
            with self._lock:
                self._embedder = embedder
                self._status = "ready"
        finally:
            self._settled.set()

    def _absent_reason(self) -> str:
        if self.model is None:
            return "No embedding model is configured: searches use text alone."
        return (
            f"The embedding model {self.model.name} is not in {self.directory}. "
            f"Run `mnemolog models pull {self.model.name}`; it is noticed without a restart."
        )
