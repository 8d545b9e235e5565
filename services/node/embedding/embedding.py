"""The node's model at work: vectors of queries, of what is about to be decided, of stored texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import structlog

from mnemolog.events.envelope import Trace
from mnemolog.events.trace import current
from mnemolog.infra.embedder.catalogue import CATALOGUE, Model, covers
from mnemolog.infra.embedder.lazy import BackgroundEmbedder
from mnemolog.infra.embedder.store import models_dir
from mnemolog.infra.settings import Settings, SettingsError
from mnemolog.projections.ports import Vector
from mnemolog.services import tracing
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.node.embedding.passages import Passages
from mnemolog.services.node.fair import OURS, FairThreads
from mnemolog.services.reader.reader import VectorModel

if TYPE_CHECKING:
    from mnemolog.infra.embedder.onnx import OnnxEmbedder

THREADS = 2
LOAD_WAIT_S = 30.0
MAX_WAITING = 1_000_000
"""Never reached: what waits here belongs to a call that waits elsewhere, and is counted there."""

_log = structlog.get_logger("mnemolog.node")


class Embedding:
    """Loads the model in the background. `missed` is called when something had to be decided
    without a vector that it should have."""

    def __init__(self, settings: Settings) -> None:
        self.model = model_of(settings)
        self.named = (
            None if self.model is None else VectorModel(self.model.name, self.model.dedup_cosine)
        )
        self.embedder = BackgroundEmbedder(self.model, models_dir(settings.models or None))
        self.embedder.start()
        self.missed: Callable[[], None] = lambda: None
        self._wait_s = settings.model_wait_s
        self._threads = FairThreads(THREADS, "embed", MAX_WAITING, "texts to be embedded")
        self._passages = Passages(settings.call_timeout_s)

    def query(self, text: str) -> Callable[[], Vector] | None:
        """The query's vector, on its way: what is called waits for it. None: there is no model,
        or none for this script."""
        if self.model is None or not covers(self.model, text):
            return None
        embedder = self.embedder.wait(self._wait_s)
        if embedder is None:
            return None
        return self._threads.submit(OURS, _query, embedder, text, current()).result

    def loaded(self) -> str | None:
        if self.model is None or self.embedder.wait(self._wait_s) is None:
            return None
        return self.model.name

    def passages(self, texts: Sequence[str]) -> list[Vector | None] | None:
        """The vectors of stored texts, None for one that the model does not cover."""
        if self.model is None:
            return None
        embedder = self.embedder.wait(self._wait_s)
        return None if embedder is None else self._passages.vectors(embedder, texts)

    def wait_for_model(self) -> None:
        self.embedder.wait(self._wait_s)

    def start(
        self, texts: list[str], tenant: str = OURS, trace: Trace | None = None
    ) -> Future[Inputs]:
        """The inputs of a tenant's call with these texts, on their way."""
        if not texts:
            return self.made(texts)
        return self._threads.submit(tenant, self._inputs, texts, trace)

    def made(self, texts: list[str]) -> Future[Inputs]:
        """As `start`, on the caller's thread."""
        done: Future[Inputs] = Future()
        done.set_result(self.inputs(texts))
        return done

    def _inputs(self, texts: list[str], trace: Trace | None) -> Inputs:
        with tracing.part_of("embed", None if self.model is None else trace):
            return self.inputs(texts)

    def inputs(self, texts: list[str]) -> Inputs:
        """The vectors of those texts that the model covers; none while there is no model."""
        if self.model is None:
            return Inputs()
        vectors: dict[str, bytes] = {}
        wanted = [text for text in texts if text and covers(self.model, text)]
        embedder = self.embedder.wait(self._wait_s) if wanted else None
        if embedder is None:
            if wanted:
                self.missed()
            return Inputs(self.named, vectors)
        for text in wanted:
            try:
                vectors[text] = embedder.embed_passage(text).tobytes()
            except BaseException as error:
                # Deciding goes on without it, as without a model.
                _log.error("a text could not be embedded", characters=len(text), error=str(error))
        return Inputs(self.named, vectors)

    def waiting(self) -> int:
        """Texts of callers that no thread has taken up yet."""
        return self._threads.waiting

    def stop_passages(self) -> None:
        """Whoever waits for the vectors of stored texts is told to ask again."""
        self._passages.close()

    def close(self) -> None:
        self._threads.shutdown()
        # The runtime aborts a process that ends while a model is being loaded.
        self.embedder.wait(LOAD_WAIT_S)


def _query(embedder: OnnxEmbedder, text: str, trace: Trace | None) -> Vector:
    with tracing.part_of("embed", trace):
        return embedder.embed_query(text)


def model_of(settings: Settings) -> Model | None:
    if settings.model == "none":
        return None
    model = CATALOGUE.get(settings.model)
    if model is None:
        raise SettingsError(
            f"There is no model {settings.model!r}; `mnemolog models list` shows them, "
            "and `none` turns vectors off"
        )
    return model
