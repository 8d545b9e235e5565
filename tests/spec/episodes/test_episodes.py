"""Episodes: begun, gone through step by step, completed, looked up, deleted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mnemolog.events.episodes import (
    MAX_STEPS,
    EpisodeCompleted,
    EpisodeCreated,
    EpisodeDeleted,
    Outcome,
    PatternFound,
    PatternSeen,
    StepAdded,
)
from mnemolog.events.ids import uuid_of
from mnemolog.projections.episodes import state
from tests.spec.given import NOW_US, Ask, ask, days
from tests.spec.given_episodes import (
    NOBODY,
    VALIDATION,
    Episodes,
    add_step,
    bulk,
    complete,
    delete,
    get,
    login,
    query,
    timeline,
)

MINUTE_US = 60_000_000
NOW = "2024-10-04T00:00:00Z"
BEGUN = {
    "task_description": "Fix the login",
    "domain": "web-api",
    "task_type": "debugging",
}


# --- create_episode ------------------------------------------------------------------------------


def test_an_episode_is_begun(episodes: Episodes) -> None:
    own = uuid_of("episode", "call-1", 0)
    episodes.when(
        login(
            " Fix the login ",
            domain=" web-api ",
            language="rust ",
            framework=" axum",
            tags=[" Auth ", "jwt", "AUTH"],
            complexity="moderate",
        )
    ).then(
        EpisodeCreated(
            number=1,
            episode_id=own,
            task_description="Fix the login",
            domain="web-api",
            task_type="debugging",
            language="rust",
            framework="axum",
            tags=["auth", "jwt"],
            complexity="moderate",
        )
    ).then_reply({"episode_id": own, "created_at": NOW, "status": "active"})
    assert episodes.told(get(own)) == {
        "id": own,
        "context": "Fix the login",
        **BEGUN,
        "language": "rust",
        "framework": "axum",
        "complexity": "moderate",
        "tags": ["auth", "jwt"],
        "status": "active",
        "created_at": NOW,
        "completed_at": None,
        "duration_ms": 0,
        "step_count": 0,
        "outcome": None,
        "reward_score": None,
        "steps": [],
        "patterns": [],
        "reflection": None,
        "reward": None,
    }
    episodes.then_rebuilt()


def test_each_has_an_id_of_its_own(episodes: Episodes) -> None:
    first, second = episodes.begun(), episodes.begun()
    assert first != second
    assert episodes.told(bulk(first, second))["found_count"] == 2


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in BEGUN.items() if key != name}


@pytest.mark.parametrize("name", BEGUN)
def test_what_is_required_is_named(episodes: Episodes, name: str) -> None:
    asked = ask("create_episode", **without(name))
    episodes.when(asked).then_invalid(name, "Field is required", None)
    episodes.when(ask("create_episode", **without(name), **{name: None}))
    episodes.then_invalid(name, "Field is required", None)


@pytest.mark.parametrize(
    ("given", "field", "issue", "value"),
    [
        ({"task_description": ""}, "task_description", "must be text of 1 to", ""),
        ({"task_description": " \n"}, "task_description", "must be text of 1 to", " \n"),
        ({"domain": ""}, "domain", "must be text of 1 to", ""),
        ({"domain": "  "}, "domain", "must be text of 1 to", "  "),
        ({"task_type": "cooking"}, "task_type", "must be one of", "cooking"),
        ({"task_type": ""}, "task_type", "must be one of", ""),
        ({"complexity": "hard"}, "complexity", "must be one of", "hard"),
        ({"language": 5}, "language", "must be", 5),
        ({"tags": "auth"}, "tags", "must be", "auth"),
        ({"tags": ["x"]}, "tags[0]", "must have 2 to 100 visible characters", "x"),
        ({"tags": ["ok", "y" * 101]}, "tags[1]", "must have 2 to 100 visible", "y" * 101),
        ({"tags": ["a\x00b"]}, "tags[0]", "must have 2 to 100 visible characters", "a\x00b"),
        ({"tags": ["tag"] * 51}, "tags", "", ...),
        ({"mood": "good"}, "mood", "", "good"),
    ],
)
def test_what_does_not_fit_is_named(
    episodes: Episodes, given: dict[str, Any], field: str, issue: str, value: Any
) -> None:
    episodes.when(ask("create_episode", **{**BEGUN, **given}))
    told = episodes.reply
    assert (episodes.decided.refused, episodes.decided.code) == (True, VALIDATION), told
    assert told["field"] == field
    assert told["issue"].startswith(issue), told
    assert value is ... or told["value"] == value
    assert field in told["error"]
    episodes.then_nothing_changed()


# --- add_episode_step ----------------------------------------------------------------------------


def test_a_step_is_added(episodes: Episodes) -> None:
    own = episodes.begun()
    result = {"type": "error", "message": "no schema"}
    episodes.when(
        add_step(
            f" {own.upper()}",
            1,
            "analyzer ",
            "Analyze it",
            parameters={"depth": 2},
            result=result,
            latency_ms=150,
            at_us=NOW_US + MINUTE_US,
        )
    ).then(
        StepAdded(
            number=1,
            step_number=1,
            tool="analyzer",
            action="Analyze it",
            failed=True,
            result_type="error",
            parameters='{"depth":2}',
            result='{"type":"error","message":"no schema"}',
            latency_ms=150,
        )
    ).then_reply({"success": True, "episode_id": own, "step_number": 1, "message": "Step 1 added"})
    whole = episodes.told(get(own))
    assert whole["steps"] == [
        {
            "step_number": 1,
            "timestamp": "2024-10-04T00:01:00Z",
            "tool": "analyzer",
            "action": "Analyze it",
            "parameters": {"depth": 2},
            "result": result,
            "latency_ms": 150,
        }
    ]
    assert (whole["step_count"], whole["duration_ms"]) == (1, 60_000)
    episodes.then_rebuilt()


@pytest.mark.parametrize(
    ("result", "kind", "failed"),
    [
        (None, None, False),
        ({}, "success", False),
        ({"output": "x"}, "success", False),
        ({"type": "success"}, "success", False),
        ({"type": "Error"}, "Error", True),
        ({"type": "timeout"}, "timeout", True),
        ({"type": "skipped"}, "skipped", False),
    ],
)
def test_the_type_of_the_result_says_whether_a_step_failed(
    episodes: Episodes, result: dict[str, Any] | None, kind: str | None, failed: bool
) -> None:
    own = episodes.begun()
    episodes.after(add_step(own, 1, result=result))
    (one,) = state.steps(episodes.state.view, 1)
    assert (one.result_type, bool(one.failed)) == (kind, failed)


def test_steps_are_told_by_their_numbers_whenever_they_came(episodes: Episodes) -> None:
    own = episodes.begun()
    episodes.after(add_step(own, 2), add_step(own, 7), add_step(own, 1))
    assert [one["step_number"] for one in episodes.told(timeline(own))["timeline"]] == [1, 2, 7]
    episodes.when(add_step(own, 2)).then_invalid(
        "step_number", "is the number of a step that the episode has already; the next is 8", 2
    )


def test_an_episode_has_so_many_steps(episodes: Episodes) -> None:
    own = episodes.begun()
    for number in range(1, MAX_STEPS + 1):
        episodes.after(add_step(own, number))
    many = f"is one too many: an episode has at most {MAX_STEPS} steps"
    episodes.when(add_step(own, MAX_STEPS + 1)).then_invalid("step_number", many, MAX_STEPS + 1)


@pytest.mark.parametrize("name", ["parameters", "result"])
def test_what_a_step_holds_is_bounded(episodes: Episodes, name: str) -> None:
    own = episodes.begun()

    def holding(number: int, size: int) -> Ask:
        given: dict[str, Any] = {name: {"output": "x" * size}}
        return add_step(own, number, **given)

    room = 64 * 1024 - len('{"output":""}')
    episodes.after(holding(1, room))
    episodes.when(holding(2, room + 1))
    assert (episodes.reply["field"], episodes.decided.code) == (name, VALIDATION)
    assert episodes.reply["issue"] == "has 65,537 bytes as JSON; at most 65,536 are taken"
    assert len(episodes.reply["value"]) <= 200
    episodes.then_nothing_changed()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"step_number": True}, "step_number"),
        ({"step_number": 0}, "step_number"),
        ({"step_number": 1.5}, "step_number"),
        ({"step_number": "1"}, "step_number"),
        ({"step_number": None}, "step_number"),
        ({"tool": ""}, "tool"),
        ({"tool": " "}, "tool"),
        ({"tool": None}, "tool"),
        ({"action": ""}, "action"),
        ({"action": " "}, "action"),
        ({"episode_id": ""}, "episode_id"),
        ({"episode_id": None}, "episode_id"),
        ({"parameters": [1]}, "parameters"),
        ({"result": "done"}, "result"),
        ({"result": {"type": 5}}, "result.type"),
        ({"result": {"type": ""}}, "result.type"),
        ({"latency_ms": True}, "latency_ms"),
        ({"latency_ms": -1}, "latency_ms"),
    ],
)
def test_a_step_that_does_not_fit(episodes: Episodes, given: dict[str, Any], field: str) -> None:
    own = episodes.begun()
    arguments = {"episode_id": own, "step_number": 1, "tool": "editor", "action": "Write"}
    episodes.when(add_step(**{"episode": own, "number": 1, **_spelled({**arguments, **given})}))
    assert episodes.decided.code == VALIDATION, episodes.reply
    assert episodes.reply["field"] == field
    expected = "Field is required" if None in given.values() else ""
    assert episodes.reply["issue"].startswith(expected)
    episodes.then_nothing_changed()


def _spelled(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a step as `step` takes them."""
    names = {"episode_id": "episode", "step_number": "number"}
    return {names.get(name, name): value for name, value in given.items()}


