"""A node on a real store: one moment a read, a bound on every answer, a model that fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemolog.infra.embedder.onnx import OnnxEmbedder
from mnemolog.projections.graph import state
from mnemolog.projections.ports import Choice, Vector
from mnemolog.projections.state import store
from mnemolog.projections.state.view import View
from mnemolog.services.api import Answer
from mnemolog.services.node import answering
from mnemolog.services.node.embedded import worker
from mnemolog.services.node.embedding.chosen import ChosenModels
from tests.contract.test_feed import PATIENCE_S, Node, run
from tests.embedding_server import EmbeddingServer

VALIDATION = -32005


def body(answer: Answer) -> dict[str, Any]:
    return msgspec.json.decode(answer.reply, type=dict[str, Any])


def accesses(node: Node, name: str) -> int:
    view = node.node.projections.states[0].reader()
    return int(view.one("SELECT access_count FROM entity WHERE name = ?", name)[0])


def test_a_read_shows_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is deleted while a read is under way is in its answer whole, or not at all."""

    async def test(node: Node) -> None:
        await node.call("create_entities", entities=[{"name": "A", "observations": ["x", "y"]}])
        loop, real = asyncio.get_running_loop(), state.observations_of

        def meanwhile(view: View, ids: Collection[int]) -> dict[int, list[str]]:
            deleting = node.call("delete_entities", entityNames=["A"])
            asyncio.run_coroutine_threadsafe(deleting, loop).result(PATIENCE_S)
            return real(view, ids)

        monkeypatch.setattr(state, "observations_of", meanwhile)
        (found,) = body(await node.call("read_graph"))["entities"]
        assert (found["name"], found["observations"]) == ("A", ["x", "y"])
        assert body(await node.call("read_graph"))["entities"] == []

    run(tmp_path, test)


def test_an_answer_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past it the read is refused and recorded, and is no access."""

    async def test(node: Node) -> None:
        entities = [{"name": name, "observations": [f"{name} " * 50]} for name in "AB"]
        await node.call("create_entities", entities=entities)
        monkeypatch.setattr(state, "MAX_ANSWER_CHARACTERS", 150)
        assert len(body(await node.call("open_nodes", names=["A"]))["entities"]) == 1
        before = accesses(node, "A")
        answer = await node.call("open_nodes", names=["A", "B"])
        assert answer.refused
        assert body(answer)["error"] == (
            "These 2 entities have 200 characters of observations; at most 150 are given at a "
            "time: ask for fewer entities"
        )
        monkeypatch.setattr(answering, "MAX_REPLY_BYTES", 300)
        answer = await node.call("read_graph")
        assert answer.refused
        assert "bytes; at most 300 are given at a time: ask for less" in body(answer)["error"]
        assert accesses(node, "A") == before + 1  # The one that was answered, put on the log late.

    run(tmp_path, test)


def test_what_the_node_refuses_has_the_form_of_the_tools_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever calls a tool of episodes was promised a code and the field that is wrong."""

    async def test(node: Node) -> None:
        long = {"task_description": "x" * 500, "domain": "shop", "task_type": "testing"}
        await node.call("create_episode", **long)
        monkeypatch.setattr(answering, "MAX_REPLY_BYTES", 300)
        answer = await node.call("query_memory", query="x", domain="shop")
        assert (answer.refused, answer.code) == (True, VALIDATION)
        told = body(answer)
        assert "bytes; at most 300 are given at a time: ask for less" in told["issue"]
        assert told["error"] == f"Validation error: {told['issue']}"

    run(tmp_path, test)


SEARCHES: dict[str, dict[str, Any]] = {
    "query_memory": {"query": "one", "domain": "shop"},
    "query_semantic_memory": {"query": "two"},
    "search_patterns": {"query": "three", "domain": "shop"},
    "recommend_patterns": {"task_description": "four", "domain": "shop", "tags": ["five"]},
}


