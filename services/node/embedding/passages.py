"""Vectors of stored texts that no index has, for reads that compare texts with each other."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mnemolog.events.envelope import sha256
from mnemolog.infra.embedder.catalogue import covers
from mnemolog.projections.ports import Vector
from mnemolog.services.api import Unavailable

if TYPE_CHECKING:
    from mnemolog.infra.embedder.onnx import OnnxEmbedder

MAX_KEPT = 10_000
"""Some 10 MB of vectors, the least recently used dropped first."""


class Passages:
    """Embeds texts on the caller's thread, one by one, and keeps the vectors: who asks again about
    an entity waits for what is new in it. May be used from several threads."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Vector] = OrderedDict()
        self._closed = False

    def close(self) -> None:
        """Who is still waiting for vectors is told to ask again; the service ends."""
        self._closed = True

    def vectors(self, embedder: OnnxEmbedder, texts: Sequence[str]) -> list[Vector | None]:
        """The texts' vectors, None for one that the model does not cover.

        Raises `Unavailable` when it takes too long; what was embedded is kept for the next try.
        """
        deadline = time.monotonic() + self._timeout_s
        found: list[Vector | None] = []
        for text in texts:
            if not covers(embedder.model, text):
                found.append(None)
                continue
            if self._closed:
                raise Unavailable("The service is ending; ask again")
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Embedding {len(texts)} texts took longer than {self._timeout_s:g} s; the "
                    f"first {len(found)} are kept, so asking again goes on from there"
                )
            found.append(self._vector(embedder, text))
        return found

    def _vector(self, embedder: OnnxEmbedder, text: str) -> Vector:
        key = sha256(f"{embedder.name}\0{text}".encode("utf-8", "surrogatepass"))
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
        vector: Vector = embedder.embed_passage(text)
        with self._lock:
            self._kept[key] = vector
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return vector
