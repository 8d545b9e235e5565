"""Vectors of stored texts for reads: the model's own, kept, and never waited for too long."""

from __future__ import annotations

import numpy as np
import pytest

from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.embedder.onnx import OnnxEmbedder
from mnemolog.infra.embedder.store import models_dir
from mnemolog.services.api import Unavailable
from mnemolog.services.node.embedding import passages
from mnemolog.services.node.embedding.passages import Passages


@pytest.fixture(scope="module")
def embedder() -> OnnxEmbedder:
    return OnnxEmbedder.load(CATALOGUE[DEFAULT_MODEL], models_dir())


def test_vectors_are_those_of_stored_texts(embedder: OnnxEmbedder) -> None:
    found = Passages(60).vectors(embedder, ["grip at 15N", "夹爪在湿玻璃上打滑", "grip at 15N"])
    assert found[0] is not None
    assert np.array_equal(found[0], embedder.embed_passage("grip at 15N"))
    assert found[1] is None, "the model does not cover it"
    assert found[2] is found[0], "what was embedded is kept"


def test_the_least_recently_used_is_dropped(
    embedder: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "MAX_KEPT", 2)
    kept = Passages(60)
    a, b, again, c = kept.vectors(embedder, ["a", "b", "a", "c"])
    assert again is a
    assert kept.vectors(embedder, ["a"])[0] is a
    assert kept.vectors(embedder, ["c"])[0] is c
    (fresh,) = kept.vectors(embedder, ["b"])  # It was dropped for c, and a is dropped for it.
    assert fresh is not None and b is not None
    assert fresh is not b and np.array_equal(fresh, b)
    assert kept.vectors(embedder, ["c"])[0] is c
    assert kept.vectors(embedder, ["a"])[0] is not a


def test_a_caller_is_not_kept_waiting(embedder: OnnxEmbedder) -> None:
    with pytest.raises(Unavailable, match="asking again goes on from there"):
        Passages(-1).vectors(embedder, ["a"])
    closed = Passages(60)
    closed.close()
    with pytest.raises(Unavailable, match="ending"):
        closed.vectors(embedder, ["a"])
