"""The files of the default embedding model, the same for every system that is measured."""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.mcp_client import BenchmarkError
from mnemolog.infra.embedder import catalogue, store


class ModelFiles(msgspec.Struct, frozen=True):
    """Where the model's two files are; their contents have been checked."""

    onnx: Path
    tokenizer: Path


def default_model() -> ModelFiles:
    """The files that the service itself uses by default, verified by their sha256."""
    model = catalogue.CATALOGUE[catalogue.DEFAULT_MODEL]
    directory = store.models_dir()
    wrong = store.verify(model, directory)
    if wrong:
        raise BenchmarkError(
            f"The default model {model.name} is not at hand ({'; '.join(wrong)}). "
            f"Run `mnemolog models pull {model.name}` first."
        )
    return ModelFiles(
        onnx=store.file_path(model, catalogue.ONNX_FILE, directory),
        tokenizer=store.file_path(model, catalogue.TOKENIZER_FILE, directory),
    )