@pytest.mark.parametrize("tool", SEARCHES)
def test_a_provider_is_asked_for_the_vector_of_a_query_before_a_reader_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """And where a space has no other model, nothing is asked beforehand."""
    provider, asking = EmbeddingServer(), list[str]()
    real = ChosenModels.query

    def query(models: ChosenModels, choice: Choice, text: str) -> Vector | None:
        asking.append(threading.current_thread().name)
        return real(models, choice, text)

    monkeypatch.setattr(ChosenModels, "query", query)
    monkeypatch.setenv("SPARE_API_KEY", "any")

    async def test(node: Node) -> None:
        await node.call("create_episode", task_description="x", domain="shop", task_type="testing")
        await node.call(tool, **SEARCHES[tool])
        assert not [one for one in threading.enumerate() if one.name.startswith("ask-ahead")]
        there = {"provider": "openai", "model": "words", "base_url": f"{provider.url}/v1"}
        made = await node.call("configure_embeddings", **there, api_key_env="SPARE_API_KEY")
        assert not made.refused, made
        asked = len(provider.asked)
        answer = await node.call(tool, **SEARCHES[tool])
        assert not answer.refused, answer
        first, *more = asking
        assert first.startswith("ask-ahead"), asking
        assert more and all(one.startswith("read") for one in more), asking
        queries = [one for _, _, body in provider.asked[asked:] for one in body["input"]]
        text = next(iter(SEARCHES[tool].values()))
        assert len([one for one in queries if one.startswith(text)]) == 1, queries

    try:
        run(tmp_path, test, embedding_hosts=provider.host, describe_wait_s=0.1)
    finally:
        provider.close()


def test_who_reads_faster_than_it_is_recorded_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And leaves room for writes."""
    monkeypatch.setattr(worker, "MAX_WAITING", 4)
    monkeypatch.setattr(worker, "MAX_READS", 3)
    monkeypatch.setattr(worker, "RECORD_WAIT_S", PATIENCE_S)

    async def test(node: Node) -> None:
        await node.call("create_entities", entities=[{"name": "A"}])
        reads = [asyncio.create_task(node.call("open_nodes", names=["A"])) for _ in range(100)]
        for n in range(10):
            await node.call("create_entities", entities=[{"name": f"B{n}"}])
        assert not any(one.refused for one in await asyncio.gather(*reads))
        await node.call("create_entities", entities=[{"name": "C"}])
        assert accesses(node, "A") == 1 + 100

    run(tmp_path, test)


def test_the_write_ahead_file_is_emptied_though_somebody_always_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "WAL_BYTES", 100_000)
    wal = tmp_path / "projections" / "state" / "p0000.db-wal"

    async def test(node: Node) -> None:
        done = asyncio.Event()

        async def read_on() -> None:
            while not done.is_set():
                await node.call("read_graph")

        readers = [asyncio.create_task(read_on()) for _ in range(8)]
        largest = 0
        try:
            for n in range(int(PATIENCE_S * 100)):
                texts = [f"{n} {i} " + "x" * 1000 for i in range(20)]
                await node.call("create_entities", entities=[{"name": "A", "observations": texts}])
                await node.call("delete_entities", entityNames=["A"])
                largest = max(largest, wal.stat().st_size)
                if wal.stat().st_size < largest:
                    break
            assert largest > 100_000
            assert wal.stat().st_size < largest
        finally:
            done.set()
            await asyncio.gather(*readers)

    run(tmp_path, test)


def test_a_text_that_cannot_be_embedded_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again; meanwhile what else was written is described, and memories are kept."""
    real, failures = OnnxEmbedder.embed_passage, [0]
    healthy = [False]

    def embed(embedder: OnnxEmbedder, text: str) -> Vector:
        if "poison" in text and not healthy[0]:
            failures[0] += 1
            raise RuntimeError("no memory for this one")
        return real(embedder, text)

    monkeypatch.setattr(OnnxEmbedder, "embed_passage", embed)

    async def test(node: Node) -> None:
        made = [{"name": name, "observations": [f"{name} rolls"]} for name in ("poison", "Ball")]
        await node.call("create_entities", entities=made)
        learned = await node.call("learn", insight="poison is not for cups")
        assert body(learned)["status"] == "created"

        async def found(name: str, **settled: Any) -> None:
            for _ in range(int(PATIENCE_S * 10)):
                answer = body(await node.call("search_semantic", query=f"{name} rolls"))
                near = {one["name"] for one in answer["results"] if one["distance"] is not None}
                if name in near and answer.get("pending") == settled.get("pending"):
                    return
                await asyncio.sleep(0.1)
            raise AssertionError(f"{name} was not described: {answer}")

        await found("Ball", pending=1)
        healthy[0] = True
        await found("poison")
        assert failures[0] > 0

    run(tmp_path, test, model="bge-small-en-v1.5", describe_wait_s=0.1)