# --- complete_episode ----------------------------------------------------------------------------


def test_a_success_is_completed(episodes: Episodes) -> None:
    own = episodes.begun(language="rust")
    episodes.after(add_step(own, 1, "reader", "Read the log"), add_step(own, 2, "editor", "Fix it"))
    episodes.when(complete(own, artifacts=["auth.rs"], at_us=NOW_US + MINUTE_US))
    completed, *learned = episodes.decode(episodes.decided)
    assert isinstance(completed, EpisodeCompleted)
    assert completed.outcome == Outcome(type="success", verdict="It works", artifacts=["auth.rs"])
    assert completed.success == 1.0
    reward = completed.reward
    efficiency = 0.5 * (0.5 + math.exp(-60 / 120)) + 0.5 * (0.5 + math.exp(-2 / 20))
    assert reward.efficiency == round(efficiency, 6)
    assert (reward.base, reward.complexity, reward.quality) == (1.0, 1.0, 1.1)
    assert reward.total == pytest.approx(efficiency * 1.1 + reward.learning, abs=1e-5)
    assert "It works" in completed.text and "Fix the login" in completed.text
    found = [one for one in learned if isinstance(one, PatternFound)]
    seen = [one for one in learned if isinstance(one, PatternSeen)]
    assert {one.kind for one in found} == {"ToolSequence", "ContextPattern"}
    assert [one.pattern for one in seen] == [one.pattern for one in found] == [1, 2]
    episodes.then_reply(
        {
            "success": True,
            "episode_id": own,
            "outcome_type": "success",
            "reward_score": reward.total,
            "patterns_learned": 2,
            "message": "Episode completed: success, 2 patterns",
        }
    )
    whole = episodes.told(get(own))
    assert whole["status"] == "completed"
    assert whole["completed_at"] == "2024-10-04T00:01:00Z"
    assert whole["duration_ms"] == 60_000
    assert whole["outcome"] == {
        "type": "success",
        "verdict": "It works",
        "artifacts": ["auth.rs"],
    }
    assert whole["reward_score"] == whole["reward"]["total"] == reward.total
    assert [one["id"] for one in whole["patterns"]] == ["pattern-1", "pattern-2"]
    assert whole["reflection"]["generated_at"] == whole["completed_at"]
    assert "It works" in whole["reflection"]["successes"]
    episodes.then_rebuilt()


