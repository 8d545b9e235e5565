"""Searching the knowledge graph by meaning, with the real model, through real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp import StdioServerParameters

from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.embedder.store import PullError, models_dir, pull
from tests.e2e.conftest import (
    PATIENCE_S,
    TRANSPORTS,
    Client,
    Message,
    Server,
    checked,
    reached,
    run,
)
from tests.e2e.test_memory_server import entity

SITE = ["Stack: Astro 6.x + Starlight 0.38.x", "Documentation site for open-source repos"]
SHAPED = "This entity represents the core architectural decision that shaped the entire project."


@pytest.fixture(scope="module", autouse=True)
def model() -> None:
    """The default model; fetched when it is not there."""
    try:
        pull(CATALOGUE[DEFAULT_MODEL], models_dir())
    except PullError as error:
        pytest.fail(f"These tests need the model {DEFAULT_MODEL}: {error}")


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data")
    yield server
    server.stop()


def create(client: Client, *entities: Message) -> None:
    client.ok("create_entities", {"entities": list(entities)})


def rows(client: Client, query: str, **more: Any) -> list[Message]:
    reply = client.ok("search_semantic", {"query": query, **more})
    assert reply.keys() == {"results"}, "nothing is pending"
    found: list[Message] = reply["results"]
    return found


def names(client: Client, query: str, **more: Any) -> list[str]:
    return [row["name"] for row in rows(client, query, **more)]


def ready(client: Client) -> None:
    """A process that was just started may take longer for its model than a search waits."""
    deadline = time.monotonic() + PATIENCE_S
    while "pending" in client.ok("search_semantic", {"query": "anything"}):
        assert time.monotonic() < deadline, "it is never described"


# --- the documented examples ---------------------------------------------------------------------


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_documented_examples(
    transport: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async def test(where: str | StdioServerParameters) -> None:
        async with mcp.Client(where, read_timeout_seconds=PATIENCE_S) as client:
            await example(checked(client))

    with reached(transport, tmp_path / "data", lambda: request.getfixturevalue("broker")) as where:
        asyncio.run(test(where))


async def example(call: Callable[..., Any]) -> None:
    site = entity("CachorroSpace", "Project", *SITE)
    ink = entity("CachorroInk", "Project", "Blog built with Astro 5.x")
    await call("create_entities", entities=[site, ink, entity("Gripper", "Part", "holds cups")])
    while True:
        found = await call(
            "search_semantic", query="web framework for documentation sites", limit=2
        )
        if "pending" not in found:
            break
    assert {row["name"] for row in found["results"]} == {"CachorroSpace", "CachorroInk"}
    for row in found["results"]:
        assert list(row) == [
            "id", "name", "entityType", "observations", "limbic_score", "scoring", "distance",
            "rrf_score",
        ]  # fmt: skip
        assert set(row["scoring"]) == {"importance", "temporal_factor", "cooc_boost"}
        assert 0 < row["distance"] < 0.6
    number = found["results"][0]["id"]

    reflection = {
        "target_type": "entity",
        "target_id": number,
        "content": SHAPED,
        "author": "nolan",
        "mood": "insight",
    }
    made = (await call("add_reflection", **reflection))["result"]
    time.strptime(made["created_at"], "%Y-%m-%d %H:%M:%S")
    assert made == {"id": made["id"], **reflection, "created_at": made["created_at"]}
    await call("add_reflection", target_type="session", content="The gripper was hard to tune.")
    found = await call(
        "search_reflections",
        query="architecture decisions that shaped the project",
        author="nolan",
        limit=5,
    )
    assert found.keys() == {"results"}, "nothing is pending"
    (row,) = found["results"]
    assert row == {**made, "score": row["score"]}
    assert 0.5 < row["score"] <= 1
    found = await call("search_reflections", query="adjusting a robot hand", limit=1)
    assert found["results"][0]["content"] == "The gripper was hard to tune."
    refused = await call("add_reflection", refused=True, target_type="entity", content="x")
    assert refused["error"].startswith("target_id is required")
    refused = await call("search_semantic", refused=True, query=" ")
    assert refused["error"].startswith("query must be text of 1 to 500 characters")


# --- what was written is found -------------------------------------------------------------------


def test_a_write_is_found_by_the_next_search(empty: Client) -> None:
    ready(empty)
    for i, (text, query) in enumerate(
        [
            (
                "the vacuum gripper fails on porous cardboard",
                "suction loses hold of absorbent boxes",
            ),
            ("meetings start at nine on Mondays", "when does the weekly gathering begin"),
            ("le café est servi sur la terrasse", "café terrasse"),
        ]
    ):
        create(empty, entity(f"note {i}", "Note", text))
        assert names(empty, query, limit=1) == [f"note {i}"]


def test_an_update_moves_the_ranking(empty: Client) -> None:
    create(empty, entity("left", "Arm", "welds car doors"), entity("right", "Arm", "paints doors"))
    ready(empty)
    query = "which one peels oranges"
    more = {"name": "right", "observations": ["peels oranges and other fruit"]}
    empty.ok("add_observations", more)
    before = rows(empty, query)
    assert before[0]["name"] == "right"
    empty.ok("delete_observations", more)
    empty.ok("add_observations", {"name": "left", "observations": more["observations"]})
    after = {row["name"]: row for row in rows(empty, query)}
    assert after["left"]["distance"] < after["right"]["distance"]
    assert after["right"]["distance"] > before[0]["distance"]
    create(empty, entity("right", "Fruit peeler for oranges"))
    retyped = {row["name"]: row["distance"] for row in rows(empty, query)}
    assert retyped["right"] < after["right"]["distance"]


def test_what_is_deleted_is_not_found(empty: Client) -> None:
    create(empty, entity("Cup", "Thing", "red and round"), entity("Mug", "Thing", "blue"))
    ready(empty)
    assert set(names(empty, "red cup")) == {"Cup", "Mug"}
    empty.ok("delete_entities", {"entityNames": ["Cup"]})
    assert names(empty, "red cup") == ["Mug"]
    create(empty, entity("Cup", "Thing", "a trophy"))
    found = {row["name"]: row["observations"] for row in rows(empty, "red cup")}
    assert found == {"Cup": ["a trophy"], "Mug": ["blue"]}


def test_being_found_counts_as_use(empty: Client) -> None:
    create(empty, entity("Cup", "Thing", "red"), entity("Mug", "Thing", "blue"))
    ready(empty)
    create(
        empty, entity("Pen", "Thing")
    )  # What a search leaves is on the log before the next write.
    first = {row["name"]: row["scoring"] for row in rows(empty, "a red cup")}
    assert first["Cup"]["cooc_boost"] > 0
    assert first["Pen"]["importance"] < first["Cup"]["importance"]
    for _ in range(3):
        assert names(empty, "a red cup", limit=1) == ["Cup"]
        create(empty, entity("Pen", "Thing"))
    then = {row["name"]: row["scoring"] for row in rows(empty, "a red cup")}
    assert then["Cup"]["importance"] > then["Mug"]["importance"]
    assert then["Mug"]["importance"] < first["Mug"]["importance"]
    assert then["Mug"]["cooc_boost"] > first["Mug"]["cooc_boost"]


def test_a_script_that_the_model_does_not_cover_is_searched_by_words(empty: Client) -> None:
    create(empty, entity("杯子", "东西", "放在桌上"), entity("Cup", "Thing", "on the table"))
    ready(empty)
    (row,) = rows(empty, "桌上 有 什么")
    assert (row["name"], row["distance"]) == ("杯子", None)
    assert names(empty, "what is on the table", limit=1) == ["Cup"]


def test_an_entity_with_hundreds_of_observations(empty: Client) -> None:
    create(empty, entity("Diary", "Log"), entity("Manual", "Log", "how to mount the camera"))
    ready(empty)
    for start in range(0, 300, 100):
        said = [f"day {i}: nothing much happened in room {i}" for i in range(start, start + 100)]
        empty.ok("add_observations", {"name": "Diary", "observations": said})
    extra = ["the lunar lander prototype exploded on its stand", "x" * 2000]
    empty.ok("add_observations", {"name": "Diary", "observations": extra})
    (row,) = rows(empty, "which prototype exploded", limit=1)
    assert row["name"] == "Diary"
    assert row["distance"] is not None, "a word of 2,000 letters takes nothing from the rest"
    assert len(row["observations"]) == 302


# --- time, models, rebuilding --------------------------------------------------------------------


def test_a_search_that_does_not_wait_says_what_is_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOLOG_DESCRIBE_WAIT_S", "0")
    server = Server(tmp_path / "data")
    try:
        client = server.client()
        create(client, entity("first", "Note", "so that the model is loaded"))
        ready(client)
        # So many and so long that they are not described before the next call comes.
        text = " ".join(f"word{i} and" for i in range(120))
        create(client, *(entity(f"e{i}", "Note", f"{i} {text}") for i in range(50)))
        reply = client.ok("search_semantic", {"query": "first"})
        assert 1 <= reply["pending"] <= 50
        assert "first" in [row["name"] for row in reply["results"]], "answers with what is there"
        ready(client)
        assert len(rows(client, "word", limit=100)) == 51
    finally:
        assert server.stop() == 0


def test_without_a_model_it_is_a_clear_error_and_a_model_that_comes_describes_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    monkeypatch.setenv("MNEMOLOG_MODELS", str(models))
    server = Server(tmp_path / "data")
    try:
        client = server.client()
        create(client, entity("Cup", "Thing", "red"), entity("Mug", "Thing", "blue"))
        client.ok("add_reflection", {"target_type": "global", "content": "less is more"})
        for tool in ("search_semantic", "search_reflections"):
            assert client.refused(tool, {"query": "cup"}) == (
                "Embedding model not available. Run `mnemolog models pull "
                f"{DEFAULT_MODEL}` to download it first; it is noticed without a restart"
            )
        assert len(client.ok("search_nodes", {"query": "cup"})["entities"]) == 1
        shutil.copytree(models_dir_of_user() / DEFAULT_MODEL, models / "arriving")
        (models / "arriving").rename(models / DEFAULT_MODEL)
        deadline = time.monotonic() + PATIENCE_S
        while "result" not in (told := client.call("search_semantic", {"query": "cup"})) or (
            told["result"]["isError"] or "pending" in told["result"]["structuredContent"]
        ):
            assert time.monotonic() < deadline, told
            time.sleep(0.1)
        assert set(names(client, "a red vessel for drinking")) == {"Cup", "Mug"}
        found = client.ok("search_reflections", {"query": "simplicity"})["results"]
        assert [row["content"] for row in found] == ["less is more"]
    finally:
        assert server.stop() == 0
    verified(tmp_path / "data")


def models_dir_of_user() -> Path:
    before = os.environ.pop("MNEMOLOG_MODELS", None)
    try:
        return models_dir()
    finally:
        if before is not None:
            os.environ["MNEMOLOG_MODELS"] = before


def test_a_service_that_was_started_without_a_model_says_so(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--model", "none")
    try:
        sentence = server.client().refused("search_semantic", {"query": "cup"})
        assert sentence.startswith("Embedding model not available. The service runs with the model")
    finally:
        server.stop()


def verified(data: Path) -> Message:
    told = run("rebuild", "--verify", "--json", "--data", str(data))
    report: Message = json.loads(told.stdout)
    assert report["differences"] == []
    assert json.loads(run("audit", "verify", "--json", "--data", str(data)).stdout)["whole"]
    return report


def test_many_at_once_then_a_rebuild_finds_the_same(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = Server(data)
    try:

        def work(who: int) -> None:
            client = server.client()
            for i in range(4):
                create(
                    client,
                    entity(f"{who}", "Agent", f"saw bird {i} at {who}"),
                    entity("Sky", "Place"),
                )
                client.ok("add_observations", {"name": "Sky", "observations": [f"bird {who} {i}"]})
                client.ok("search_semantic", {"query": "birds in the sky"})
                reflection = {"target_type": "session", "content": f"agent {who} likes bird {i}"}
                client.ok("add_reflection", reflection)
                client.ok("search_reflections", {"query": "who likes birds"})
            create(client, entity(f"gone {who}", "Note", "bird"))
            client.ok("delete_entities", {"entityNames": [f"gone {who}"]})

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        client = server.client()
        ready(client)
        assert set(names(client, "birds")) == {"Sky", *map(str, range(6))}
        query = {"query": "agent likes birds", "limit": 100}
        told = client.ok("search_reflections", query)
        assert len(told["results"]) == 24 and told.keys() == {"results"}
        live = json.loads(run("rebuild", "--verify", "--json", "--data", str(data)).stdout)
        assert live["differences"] == []
    finally:
        assert server.stop() == 0
    assert verified(data)["parts"] > 0
    assert run("rebuild", "--data", str(data)).returncode == 0
    server = Server(data)
    try:
        again = server.client().ok("search_reflections", query)
        assert again == told
        assert {row["name"] for row in rows(server.client(), "birds")} == {
            "Sky",
            *map(str, range(6)),
        }
    finally:
        server.stop()
