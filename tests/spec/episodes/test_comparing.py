"""A few episodes side by side."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spec.given import Ask, ask, days
from tests.spec.given_episodes import (
    NOBODY,
    NOT_FOUND,
    VALIDATION,
    Episodes,
    failed,
    step,
    succeeded,
    task,
)


def compare(*episode_ids: str, **more: Any) -> Ask:
    return ask("batch_compare_episodes", episode_ids=list(episode_ids), **more)


@pytest.fixture
def two(episodes: Episodes) -> tuple[str, str]:
    """A quick success that validates, and a slow failure that does not."""
    good = episodes.ran(
        task("good"),
        step("build", latency_ms=100),
        step("validate", latency_ms=300),
        step("deploy"),
        ends=succeeded(),
        seconds=10,
    )
    bad = episodes.ran(
        task("bad", at_us=days(1)),
        step("build"),
        step("deploy", result="error"),
        step("rollback"),
        step("deploy", result="error"),
        ends=failed(),
        seconds=50,
    )
    return good, bad


def test_metrics_side_by_side(episodes: Episodes, two: tuple[str, str]) -> None:
    good, bad = two
    found = episodes.told(compare(good, bad))
    assert found["episodes_compared"] == 2
    duration, reward, steps = found["comparisons"]
    assert duration == {
        "metric": "duration",
        "better": "lower",
        "values": [
            {"episode_id": good, "value": 10_000},
            {"episode_id": bad, "value": 50_000},
        ],
        "best": {"episode_id": good, "value": 10_000},
        "worst": {"episode_id": bad, "value": 50_000},
        "mean": 30_000.0,
    }
    assert (reward["metric"], reward["better"]) == ("reward_score", "higher")
    assert (reward["best"]["episode_id"], reward["worst"]["episode_id"]) == (good, bad)
    assert (steps["metric"], steps["best"]["value"], steps["worst"]["value"]) == (
        "step_count",
        3,
        4,
    )


def test_the_metrics_that_are_asked_for(episodes: Episodes, two: tuple[str, str]) -> None:
    names = ["latency", "error_rate", "success_rate", "latency"]
    rows = episodes.told(compare(*two, compare_metrics=names))["comparisons"]
    assert [(row["metric"], [one["value"] for one in row["values"]]) for row in rows] == [
        ("latency", [200.0, None]),
        ("error_rate", [0.0, 0.5]),
        ("success_rate", [1.0, 0.0]),
    ]
    assert rows[0]["best"] == rows[0]["worst"] == {"episode_id": two[0], "value": 200.0}


def test_approaches_by_their_tools(episodes: Episodes, two: tuple[str, str]) -> None:
    assert episodes.told(compare(*two))["approach_comparison"] == {
        "approaches": [
            {
                "episode_id": two[0],
                "task_description": "good",
                "outcome": "success",
                "tool_sequence": ["build", "validate", "deploy"],
                "distinct_tools": ["validate"],
            },
            {
                "episode_id": two[1],
                "task_description": "bad",
                "outcome": "failure",
                "tool_sequence": ["build", "deploy", "rollback", "deploy"],
                "distinct_tools": ["rollback"],
            },
        ],
        "shared_tools": ["build", "deploy"],
        "common_start": ["build"],
    }


def test_insights_are_drawn_from_the_data(episodes: Episodes, two: tuple[str, str]) -> None:
    good, bad = two
    assert episodes.told(compare(bad, good, compare_metrics=["duration"]))["insights"] == [
        "1 of 2 completed episodes succeeded",
        "Every success used validate, no failure did",
        "Every failure used rollback, no success did",
        f"The lower duration in ms is better: 10,000 in {good}, 50,000 in {bad}, "
        "30,000.0 on average",
    ]


def test_what_is_not_asked_for_is_left_out(episodes: Episodes, two: tuple[str, str]) -> None:
    found = episodes.told(compare(*two, compare_approaches=False, generate_insights=False))
    assert (found["approach_comparison"], found["insights"]) == (None, [])


def test_episodes_that_go_on_and_have_no_steps(episodes: Episodes) -> None:
    ids = [episodes.begun(task("first")), episodes.begun(task("second"))]
    names = ["reward_score", "latency", "error_rate", "success_rate", "duration"]
    found = episodes.told(compare(*ids, compare_metrics=names))
    assert [(row["best"], row["mean"]) for row in found["comparisons"][:4]] == [(None, None)] * 4
    assert found["comparisons"][4]["mean"] == 0.0
    assert found["insights"] == ["None of the episodes has ended yet"]
    assert found["approach_comparison"]["shared_tools"] == []
    assert found["approach_comparison"]["common_start"] == []


def test_ten_can_be_compared(episodes: Episodes) -> None:
    ids = [episodes.ran(task(f"t{n}", at_us=days(n)), step("a"), seconds=n + 1) for n in range(10)]
    found = episodes.told(compare(*ids))
    assert found["episodes_compared"] == 10
    assert found["comparisons"][0]["mean"] == 5500.0
    assert found["insights"][0] == "10 of 10 completed episodes succeeded"


def test_the_same_twice_is_one(episodes: Episodes, two: tuple[str, str]) -> None:
    assert episodes.told(compare(two[0], two[1], two[0].upper()))["episodes_compared"] == 2
    episodes.when(compare(two[0], two[0])).then_refused_with(VALIDATION, field="episode_ids")


def test_what_is_not_there_is_not_found(episodes: Episodes, two: tuple[str, str]) -> None:
    episodes.when(compare(two[0], NOBODY)).then_refused_with(NOT_FOUND, id=NOBODY)
    episodes.when(compare(*two, tenant="rival")).then_refused_with(NOT_FOUND, id=two[0])


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (compare(NOBODY), "episode_ids"),
        (compare(*(f"{NOBODY[:-2]}{n:02}" for n in range(11))), "episode_ids"),
        (compare(), "episode_ids"),
        (compare("a", "b", compare_metrics=["beauty"]), "compare_metrics[0]"),
        (compare("a", "b", compare_metrics=[]), "compare_metrics"),
    ],
)
def test_what_cannot_be_taken_is_refused(episodes: Episodes, asked: Ask, field: str) -> None:
    episodes.when(asked).then_refused_with(VALIDATION, field=field)