@pytest.mark.parametrize(
    ("kind", "more", "success"),
    [
        ("success", {}, 1.0),
        ("failure", {"error_details": "403"}, 0.0),
        ("partial_success", {}, 0.5),
        ("partial_success", {"completed": ["a", "b", "c"], "failed": ["d"]}, 0.75),
        ("partial_success", {"completed": [], "failed": []}, 0.5),
        ("partial_success", {"completed": [], "failed": ["d"]}, 0.0),
    ],
)
def test_how_far_it_succeeded(
    episodes: Episodes, kind: str, more: dict[str, Any], success: float
) -> None:
    own = episodes.begun()
    episodes.after(complete(own, kind, **more))
    (completed, *_) = episodes.decode(episodes.decided)
    assert isinstance(completed, EpisodeCompleted)
    assert (completed.success, completed.reward.base) == (success, success)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("success", "verdict"),
        ("partial_success", "verdict"),
        ("partial_success", "completed"),
        ("partial_success", "failed"),
        ("failure", "reason"),
    ],
)
def test_an_outcome_says_what_it_has_to(episodes: Episodes, kind: str, name: str) -> None:
    own = episodes.begun()
    episodes.when(complete(own, kind, **{name: None}))
    episodes.then_invalid(name, f"is required for the outcome {kind}", None)
    episodes.when(complete(own, kind, **{name: [] if name in ("completed", "failed") else " "}))
    assert episodes.decided.refused is (name not in ("completed", "failed"))


