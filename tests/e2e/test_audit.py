"""`mnemolog audit`: what happened to a thing, also to one that is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Message, run

NAME = "Old [red] Project"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNEMOLOG_MODEL", "none")
    return tmp_path / "data"


def call(data: Path, actor: str, tool: str, arguments: Message) -> None:
    told = run("call", tool, json.dumps(arguments), "--actor", actor, "--data", str(data))
    assert told.returncode == 0, told.stderr


def life(data: Path, thing: str) -> list[dict[str, Any]]:
    told = run("audit", "show", thing, "--json", "--data", str(data))
    assert told.returncode == 0, told.stderr
    found: list[dict[str, Any]] = json.loads(told.stdout)["life"]
    return found


def test_a_memory_tells_who_taught_corrected_and_forgot_it(data: Path) -> None:
    call(data, "ann", "learn", {"insight": "grip at 12N"})
    call(data, "ben", "update", {"memory_id": 1, "new_content": "grip at 11N"})
    call(data, "eve", "forget", {"memory_id": 1, "reason": "wrong sensor"})
    told = [(one["actor"], one["changes"], one["why"]) for one in life(data, "1")]
    assert told == [
        ("ann", ["learned: grip at 12N"], ""),
        ("ben", ["changed to: grip at 11N"], ""),
        ("eve", ["forgotten"], "wrong sensor"),
    ]
    assert life(data, "memory:1") == life(data, "1")


def test_a_deleted_entity_tells_what_it_said_and_who_deleted_it(data: Path) -> None:
    entity = {"name": NAME, "entityType": "Project", "observations": ["ran on Vercel"]}
    call(data, "ann", "create_entities", {"entities": [entity, {"name": "B"}]})
    relation = {"from": NAME, "to": "B", "relationType": "uses"}
    call(data, "ann", "create_relations", {"relations": [relation]})
    call(data, "eve", "delete_entities", {"entityNames": [NAME]})
    call(data, "ben", "create_entities", {"entities": [{"name": NAME}]})
    told = [(one["actor"], one["changes"]) for one in life(data, f"entity:{NAME}")]
    assert told == [
        ("ann", ["created, a Project", "+ ran on Vercel"]),
        ("ann", ["relation 1 (uses) created"]),
        ("eve", [f"deleted; it said:\n- ran on Vercel\n- {NAME} uses B"]),
        ("ben", ["created, a Generic"]),
    ]
    assert life(data, "relation:1")[-1]["changes"] == [f"deleted with entity {NAME}"]
    shown = run("audit", "show", f"entity:{NAME}", "--data", str(data))
    assert NAME in shown.stdout


def test_a_reflection_is_part_of_the_life_of_what_it_is_about(data: Path) -> None:
    call(data, "ann", "create_entities", {"entities": [{"name": "A"}, {"name": "B"}]})
    relation = {"from": "A", "to": "B", "relationType": "uses"}
    call(data, "ann", "create_relations", {"relations": [relation]})
    about: Message = {"target_type": "entity", "target_id": 2, "content": "B is the core"}
    call(data, "ben", "add_reflection", {**about, "mood": "insight"})
    call(data, "ben", "add_reflection", {"target_type": "global", "content": "all is well"})
    mine = life(data, "reflection:1")
    assert [(one["actor"], one["changes"]) for one in mine] == [
        ("ben", ["sofia (insight): B is the core"])
    ]
    assert life(data, "reflection:2")[0]["changes"] == ["sofia: all is well"]
    assert life(data, "entity:B")[-1]["changes"] == ["reflection 1 by sofia: B is the core"]
    assert all("reflection" not in str(one["changes"]) for one in life(data, "entity:A"))


@pytest.mark.parametrize("thing", ["7", "entity:nobody", "relation:7", "reflection:1"])
def test_what_never_was_is_a_clear_error(data: Path, thing: str) -> None:
    call(data, "ann", "learn", {"insight": "grip at 12N"})
    told = run("audit", "show", thing, "--data", str(data))
    assert told.returncode == 1
    assert "does not exist" in told.stderr


def test_an_id_that_is_none_says_what_is_allowed(data: Path) -> None:
    told = run("audit", "show", "robot:x", "--data", str(data))
    assert told.returncode != 0
    assert "entity:NAME" in told.stderr
