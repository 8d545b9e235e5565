"""Texts to vectors with an ONNX model, in this process.

One text at a time on purpose: the models are quantised and scale activations over the batch, so
in a batch a text's vector would depend on the texts beside it. Alone it is bit-identical every
time, whatever thread asks.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemolog.infra.embedder.catalogue import ONNX_FILE, TOKENIZER_FILE, Model
from mnemolog.infra.embedder.sessions import Sessions
from mnemolog.infra.embedder.store import file_path

COUNTS_KEPT = 2048


class OnnxEmbedder:
    """A loaded model. All methods may be called from several threads at once."""

    def __init__(self, model: Model, sessions: Sessions, tokenizer: Any) -> None:
        self.model = model
        self._sessions = sessions
        self._tokenizer = tokenizer
        self._inputs = sessions.input_names
        self._counted = lru_cache(COUNTS_KEPT)(self._count)

    @classmethod
    def load(cls, model: Model, directory: Path) -> OnnxEmbedder:
        """Load an installed model; raises when a file cannot be used.

        Takes some 0.3 s and 120 MB, and some 80 MB more once several callers embed at once.
        """
        # Here and not above: a process that embeds nothing should not pay for the import.
        from tokenizers import Tokenizer

        sessions = Sessions(str(file_path(model, ONNX_FILE, directory)))
        tokenizer = Tokenizer.from_file(str(file_path(model, TOKENIZER_FILE, directory)))
        tokenizer.enable_truncation(model.max_tokens)
        tokenizer.no_padding()
        return cls(model, sessions, tokenizer)

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def dims(self) -> int:
        return self.model.dims

    def embed_passage(self, text: str) -> NDArray[np.float16]:
        """The vector of a text that is stored: unit length, rounded to float16.

        What is past `model.max_tokens` tokens is not seen; `count_tokens` tells.
        """
        return self._embed(self.model.passage_prefix + text)

    def embed_query(self, text: str) -> NDArray[np.float16]:
        """The vector of a text that is searched with, to compare with passages' vectors."""
        return self._embed(self.model.query_prefix + text)

    def count_tokens(self, text: str) -> int:
        """How many tokens the text takes as a passage, the prefix and the two marks at its ends
        included: nothing of it is cut as long as this is at most `model.max_tokens`.

        Counts are remembered: a text that grows is counted anew part by part, and most are the
        parts it had."""
        return self._counted(text)

    def _count(self, text: str) -> int:
        encoding = self._encode(self.model.passage_prefix + text)
        marks = 2
        pieces = [encoding, *encoding.overflowing]
        return sum(len(piece.ids) - marks for piece in pieces) + marks

    def _encode(self, text: str) -> Any:
        # A lone surrogate is a legal Python string and JSON escape, but no tokenizer takes it.
        return self._tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8"))

    def _embed(self, text: str) -> NDArray[np.float16]:
        ids = np.array([self._encode(text).ids], dtype=np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        outputs = self._sessions.run(
            {name: value for name, value in feed.items() if name in self._inputs}
        )
        tokens: NDArray[np.float32] = outputs[0][0]
        # A single text has no padding, so the mean needs no mask.
        pooled = tokens[0] if self.model.pooling == "cls" else tokens.mean(axis=0)
        if pooled.shape != (self.model.dims,):
            raise ValueError(
                f"{self.model.name} gave a vector of shape {pooled.shape}, "
                f"expected ({self.model.dims},)"
            )
        unit: NDArray[np.float32] = pooled / np.linalg.norm(pooled)
        return unit.astype(np.float16)
