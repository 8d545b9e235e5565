"""The embedding model: missing, arriving later, and changed for another one."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.embedder.store import PullError, models_dir, pull
from tests.e2e.conftest import PATIENCE_S, HttpClient, Server, run

OTHER_MODEL = "all-minilm-l6-v2"
LESSON = "The suction cup loses its hold on porous cardboard"
MEANT = "vacuum gripper fails absorbent boxes"


@pytest.fixture(scope="module")
def models() -> Path:
    """A directory with both models; fetched when they are not there."""
    for name in (DEFAULT_MODEL, OTHER_MODEL):
        try:
            pull(CATALOGUE[name], models_dir())
        except PullError as error:
            pytest.fail(f"These tests need the model {name}: {error}")
    return models_dir()


def health(client: HttpClient) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.get("/healthz")[1])
    return found


def wait_until_embedded(client: HttpClient, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        embedding = health(client)["model"]["embedding"]
        if embedding["embedded"] >= count and not embedding["running"]:
            return
        time.sleep(0.1)
    pytest.fail(f"not embedded: {health(client)}")


def recall(client: HttpClient) -> tuple[str, list[str]]:
    reply = client.ok("recall", {"query": MEANT})
    return reply["mode"], [one["content"] for one in reply["memories"]]


def test_a_model_that_comes_later_embeds_what_was_missed(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "models"
    empty.mkdir()
    monkeypatch.setenv("MNEMOLOG_MODELS", str(empty))
    server = Server(tmp_path / "data")
    try:
        client = server.client()
        assert "bm25_only" in server.line
        assert client.ok("learn", {"insight": LESSON})["status"] == "created"
        seen = {"description": "a wet floor near the door"}
        assert client.ok("save_perception", seen)["has_embedding"] is False
        assert recall(client) == ("bm25_only", [])
        told = health(client)
        assert told["mode"] == "bm25_only"
        assert f"mnemolog models pull {DEFAULT_MODEL}" in told["model"]["reason"]

        shutil.copytree(models / DEFAULT_MODEL, empty / "arriving")
        (empty / "arriving").rename(empty / DEFAULT_MODEL)
        wait_until_embedded(client, 2)
        mode, found = recall(client)
        assert (mode, found[0]) == ("vec_only", LESSON)
        assert health(client)["mode"] == "hybrid"
    finally:
        server.stop()
    verified = json.loads(run("rebuild", "--verify", "--json", "--data", str(server.data)).stdout)
    assert verified["differences"] == []


def test_another_model_makes_its_own_vectors_and_the_old_ones_stay(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    lessons = [LESSON, "Slow down at the door sill", "Grasp eggs with little force"]
    for model, missing in ((DEFAULT_MODEL, 0), (OTHER_MODEL, 3), (DEFAULT_MODEL, 0)):
        monkeypatch.setenv("MNEMOLOG_MODEL", model)
        server = Server(data)
        try:
            client = server.client()
            if missing == 0:
                for lesson in lessons:
                    client.ok("learn", {"insight": lesson})
            wait_until_embedded(client, missing)
            mode, found = recall(client)
            assert (mode, found[0]) == ("vec_only", LESSON)
            assert health(client)["model"]["name"] == model
        finally:
            server.stop()
    assert json.loads(run("audit", "verify", "--json", "--data", str(data)).stdout)["whole"]


def test_an_unknown_model_is_a_clear_error(tmp_path: Path) -> None:
    told = run("call", "recall", '{"query": "x"}', "--data", str(tmp_path / "data"))
    assert told.returncode == 0
    refused = run("serve", "--model", "gpt-9", "--port", "0", "--data", str(tmp_path / "data"))
    assert refused.returncode == 1
    assert "mnemolog models list" in refused.stderr
