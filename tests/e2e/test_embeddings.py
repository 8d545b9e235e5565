"""configure_embeddings through a real process, with a provider that answers, is away, is broken and
comes back: what is found, what is told, and where the key is not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemolog.infra.embedder.catalogue import DEFAULT_MODEL
from tests.e2e.conftest import PATIENCE_S, HttpClient, Message, Server, run
from tests.embedding_server import DIMS, EmbeddingServer

SECRET = "sk-e2e-do-not-tell-8d1f3a77"
VALIDATION = -32005
SERVER = -32000


@pytest.fixture
def provider() -> Iterator[EmbeddingServer]:
    one = EmbeddingServer(key=SECRET)
    yield one
    one.close()


@pytest.fixture
def server(tmp_path: Path, provider: EmbeddingServer) -> Iterator[Server]:
    """A service without a model of its own: what is found by meaning, the provider did."""
    env = {"SPARE_API_KEY": SECRET, "MNEMOLOG_EMBEDDING_HOSTS": provider.host}
    one = Server(tmp_path / "data", "--model", "none", env=env)
    yield one
    one.stop()


def configured(client: HttpClient, provider: EmbeddingServer, **more: object) -> Message:
    given = {
        "provider": "openai",
        "model": "words",
        "api_key_env": "SPARE_API_KEY",
        "base_url": f"{provider.url}/v1",
        **more,
    }
    return client.ok("configure_embeddings", given)


def begin(client: HttpClient, *tasks: str) -> list[str]:
    given = {"domain": "shop", "task_type": "debugging"}
    return [
        str(client.ok("create_episode", {"task_description": one, **given})["episode_id"])
        for one in tasks
    ]


def until(holds: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def embedded(client: HttpClient, count: int) -> None:
    def complete() -> bool:
        found = client.ok("health_check", {})["embeddings"]
        return bool(found["complete"]) and found["total"] == count

    until(complete, f"{count} are embedded")


def similar(client: HttpClient, query: str, **more: object) -> Message:
    return client.ok("query_semantic_memory", {"query": query, **more})


def refused(client: HttpClient, **given: object) -> Message:
    error: Message = client.call("configure_embeddings", given)["error"]
    assert error["code"] == VALIDATION, error
    return error


def is_nowhere(secret: str, server: Server) -> None:
    files = [server.errors, *(one for one in server.data.rglob("*") if one.is_file())]
    assert any(one.name == "log.db" for one in files)
    for file in files:
        assert secret.encode() not in file.read_bytes(), file


def test_episodes_are_found_by_the_configured_models_meaning(
    server: Server, provider: EmbeddingServer
) -> None:
    client = server.client()
    first, _ = begin(client, "repair the car", "bake some bread")
    reply = configured(client, provider, batch_size=1, similarity_threshold=0.25)
    assert (reply["success"], reply["dimensions"], reply["to_embed"]) == (True, DIMS, 2)
    third = begin(client, "paint the house")[0]
    embedded(client, 3)
    # Not one word of the query is in the episode: the provider knows that they mean the same.
    found = similar(client, "fix automobile", limit=1)
    assert [one["id"] for one in found["episodes"]] == [first]
    assert (found["mode"], found["similarity_threshold"]) == ("vec_only", 0.25)
    assert similar(client, "fix automobile", similarity_threshold=0.99)["episodes"] == []
    both = client.ok("query_memory", {"query": "paint vehicle", "domain": "shop"})
    assert both["mode"] == "hybrid" and "reason" not in both
    assert {one["id"] for one in both["episodes"][:2]} == {first, third}
    tried = client.ok("test_embeddings", {})
    assert (tried["success"], tried["provider"], tried["model"]) == (True, "openai", "words")
    assert (tried["dimensions"], tried["progress"]["embedded"]) == (DIMS, 3)
    assert tried["latency_ms"] > 0
    client.ok("delete_episode", {"episode_id": first, "confirm": True})
    assert first not in [one["id"] for one in similar(client, "fix automobile")["episodes"]]
    assert server.stop() == 0
    verified = run("rebuild", "--verify", "--data", str(server.data))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    is_nowhere(SECRET, server)


def test_the_provider_hears_what_a_call_belongs_to(
    server: Server, provider: EmbeddingServer
) -> None:
    client = server.client()
    given = {
        "provider": "openai",
        "model": "words",
        "api_key_env": "SPARE_API_KEY",
        "base_url": f"{provider.url}/v1",
    }
    trace = f"00-{'4bf92f3577b34da6a3ce929d0e0e4736'}-00f067aa0ba902b7"
    client.ok("configure_embeddings", given, {"traceparent": f"{trace}-01", "tracestate": "a=1"})
    _, headers, _ = provider.asked[-1]
    assert (headers["traceparent"], headers["tracestate"]) == (f"{trace}-01", "a=1")
    begin(client, "repair the car")
    embedded(client, 1)
    assert "traceparent" not in provider.asked[-1][1], "the service's own work"
    meta = {"traceparent": f"{trace}-00"}
    client.ok("query_semantic_memory", {"query": "fix automobile"}, meta)
    assert provider.asked[-1][1]["traceparent"] == f"{trace}-00"


def test_while_the_provider_is_away_words_do_and_what_was_missed_is_embedded_later(
    server: Server, provider: EmbeddingServer
) -> None:
    client = server.client()
    configured(client, provider, similarity_threshold=0.25)
    provider.away()
    bread, car = begin(client, "bake some bread", "repair the car")
    found = client.ok("query_memory", {"query": "bread", "domain": "shop", "limit": 1})
    assert [one["id"] for one in found["episodes"]] == [bread]
    assert found["mode"] == "bm25_only"
    assert "cannot be reached" in found["reason"] and "words" in found["reason"]
    found = similar(client, "bread")
    assert [one["id"] for one in found["episodes"]] == [bread]
    assert found["mode"] == "bm25_only" and found["episodes"][0]["similarity"] is None
    tried = client.ok("test_embeddings", {})
    assert tried["success"] is False and "cannot be reached" in tried["message"]
    assert tried["progress"]["embedded"] == 0

    def noticed() -> bool:
        client.ok("test_embeddings", {})  # That it failed is remembered for a moment.
        health = client.ok("health_check", {})
        return bool(health["components"]["embeddings"] == "unavailable")

    until(noticed, "health tells of the provider")
    provider.back()
    embedded(client, 2)

    def by_meaning() -> bool:
        found = similar(client, "fix automobile")
        return found["mode"] == "vec_only" and [one["id"] for one in found["episodes"]] == [car]

    until(by_meaning, "the provider is asked again")
    assert SECRET not in server.errors.read_text()


def test_another_model_starts_anew_and_is_never_compared_with_the_one_before(
    server: Server, provider: EmbeddingServer
) -> None:
    client = server.client()
    (car,) = begin(client, "repair the car")
    configured(client, provider, similarity_threshold=0.0)
    embedded(client, 1)
    # The other model's vectors have the same length, and nothing else in common.
    provider.mode = "right"
    configured(client, provider, model="other", similarity_threshold=0.0)
    provider.away()
    found = similar(client, "repair the car")
    assert found["mode"] == "bm25_only"
    provider.back()
    embedded(client, 1)
    until(lambda: similar(client, "repair the car")["mode"] == "vec_only", "it answers again")
    found = similar(client, "repair the car", similarity_threshold=0.3)
    assert [one["id"] for one in found["episodes"]] == [car]
    again = configured(client, provider, model="other", batch_size=7)
    assert again["to_embed"] == 0, "the same model: what is embedded stays"
    back = client.ok("configure_embeddings", {"provider": "local"})
    assert back["dimensions"] == 0
    assert "model" in client.refused("query_semantic_memory", {"query": "car"})
    assert "embeddings" not in client.ok("health_check", {})


@pytest.mark.parametrize("mode", ["garbage", "hang_up", "few", "status"])
def test_a_provider_that_answers_wrongly_is_told_of_and_tried_again(
    server: Server, provider: EmbeddingServer, mode: str
) -> None:
    client = server.client()
    configured(client, provider)
    provider.mode, provider.status, provider.retry_after = mode, 429, "0.2"
    begin(client, "repair the car")
    until(lambda: "reason" in client.ok("health_check", {})["embeddings"], "its trouble is told of")
    provider.mode = "right"
    embedded(client, 1)
    assert "reason" not in client.ok("health_check", {})["embeddings"]


def test_one_text_that_the_provider_does_not_want_keeps_no_other_from_being_embedded(
    server: Server, provider: EmbeddingServer
) -> None:
    client = server.client()
    configured(client, provider)
    provider.unwanted = "poison"
    begin(client, *(f"task {n}" for n in range(6)), "poison in the well", "one more task")
    until(
        lambda: client.ok("health_check", {})["embeddings"]["embedded"] == 7, "the others are done"
    )


def test_what_cannot_be_configured_is_refused_and_leaves_no_secret_behind(
    server: Server, provider: EmbeddingServer
) -> None:
    client = server.client()
    url = f"{provider.url}/v1"
    assert refused(client, provider="acme")["data"]["field"] == "provider"
    assert refused(client, provider="openai", batch_size=0)["data"]["field"] == "batch_size"
    error = refused(client, provider="openai", api_key_env="ABSENT_API_KEY")
    assert "ABSENT_API_KEY, which is not set" in error["message"]
    mistaken = "sk-live-5e6f7a8b9c0d"
    error = refused(client, provider="openai", api_key_env=mistaken, base_url=url)
    assert mistaken not in json.dumps(error)
    error = refused(client, provider="openai", base_url="http://me:hunter2secret@127.0.0.1/v1")
    assert "password" in error["message"] and "hunter2secret" not in json.dumps(error)
    error = refused(client, provider="openai", base_url="http://169.254.169.254/v1")
    assert "MNEMOLOG_EMBEDDING_HOSTS" in error["message"]
    assert "ftp" not in refused(client, provider="openai", base_url="ftp://x/")["message"]
    assert "model" in refused(client, provider="local", model="acme-9000")["message"]
    provider.mode, provider.status = "status", 503
    given = {"provider": "openai", "base_url": url, "api_key_env": "SPARE_API_KEY"}
    message = client.call("configure_embeddings", given)
    assert message["error"]["code"] == -32000 and "503" in message["error"]["message"]
    assert "embeddings" not in client.ok("health_check", {}), "nothing was changed"
    assert server.stop() == 0
    for secret in (SECRET, mistaken, "hunter2secret"):
        is_nowhere(secret, server)


def test_another_local_model_makes_the_vectors_and_the_services_own_can_be_gone_back_to(
    tmp_path: Path,
) -> None:
    """The service's own is none here: only one model is installed wherever this runs."""
    server = Server(tmp_path / "data", "--model", "none")
    try:
        client = server.client()
        (car,) = begin(client, "repair the car")
        asked = {"query": "fixing an automobile", "similarity_threshold": 0.3}
        assert client.call("query_semantic_memory", asked)["error"]["code"] == SERVER
        reply = client.ok("configure_embeddings", {"provider": "local", "model": DEFAULT_MODEL})
        assert (reply["dimensions"], reply["to_embed"]) == (384, 1)
        begin(client, "bake some bread")
        embedded(client, 2)
        found = client.ok("query_semantic_memory", asked)
        assert found["model"] == DEFAULT_MODEL
        assert found["episodes"][0]["id"] == car
        client.ok("configure_embeddings", {"provider": "local"})
        assert client.call("query_semantic_memory", asked)["error"]["code"] == SERVER
        assert server.stop() == 0
    finally:
        server.stop()
    verified = run("rebuild", "--verify", "--data", str(server.data))
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_search_does_not_wait_for_a_provider_that_is_slow(
    server: Server, provider: EmbeddingServer
) -> None:
    client = server.client()
    (bread,) = begin(client, "bake some bread")
    configured(client, provider)
    embedded(client, 1)
    provider.mode = "slow"
    found = client.ok("query_memory", {"query": "bread", "domain": "shop"})
    assert [one["id"] for one in found["episodes"]] == [bread]
    assert found["mode"] == "bm25_only" and "did not answer within 3 s" in found["reason"]
    asked = len(provider.asked)
    again = client.ok("query_memory", {"query": "some bread", "domain": "shop"})
    assert again["mode"] == "bm25_only"
    assert len(provider.asked) <= asked + 1, "not every search asks it"
