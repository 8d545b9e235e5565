"""What a completed episode teaches: its reward, reflection, and patterns with their evidence."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest

from mnemolog.services.families.episodes.rules import EpisodeRules
from tests.spec.given import NOW_US, days
from tests.spec.given_episodes import (
    Episodes,
    Reply,
    delete,
    failed,
    partly,
    seconds,
    step,
    succeeded,
    task,
)

SEQUENCE, DECISION = "ToolSequence", "DecisionPoint"
RECOVERY, CONTEXT = "ErrorRecovery", "ContextPattern"


def reward(episodes: Episodes, *steps: Reply, ends: Reply, took: float, **more: Any) -> Reply:
    found = episodes.shown(episodes.ran(task("a task", **more), *steps, ends=ends, seconds=took))
    assert found["reward_score"] == found["reward"]["total"]
    parts: Reply = found["reward"]
    return parts


# --- reward --------------------------------------------------------------------------------------


def test_a_success_of_two_steps_in_two_minutes(episodes: Episodes) -> None:
    """One pattern (the sequence of two tools) is learned; efficiency is ½(0.5+e⁻¹) + ½(0.5+e^-0.1),
    quality 1.1 for want of any error."""
    found = reward(episodes, step("a"), step("b"), ends=succeeded(), took=120)
    efficiency = 0.5 * (0.5 + 0.367879441) + 0.5 * (0.5 + 0.904837418)
    assert found == {
        "total": pytest.approx(1 * efficiency * 1 * 1.1 + 0.1, abs=1e-6),
        "base": 1.0,
        "efficiency": pytest.approx(1.136358, abs=1e-6),
        "complexity": 1.0,
        "quality": 1.1,
        "learning": 0.1,
    }
    assert found["total"] == pytest.approx(1.349994, abs=1e-6)


def test_a_failure_is_worth_what_it_taught(episodes: Episodes) -> None:
    found = reward(episodes, step("a"), step("b", result="error"), ends=failed(), took=120)
    assert found["base"] == 0.0
    assert found["quality"] == 0.8
    assert found["total"] == found["learning"] == 0.1


@pytest.mark.parametrize(
    ("done", "undone", "base"),
    [(["x", "y", "z"], ["w"], 0.75), ([], ["w"], 0.0), (["x"], [], 1.0), ([], [], 0.5)],
)
def test_a_partial_success_is_worth_its_share(
    episodes: Episodes, done: list[str], undone: list[str], base: float
) -> None:
    found = reward(episodes, step("a"), ends=partly(done, undone), took=120)
    assert found["base"] == base
    assert found["total"] == pytest.approx(
        base * found["efficiency"] * found["quality"] + found["learning"], abs=2e-6
    )


@pytest.mark.parametrize(
    ("count", "took", "efficiency"),
    [
        (0, 0, 1.5),
        (1, 60, 0.5 * (0.5 + exp(-0.5)) + 0.5 * (0.5 + exp(-0.05))),
        (20, 120, 0.5 + exp(-1)),
        (40, 36_000, 0.5 + 0.5 * exp(-2)),
    ],
)
def test_the_quick_and_short_are_efficient(
    episodes: Episodes, count: int, took: float, efficiency: float
) -> None:
    found = reward(episodes, *[step("a")] * count, ends=succeeded(), took=took)
    assert found["efficiency"] == pytest.approx(efficiency, abs=1e-6)


@pytest.mark.parametrize(
    ("complexity", "factor"), [(None, 1.0), ("simple", 1.0), ("moderate", 1.1), ("complex", 1.2)]
)
def test_the_complex_counts_more(episodes: Episodes, complexity: str | None, factor: float) -> None:
    more = {} if complexity is None else {"complexity": complexity}
    assert reward(episodes, ends=succeeded(), took=60, **more)["complexity"] == factor


@pytest.mark.parametrize(
    ("results", "artifacts", "quality"),
    [
        ("..", [], 1.1),
        ("..", ["auth_test.rs"], 1.2),
        ("..", ["Coverage.html", "a", "b"], 1.25),
        ("..", ["a", "b", "c"], 1.15),
        ("x.........", [], 1.0),
        ("x....", [], 0.9),
        ("x.", [], 0.8),
        ("xx", [], 0.8),
        # Of what has no steps nobody knows whether one failed.
        ("", [], 1.0),
    ],
)
def test_quality_is_measured_by_artifacts_and_errors(
    episodes: Episodes, results: str, artifacts: list[str], quality: float
) -> None:
    steps = [step("a", result="error" if one == "x" else "success") for one in results]
    found = reward(episodes, *steps, ends=succeeded(artifacts=artifacts), took=60)
    assert found["quality"] == pytest.approx(quality)


@pytest.mark.parametrize(
    ("tools", "took", "ends", "learning"),
    [
        (["a"], 60, succeeded(), 0.0),
        (["a"], 10, succeeded(), 0.1),
        (["a"], 10, failed(), 0.0),
        (["a", "b"], 60, succeeded(), 0.1),
        (["a", "b", "c"], 60, succeeded(), 0.2),
        (["a", "b", "c", "d", "e"], 60, succeeded(), 0.25),
        # The sequence, the recovery of a by b, and the bonus for it.
        (["a!", "b", "b"], 60, succeeded(), 0.1 + 0.1 + 0.15),
        # 0.3 for patterns at most, 0.15 for tools, 0.15 for the recovery, 0.1 for speed: 0.5.
        (["a!", "b", "c!", "d", "e", "f", "g"], 10, succeeded(), 0.5),
    ],
)
def test_what_is_learned_is_worth_something(
    episodes: Episodes, tools: list[str], took: float, ends: Reply, learning: float
) -> None:
    steps = [step(one.rstrip("!"), result="error" if "!" in one else "success") for one in tools]
    found = reward(episodes, *steps, ends=ends, took=took)
    assert found["learning"] == pytest.approx(learning)


# --- reflection ----------------------------------------------------------------------------------


def test_a_reflection_is_drawn_from_the_steps(episodes: Episodes) -> None:
    one = episodes.ran(
        task("deploy"),
        step("build", "compile it", latency_ms=100),
        step("deploy", "push it", "timeout", latency_ms=1000),
        step("rollback", "restore the old one", latency_ms=100),
        ends=partly(["built"], ["deployed"]),
    )
    assert episodes.shown(one)["reflection"] == {
        "successes": [
            "some of it",
            "Completed: built",
            "rollback recovered from the failure of deploy: restore the old one",
        ],
        "improvements": [
            "Left to do: deployed",
            "deploy failed in 1 of 1 steps",
            "Step 2 (deploy) took 1000 ms, the median 100 ms",
        ],
        "insights": [
            "Tools in order: build → deploy → rollback",
            "3 steps, 33 % failed",
            "deploy took 83 % of the time of the steps",
        ],
        "generated_at": episodes.shown(one)["completed_at"],
    }


def test_a_failure_says_what_failed_and_nothing_good_of_it(episodes: Episodes) -> None:
    one = episodes.ran(
        task("deploy"),
        step("deploy", "push", "error"),
        ends=failed("no schema", error_details="column missing", verdict="nice try"),
    )
    found = episodes.shown(one)["reflection"]
    assert found["successes"] == []
    assert found["improvements"][0] == "Failed: no schema (column missing)"


def test_a_success_never_says_that_it_failed(episodes: Episodes) -> None:
    """Whatever else was told with it."""
    ends = succeeded(reason="the first try broke", failed=["docs"], completed=["code"])
    found = episodes.shown(episodes.ran(task("a"), step("a"), ends=ends))["reflection"]
    assert found["improvements"] == []
    assert found["successes"] == ["done", "The only step succeeded"]
    assert found["insights"] == ["Tools in order: a", "1 step, 0 % failed"]


def test_there_are_at_most_five_of_each(episodes: Episodes) -> None:
    steps = [step(f"t{n}", result="error") for n in range(9)]
    ends = partly([f"c{n}" for n in range(9)], [f"f{n}" for n in range(9)])
    found = episodes.shown(episodes.ran(task("much"), *steps, ends=ends))["reflection"]
    assert (len(found["successes"]), len(found["improvements"])) == (5, 5)
    assert len(found["insights"]) <= 5


# --- patterns ------------------------------------------------------------------------------------


def test_the_first_tools_of_a_run_are_a_sequence(episodes: Episodes) -> None:
    episodes.ran(task("x"), *(step(one) for one in "aabbcdefg"))
    found = episodes.pattern(SEQUENCE)
    assert found.tool_names == ["a", "b", "c", "d", "e"]
    assert found.description == "Tools in order: a → b → c → d → e"
    assert (found.domain, found.task_type) == ("deployment", "code_generation")


def test_a_run_whose_steps_mostly_fail_shows_no_sequence_unless_it_failed(
    episodes: Episodes,
) -> None:
    steps = [step("a", result="error"), step("b", result="error"), step("c")]
    episodes.ran(task("x"), *steps, ends=partly(["some"], ["more"]))
    assert episodes.patterns(SEQUENCE) == []
    episodes.ran(task("x"), *steps, ends=failed())
    assert episodes.pattern(SEQUENCE).success_rate == 0.0


@pytest.mark.parametrize(
    ("tool", "action", "is_one"),
    [
        ("shell", "Validate the schema", True),
        ("shell", "then verify that it runs", True),
        ("shell", "checking types", True),
        ("shell", "run the tests", True),
        ("schema_validator", "run on orders.sql", True),
        ("run_tests", "all of them", True),
        ("shell", "检查 配置", True),
        ("git", "checkout main", False),
        ("shell", "write a checkbox", False),
        ("shell", "fetch the latest testimonial", False),
    ],
)
def test_a_step_that_checks_is_a_decision_point(
    episodes: Episodes, tool: str, action: str, is_one: bool
) -> None:
    episodes.ran(task("x"), step(tool, action))
    assert [one.description for one in episodes.patterns(DECISION)] == (
        [f"{tool}: {action}"] if is_one else []
    )


def test_the_same_check_in_other_words_is_the_same(episodes: Episodes) -> None:
    """Which one is checked, and how a sentence is filled, does not tell two checks apart."""
    for action in ("Validate the schema 2", "validate schema of 7", "Schema: validate!"):
        episodes.ran(task("x"), step("shell", action))
    assert episodes.pattern(DECISION).occurrences == 3
    episodes.ran(task("x"), step("psql", "Validate the schema"))
    episodes.ran(task("x"), step("shell", "Validate the config"))
    assert [one.occurrences for one in episodes.patterns(DECISION)] == [3, 1, 1]


def test_a_check_done_again_and_again_leaves_room_for_others(episodes: Episodes) -> None:
    again = [step("shell", "check types")] * EpisodeRules().patterns_of_a_kind
    episodes.ran(task("x"), *again, step("shell", "validate schema"))
    assert [one.description for one in episodes.patterns(DECISION)] == [
        "shell: check types",
        "shell: validate schema",
    ]


def test_a_failed_step_with_a_good_one_right_after_is_a_recovery(episodes: Episodes) -> None:
    episodes.ran(
        task("x"),
        step("curl", result="timeout"),
        step("curl", "again", result="timeout"),
        step("cache", "take the old answer"),
        step("deploy", result="error"),
    )
    found = episodes.pattern(RECOVERY)
    assert found.tool_names == ["curl", "cache"]
    assert found.description == "When curl fails, cache: take the old answer"


def test_language_framework_and_complexity_are_a_context(episodes: Episodes) -> None:
    episodes.ran(task("x"), step("a"))
    assert episodes.patterns(CONTEXT) == []
    episodes.ran(task("x", language="Rust", framework="axum", complexity="complex"))
    episodes.ran(task("x", language="rust ", framework="Axum", complexity="complex"))
    found = episodes.pattern(CONTEXT)
    assert found.description == (
        "code generation in deployment with language Rust, framework axum, complexity complex"
    )
    assert found.occurrences == 2


def test_a_pattern_belongs_to_a_domain_and_a_type_of_task(episodes: Episodes) -> None:
    steps = [step("a"), step("b")]
    episodes.ran(task("x"), *steps)
    episodes.ran(task("x", "web-api"), *steps)
    episodes.ran(task("x", task_type="testing"), *steps)
    episodes.ran(task("x", tenant="rival"), *steps)
    assert [one.occurrences for one in episodes.patterns(SEQUENCE)] == [1, 1, 1, 1]


# --- evidence ------------------------------------------------------------------------------------


def test_a_second_episode_is_more_evidence_of_the_same_pattern(episodes: Episodes) -> None:
    steps = [step("a"), step("b")]
    episodes.ran(task("first"), *steps, ends=succeeded())
    episodes.ran(task("second", at_us=days(1)), *steps, ends=partly(["x"], ["y"]))
    found = episodes.pattern(SEQUENCE)
    assert (found.occurrences, found.successes, found.success_rate) == (2, 1.5, 0.75)
    assert found.first_at_us == seconds(60)
    assert found.last_at_us == days(1) + 60_000_000
    assert len(episodes.patterns()) == 1
    assert episodes.rebuilt().digest() == episodes.state.digest()


def test_a_deleted_episode_takes_its_evidence_with_it(episodes: Episodes) -> None:
    steps = [step("a"), step("b")]
    first = episodes.ran(task("first"), *steps, ends=failed())
    second = episodes.ran(task("second", at_us=days(1)), *steps, ends=succeeded())
    third = episodes.ran(task("third", at_us=days(2)), *steps, ends=succeeded())
    episodes.after(delete(first, at_us=days(3)))
    found = episodes.pattern(SEQUENCE)
    assert (found.occurrences, found.success_rate) == (2, 1.0)
    assert found.first_at_us == days(1) + 60_000_000
    episodes.after(delete(third, at_us=days(3)))
    assert episodes.pattern(SEQUENCE).last_at_us == days(1) + 60_000_000
    assert episodes.rebuilt().digest() == episodes.state.digest()
    episodes.after(delete(second, at_us=days(3)))
    assert episodes.patterns() == []
    assert episodes.state.view.all("SELECT * FROM evidence") == []
    assert episodes.rebuilt().digest() == episodes.state.digest()


def test_what_was_unlearned_is_learned_anew(episodes: Episodes) -> None:
    steps = [step("a"), step("b")]
    episodes.after(delete(episodes.ran(task("first"), *steps)))
    episodes.ran(task("second"), *steps)
    found = episodes.pattern(SEQUENCE)
    assert (found.id, found.occurrences) == (2, 1)


def test_the_same_run_earns_the_same_wherever_it_is_computed(episodes: Episodes) -> None:
    """A third of it succeeded: such shares are rounded once, before anything is added up."""
    one = episodes.ran(
        task("x", at_us=NOW_US), step("a"), step("b"), ends=partly(["x"], ["y", "z"])
    )
    assert episodes.episode(one).success == 0.333333
    assert episodes.pattern(SEQUENCE).successes == 0.333333