def test_an_outcome_of_another_type(episodes: Episodes) -> None:
    own = episodes.begun()
    episodes.when(ask("complete_episode", episode_id=own, outcome_type="done", verdict="x"))
    assert (episodes.reply["field"], episodes.reply["value"]) == ("outcome_type", "done")
    episodes.then_nothing_changed()


def test_nothing_is_added_to_what_is_completed(episodes: Episodes) -> None:
    own = episodes.begun()
    episodes.after(complete(own))
    done = f"was completed at {NOW}; nothing can be added to it"
    episodes.when(add_step(own, 1)).then_invalid("episode_id", done, own)
    episodes.when(complete(own, "failure")).then_invalid("episode_id", done, own)


def test_the_same_pattern_again_is_more_evidence(episodes: Episodes) -> None:
    for kind in ("success", "failure"):
        own = episodes.begun(language="rust")
        episodes.after(add_step(own, 1, "reader"), add_step(own, 2, "editor"), complete(own, kind))
    facts = episodes.decode(episodes.decided)
    assert not any(isinstance(one, PatternFound) for one in facts)
    patterns = episodes.told(get(own))["patterns"]
    assert [(one["occurrences"], one["success_rate"]) for one in patterns] == [(2, 0.5)] * 2
    episodes.then_rebuilt()


def test_the_decision_on_a_long_episode_is_small(episodes: Episodes) -> None:
    own = episodes.begun("Fix the login", tags=["auth", "jwt"], language="rust")
    for number in range(1, 501):
        kind = "error" if number % 7 == 0 else "success"
        action = f"Check and verify part {number}"
        episodes.after(
            add_step(own, number, f"tool-{number % 9}", action, result={"type": kind}, latency_ms=5)
        )
    episodes.after(complete(own))
    assert len(episodes.log[-1]) < 20_000
    assert len(episodes.decided.facts) < 40
    episodes.then_rebuilt()


# --- delete_episode ------------------------------------------------------------------------------


def test_an_episode_is_deleted_with_what_it_alone_showed(episodes: Episodes) -> None:
    first = episodes.begun(language="rust")
    episodes.after(add_step(first, 1, "reader"), add_step(first, 2, "editor"), complete(first))
    second = episodes.begun(language="rust")
    episodes.after(complete(second))
    episodes.when(delete(first)).then(
        EpisodeDeleted(
            number=1,
            episode_id=first,
            task_description="Fix the login",
            status="completed",
            steps=2,
            outcome="success",
            patterns=[1],
        )
    ).then_reply({"success": True, "episode_id": first, "message": "Episode deleted"})
    episodes.when(get(first)).then_not_found(first)
    (kept,) = episodes.told(get(second))["patterns"]
    assert (kept["id"], kept["occurrences"]) == ("pattern-2", 1)
    assert [one["id"] for one in episodes.told(query("login"))["episodes"]] == [second]
    episodes.when(delete(first)).then_not_found(first)
    episodes.then_rebuilt()


def test_deleting_has_to_be_confirmed(episodes: Episodes) -> None:
    own = episodes.begun()
    episodes.when(delete(own, confirm=False))
    episodes.then_invalid("confirm", "must be true to delete an episode", False)
    episodes.when(ask("delete_episode", episode_id=own))
    episodes.then_invalid("confirm", "Field is required", None)
    episodes.when(ask("delete_episode", episode_id=own, confirm=1))
    assert (episodes.reply["field"], episodes.decided.code) == ("confirm", VALIDATION)
    assert episodes.told(get(own))["status"] == "active"


# --- what does not exist -------------------------------------------------------------------------

ONE = [add_step(NOBODY, 1), complete(NOBODY), delete(NOBODY), get(NOBODY), timeline(NOBODY)]


