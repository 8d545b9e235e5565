"""Splitting, duplicates and the report through real processes, with the real model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp import StdioServerParameters

from tests.e2e.conftest import (
    PATIENCE_S,
    TRANSPORTS,
    Client,
    Message,
    StdioClient,
    checked,
    reached,
    run,
)
from tests.e2e.test_memory_server import WORDS_ONLY, entity

PROJECT = "Proyecto cachorritos"
STACK = ["Stack: FastMCP + SQLite", "MCP Memory v2"]
DEPLOYMENT = [
    "Deployed on Vercel from the main branch",
    "Preview deployments are made for every pull request",
    "Environment variables are set in the Vercel dashboard",
    "The staging server is deployed from a release branch",
    "Rollback of a deployment takes one click",
    "A failed deployment sends a message to the team",
    "Deployments to production wait for approval",
    "The deployment of the web page takes a minute",
]
PERSON = [
    "Sofía plays the cello in a string quartet",
    "Her favourite composer is Schubert",
    "The quartet gives a concert in June",
    "She practises the cello before breakfast",
    "She bought a new bow for her cello",
    "She sings in the church choir on Sundays",
    "Her music teacher lives in Vienna",
    "She listens to string music in the evening",
]
GARDEN = [
    "Tomatoes grow along the south wall of the garden",
    "The roses in the garden were pruned in February",
    "Slugs ate the lettuce seedlings",
    "The apple tree in the garden needs a stake",
    "Compost is spread on the vegetable beds in spring",
    "The beds are watered from a rain barrel",
    "Basil and parsley grow in pots by the door",
    "The hedge is cut in autumn",
]
PRUEBAS = [
    "Hay 97 pruebas unitarias que pasan",
    "Las pruebas de integración tardan dos minutos",
    "La cobertura de pruebas es del 91 por ciento",
    "Cada error corregido lleva su prueba de regresión",
    "Se usa pytest para todas las pruebas",
    "Las pruebas de carga simulan cien clientes",
    "Las pruebas nocturnas fallaron dos veces",
    "Faltan pruebas para la entrada vacía",
]
EQUIPO = [
    "Sofía coordina las reuniones del equipo los lunes",
    "El equipo celebró el lanzamiento con una cena",
    "Marta se incorpora al equipo en septiembre",
    "Las vacaciones de Sofía son en agosto",
    "Nolan y Sofía comparten despacho",
    "El equipo habla por videollamada cada viernes",
    "Luis dejó el equipo para volver a Granada",
    "Nolan invitó al equipo a su casa",
]
MIXED = [one for three in zip(DEPLOYMENT, PERSON, GARDEN, strict=True) for one in three]
MEZCLA = [one for two in zip(PRUEBAS, EQUIPO, strict=True) for one in two]
SAME = ["Deployed on Vercel with custom domain", "Deployment: Vercel, custom domain configured"]


def grown(count: int) -> list[str]:
    return [*STACK, *MIXED, *(f"Note {i} on something else" for i in range(count))][:count]


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
    life = run(
        "audit", "show", f"entity:{PROJECT} - Arquitectura", "--data", str(tmp_path / "data")
    )
    assert "execute_entity" in life.stdout
    told = run(
        "audit", "show", f"entity:{PROJECT}", "--json", "--data", str(tmp_path / "data")
    ).stdout
    changes = json.loads(told)["life"][-1]["changes"]
    assert f"split; observations: 2 moved to {PROJECT} - Arquitectura" in changes
    assert run("rebuild", "--verify", "--data", str(tmp_path / "data")).returncode == 0


async def example(call: Callable[..., Any]) -> None:
    """The calls of the documentation, in its order, and the shape of its replies."""
    await call("create_entities", entities=[entity(PROJECT, "Proyecto", *grown(28))])
    analysis = (await call("analyze_entity_split", entity_name=PROJECT))["analysis"]
    topics = analysis.pop("topics")
    assert analysis == {
        "entity_name": PROJECT,
        "entity_type": "Proyecto",
        "observation_count": 28,
        "threshold": 25,
        "needs_split": True,
        "split_score": 1.12,
    }
    assert sorted(text for texts in topics.values() for text in texts) == sorted(grown(28))

    proposal = (await call("propose_entity_split", entity_name=PROJECT))["proposal"]
    assert proposal == (await call("propose_entity_split_tool", entity_name=PROJECT))["proposal"]
    assert proposal["original_entity"] == {"name": PROJECT, "entity_type": "Proyecto"}
    assert proposal["analysis"] == {
        "observation_count": 28,
        "threshold": 25,
        "split_score": 1.12,
        "num_topics": len(topics),
    }
    first = proposal["suggested_splits"][0]
    assert set(first) == {"name", "entity_type", "observations"}
    assert proposal["relations_to_create"][:2] == [
        {"from": PROJECT, "to": first["name"], "type": "contiene"},
        {"from": first["name"], "to": PROJECT, "type": "parte_de"},
    ]

    session = [*PRUEBAS, *EQUIPO, *STACK]
    name = "Sesión 2026-03-31"
    await call("create_entities", entities=[entity(name, "Sesion", *session)])
    found = (await call("find_split_candidates"))["candidates"]
    assert [(one["entity_name"], one["split_score"]) for one in found] == [
        (name, 1.2),
        (PROJECT, 1.12),
    ]
    assert found[1] == {**analysis, "topics": topics}

    part = {"name": f"{PROJECT} - Arquitectura", "entity_type": "Proyecto", "observations": STACK}
    assert await call("execute_entity_split_tool", entity_name=PROJECT, approved_splits=[part]) == {
        "result": {
            "new_entities": [f"{PROJECT} - Arquitectura"],
            "moved_observations": 2,
            "relations_created": 2,
            "original_observations_remaining": 26,
        }
    }
    again = await call(
        "execute_entity_split", entity_name=PROJECT, approved_splits=[part], refused=True
    )
    assert again == {"error": f"{PROJECT} does not have the observation {STACK[0]!r}"}
    opened = await call("open_nodes", names=[f"{PROJECT} - Arquitectura"])
    assert opened["entities"][0]["observations"] == STACK

    long = "Stack: FastMCP + SQLite + ONNX Runtime for embeddings"
    mine = entity("My Project", "Project", *SAME, long, "The cat sleeps on the sofa")
    await call("create_entities", entities=[mine])
    await call("add_observations", name="My Project", observations=["FastMCP"])
    told = await call("find_duplicate_observations", entity_name="My Project", threshold=0.85)
    assert (told["entity_name"], told["total_observations"]) == ("My Project", 5)
    pairs = {
        (one["obs_text_a"], one["obs_text_b"]): (one["match_type"], one["similarity_score"])
        for one in told["duplicate_pairs"]
    }
    assert set(pairs) == {(SAME[0], SAME[1]), (long, "FastMCP")}
    assert pairs[SAME[0], SAME[1]][0] == "cosine"
    assert 0.85 <= pairs[SAME[0], SAME[1]][1] < 1
    assert pairs[long, "FastMCP"] == ("containment", 1.0)

    report = await call("consolidation_report", stale_days=90)
    assert report["summary"] == {
        "total_entities": 4,
        "total_observations": 51,
        "split_candidates_count": 2,
        "flagged_observations_count": 1,
        "stale_entities_count": 0,
        "large_entities_count": 2,
    }
    assert report["flagged_observations"] == [
        {"entity_name": "My Project", "observation_text": "FastMCP", "similarity_flag": 1}
    ]
    assert report["split_candidates"][0] == {
        "entity_name": name,
        "entity_type": "Sesion",
        "observation_count": 18,
        "threshold": 15,
        "split_score": 1.2,
    }
    assert report["large_entities"][1] == {
        "entity_name": PROJECT,
        "entity_type": "Proyecto",
        "observation_count": 26,
    }
    idle = await call("consolidation_report", stale_days=0)
    assert set(idle["stale_entities"][0]) == {
        "entity_name",
        "entity_type",
        "last_accessed_days_ago",
        "access_count",
        "observation_count",
    }


# --- topics with the real model ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "subjects"),
    [(MIXED, (DEPLOYMENT, PERSON, GARDEN)), (MEZCLA, (PRUEBAS, EQUIPO))],
    ids=["English", "español"],
)
def test_clear_topics_are_told_apart(
    client: Client, collection: str, texts: list[str], subjects: tuple[list[str], ...]
) -> None:
    client.ok("create_entities", {"entities": [entity(collection, "Generic", *texts)]})
    analysis = client.ok("analyze_entity_split", {"entity_name": collection})["analysis"]
    groups = list(analysis["topics"].values())
    assert sorted(text for group in groups for text in group) == sorted(texts)
    of = {text: i for i, group in enumerate(groups) for text in group}
    pairs = [(a, b) for i, a in enumerate(texts) for b in texts[i + 1 :]]
    same = [{a, b} <= set(subject) for a, b in pairs for subject in subjects]
    alike = [any(same[i : i + len(subjects)]) for i in range(0, len(same), len(subjects))]
    agreed = [(of[a] == of[b]) == one for (a, b), one in zip(pairs, alike, strict=True)]
    assert sum(agreed) / len(agreed) > 0.8
    assert 2 <= len(groups) <= 2 * len(subjects)


# --- without a model -----------------------------------------------------------------------------


@pytest.fixture
def wordy(tmp_path: Path) -> Iterator[StdioClient]:
    client = StdioClient(tmp_path / "data", *WORDS_ONLY)
    client.initialize()
    yield client
    client.close()


def test_without_a_model_all_but_duplicates_work(wordy: StdioClient) -> None:
    wordy.ok("create_entities", {"entities": [entity("P", "Project", *grown(28))]})
    sentence = wordy.refused("find_duplicate_observations", {"entity_name": "P"})
    assert sentence.startswith("Embedding model not available.")
    assert "mnemolog models pull" in sentence
    assert wordy.ok("analyze_entity_split", {"entity_name": "P"})["analysis"]["needs_split"]
    parts = wordy.ok("propose_entity_split", {"entity_name": "P"})["proposal"]["suggested_splits"]
    done = wordy.ok("execute_entity_split", {"entity_name": "P", "approved_splits": parts})
    assert done["result"]["new_entities"] == [one["name"] for one in parts]
    assert wordy.ok("find_split_candidates", {}) == {"candidates": []}
    assert wordy.ok("consolidation_report", {})["summary"]["split_candidates_count"] == 0
    assert wordy.close() == 0
    refused = json.loads(
        run("audit", "log", "--refused", "--json", "--data", str(wordy.data)).stdout
    )
    assert [one["tool"] for one in refused] == ["find_duplicate_observations"]
    assert refused[0]["error"] == sentence


def test_a_model_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOLOG_MODELS", str(tmp_path / "models"))
    client = StdioClient(tmp_path / "data")
    try:
        client.initialize()
        client.ok("create_entities", {"entities": [entity("P", "Project", "a", "b")]})
        sentence = client.refused("find_duplicate_observations", {"entity_name": "P"})
        assert "mnemolog models pull bge-small-en-v1.5" in sentence
    finally:
        client.close()


# --- what is refused -----------------------------------------------------------------------------

PART = {"name": "Q", "entity_type": "T", "observations": ["x"]}


def splitting(*parts: Any, **more: Any) -> tuple[str, Message]:
    return "execute_entity_split", {"entity_name": "P", "approved_splits": list(parts), **more}


BAD: dict[str, tuple[tuple[str, Any], str]] = {
    "nobody to analyse": (
        ("analyze_entity_split", {"entity_name": "Nobody"}),
        "Entity not found: Nobody",
    ),
    "no name": (("analyze_entity_split", {}), "entity_name is required"),
    "a blank name": (("propose_entity_split", {"entity_name": " "}), "entity_name must be text"),
    "a name that is a number": (
        ("propose_entity_split_tool", {"entity_name": 7}),
        "entity_name must be text",
    ),
    "nobody to split": (
        ("execute_entity_split", {"entity_name": "Nobody", "approved_splits": [PART]}),
        "Entity not found: Nobody",
    ),
    "no parts": (splitting(), "approved_splits must be a list of 1 to 50 entries"),
    "a part that is a text": (splitting("Q"), "approved_splits[0]"),
    "a part with a field it does not have": (
        splitting({**PART, "mood": "good"}),
        "unknown field 'mood'",
    ),
    "a part without observations": (
        splitting({"name": "Q", "entity_type": "T"}),
        "approved_splits[0] needs observations",
    ),
    "an observation it does not have": (
        splitting({**PART, "observations": ["other"]}),
        "P does not have the observation 'other'",
    ),
    "an unknown parent": (splitting(PART, parent_entity_name="Nobody"), "Entity not found: Nobody"),
    "an argument of candidates": (("find_split_candidates", {"limit": 3}), "Unknown argument"),
    "a threshold of 2": (
        ("find_duplicate_observations", {"entity_name": "P", "threshold": 2}),
        "threshold must be a number from 0.0 to 1.0, not 2",
    ),
    "a containment of -1": (
        ("find_duplicate_observations", {"entity_name": "P", "containment_threshold": -1}),
        "containment_threshold must be a number from 0.0 to 1.0, not -1",
    ),
    "days before today": (("consolidation_report", {"stale_days": -1}), "from 0.0 to 36500.0"),
    "days in words": (("consolidation_report", {"stale_days": "many"}), "stale_days must be"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_a_clear_sentence(empty: Client, name: str) -> None:
    empty.ok("create_entities", {"entities": [entity("P", "T", "x")]})
    before = empty.ok("read_graph", {})
    (tool, arguments), expected = BAD[name]
    sentence = empty.refused(tool, arguments)
    assert expected in sentence
    assert len(sentence) < 300
    assert empty.ok("read_graph", {}) == before
