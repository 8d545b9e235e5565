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
        ("ann", [f"relation 1: {NAME} uses B created"]),
        ("eve", [f"deleted; it said:\n- ran on Vercel\n- {NAME} uses B"]),
        ("ben", ["created, a Generic"]),
    ]
    assert life(data, "relation:1")[-1]["changes"] == [
        f"relation 1: {NAME} uses B deleted with entity {NAME}"
    ]
    shown = run("audit", "show", f"entity:{NAME}", "--data", str(data))
    assert NAME in shown.stdout


def test_both_ends_of_a_relation_tell_what_became_of_it(data: Path) -> None:
    names = [{"name": name} for name in ("A", "B", "C")]
    triples = [
        ("A", "uses", "B"),
        ("A", "uses", "C"),
        ("A", "contains", "B"),
        ("B", "part_of", "A"),
        ("A", "calls", "A"),
    ]
    named = [{"from": a, "relationType": kind, "to": b} for a, kind, b in triples]
    call(data, "ann", "create_entities", {"entities": names})
    call(data, "ann", "create_relations", {"relations": named})
    for number in (1, 3, 5):
        call(data, "ben", "end_relation", {"relation_id": number})
    call(data, "ann", "create_relations", {"relations": named[:1]})
    call(data, "ben", "delete_relations", {"relations": named[1:2]})
    call(data, "eve", "delete_entities", {"entityNames": ["A"]})

    def told(thing: str) -> list[tuple[str, list[str]]]:
        return [(one["actor"], one["changes"]) for one in life(data, thing)]

    ended = [
        ("ben", ["relation 1: A uses B ended"]),
        ("ben", ["relation 3: A contains B ended", "relation 4: B part_of A ended"]),
    ]
    assert told("entity:A") == [
        ("ann", ["created, a Generic"]),
        (
            "ann",
            [
                "relation 1: A uses B created",
                "relation 2: A uses C created",
                "relation 3: A contains B created",
                "relation 4: B part_of A created",
                "relation 5: A calls A created",
            ],
        ),
        *ended,
        ("ben", ["relation 5: A calls A ended"]),
        ("ann", ["relation 6: A uses B created"]),
        ("ben", ["relation 2: A uses C deleted"]),
        (
            "eve",
            [
                "deleted; it said:\n- A uses B (ended)\n- A contains B (ended)\n"
                "- B part_of A (ended)\n- A calls A (ended)\n- A uses B"
            ],
        ),
    ]
    assert told("entity:B")[2:] == [
        *ended,
        ("ann", ["relation 6: A uses B created"]),
        (
            "eve",
            [
                "relation 1: A uses B (ended) deleted with entity A\n"
                "relation 3: A contains B (ended) deleted with entity A\n"
                "relation 4: B part_of A (ended) deleted with entity A\n"
                "relation 6: A uses B deleted with entity A"
            ],
        ),
    ]
    assert told("entity:C")[1:] == [
        ("ann", ["relation 2: A uses C created"]),
        ("ben", ["relation 2: A uses C deleted"]),
    ]
    assert told("relation:4") == [
        ("ann", ["relation 4: B part_of A created"]),
        ("ben", ["relation 4: B part_of A ended"]),
        ("eve", ["relation 4: B part_of A (ended) deleted with entity A"]),
    ]
    facts = [fact for one in life(data, "relation:6") for fact in one["facts"]]
    assert [facts[0][end] for end in ("source", "relation_type", "target")] == ["A", "uses", "B"]
    shown = run("audit", "show", "relation:1", "--data", str(data))
    assert "Relation 1: A uses B (ended)" in shown.stdout
    before = {thing: life(data, thing) for thing in ("entity:A", "entity:B", "relation:1")}
    assert run("rebuild", "--data", str(data)).returncode == 0
    assert {thing: life(data, thing) for thing in before} == before


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


def test_a_deleted_episode_tells_what_it_was_and_who_deleted_it(data: Path) -> None:
    task = {"task_description": "Fix the login", "domain": "web-api", "task_type": "debugging"}
    told = run("call", "create_episode", json.dumps(task), "--actor", "ann", "--data", str(data))
    own = json.loads(told.stdout)["episode_id"]
    step = {"episode_id": own, "step_number": 1, "tool": "editor", "action": "Check it"}
    call(data, "ann", "add_episode_step", step)
    done = {"episode_id": own, "outcome_type": "failure", "reason": "No access"}
    call(data, "ben", "complete_episode", done)
    call(data, "eve", "delete_episode", {"episode_id": own, "confirm": True})
    begun, stepped, completed, deleted = life(data, f"episode:{own.upper()}")
    assert begun["changes"] == ["begun: Fix the login (debugging in web-api)"]
    assert stepped["changes"] == ["step 1, editor: Check it"]
    assert (completed["actor"], completed["changes"][0].splitlines()[-1]) == ("ben", "No access")
    assert deleted["actor"] == "eve"
    assert deleted["changes"] == ["deleted; it was: Fix the login (completed, failure, 1 step)"]
    found = life(data, "pattern:1")
    assert found == life(data, "pattern:pattern-1")
    assert [one["actor"] for one in found] == ["ben", "eve"]
    assert found[1]["changes"] == [f"gone with episode {own}, which alone showed it"]
    shown = run("audit", "show", f"episode:{own}", "--data", str(data))
    assert "Fix the login" in shown.stdout


@pytest.mark.parametrize(
    "thing",
    ["7", "entity:nobody", "relation:7", "reflection:1", "episode:nobody", "pattern:1"],
)
def test_what_never_was_is_a_clear_error(data: Path, thing: str) -> None:
    call(data, "ann", "learn", {"insight": "grip at 12N"})
    told = run("audit", "show", thing, "--data", str(data))
    assert told.returncode == 1
    assert "does not exist" in told.stderr


def test_an_id_that_is_none_says_what_is_allowed(data: Path) -> None:
    told = run("audit", "show", "robot:x", "--data", str(data))
    assert told.returncode != 0
    assert "entity:NAME" in told.stderr