@pytest.mark.parametrize("asked", ONE, ids=lambda asked: asked.tool)
def test_what_does_not_exist_is_not_found(episodes: Episodes, asked: Ask) -> None:
    episodes.when(asked).then_not_found(NOBODY)
    episodes.begun()
    episodes.when(asked).then_not_found(NOBODY)


def test_what_is_another_tenants_does_not_exist(episodes: Episodes) -> None:
    theirs = episodes.begun("Steal the recipe", tenant="rival")
    for make in (lambda one: add_step(one, 1), complete, delete, get, timeline):
        episodes.when(make(theirs)).then_not_found(theirs)
    assert episodes.told(bulk(theirs))["not_found"] == [theirs]
    assert episodes.told(query("recipe"))["episodes"] == []
    assert episodes.told(get(theirs, tenant="rival"))["id"] == theirs


# --- get_episode_timeline, bulk_episodes ---------------------------------------------------------


def test_a_timeline_tells_the_steps(episodes: Episodes) -> None:
    own = episodes.begun()
    episodes.after(
        add_step(own, 1, "reader", "Read", result={"type": "success"}, latency_ms=5),
        add_step(own, 2, "editor", "Write", at_us=NOW_US + MINUTE_US),
    )
    told = episodes.told(timeline(own))
    assert told == {
        "episode_id": own,
        "task_description": "Fix the login",
        "start_time": NOW,
        "end_time": None,
        "duration_seconds": 60.0,
        "step_count": 2,
        "timeline": [
            {
                "step_number": 1,
                "timestamp": NOW,
                "tool": "reader",
                "action": "Read",
                "result_type": "success",
                "latency_ms": 5,
            },
            {
                "step_number": 2,
                "timestamp": "2024-10-04T00:01:00Z",
                "tool": "editor",
                "action": "Write",
                "result_type": None,
                "latency_ms": None,
            },
        ],
        "outcome": None,
    }
    episodes.after(complete(own, "failure", at_us=NOW_US + 2 * MINUTE_US))
    told = episodes.told(timeline(own))
    assert (told["end_time"], told["duration_seconds"]) == ("2024-10-04T00:02:00Z", 120.0)
    assert told["outcome"] == {"type": "failure", "reason": "No access"}


def test_several_are_told_in_the_order_asked_for(episodes: Episodes) -> None:
    first, second = episodes.begun("first"), episodes.begun("second")
    told = episodes.told(bulk(second, NOBODY, first, second.upper()))
    assert [one["id"] for one in told["episodes"]] == [second, first]
    assert (told["requested_count"], told["found_count"]) == (4, 2)
    assert told["not_found"] == [NOBODY]
    assert told["episodes"][0] == episodes.told(get(second))
    episodes.when(bulk()).then_nothing_changed()
    assert (episodes.reply["field"], episodes.decided.code) == ("episode_ids", VALIDATION)
    episodes.when(bulk(*[first] * 101)).then_nothing_changed()
    assert (episodes.reply["field"], episodes.decided.code) == ("episode_ids", VALIDATION)


def test_what_is_larger_than_an_answer_is_refused_before_it_is_read(episodes: Episodes) -> None:
    large, small = episodes.begun("large"), episodes.begun("small")
    for number in range(1, 131):
        episodes.after(add_step(large, number, parameters={"x": "y" * 65_000}))
    episodes.when(get(large)).then_nothing_changed()
    assert (episodes.reply["field"], episodes.decided.code) == ("episode_id", VALIDATION)
    assert "get_episode_timeline" in episodes.reply["error"]
    episodes.when(bulk(small, large)).then_nothing_changed()
    assert episodes.reply["field"] == "episode_ids"
    assert episodes.told(timeline(large))["step_count"] == 130
    assert episodes.told(bulk(small))["found_count"] == 1


def test_looking_leaves_no_fact(episodes: Episodes) -> None:
    own = episodes.begun()
    for asked in (get(own), timeline(own), bulk(own), query("login")):
        episodes.after(asked).then_nothing_changed()
        assert episodes.reply == {"returned": [1]}


# --- once ----------------------------------------------------------------------------------------


def test_a_key_makes_a_call_happen_once(episodes: Episodes) -> None:
    own = episodes.begun(key="k-1", at_us=days(1))
    assert episodes.begun(key="k-1", at_us=days(2)) == own
    episodes.then_nothing_changed()
    episodes.when(login("another", key="k-1", at_us=days(2)))
    assert "was used for another call" in episodes.reply["error"]
