"""What twenty runs know that nobody told: those that validate the schema before deploying succeed,
those that deploy straight away fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spec.given import MODEL, NORTH, Ask, ask, at_cosine, days
from tests.spec.given_episodes import Episodes, delete, failed, step, succeeded, task

SERVICES = (
    "orders",
    "billing",
    "users",
    "search",
    "mail",
    "stock",
    "carts",
    "audit",
    "login",
    "tax",
)
CHECK = "psql: Validate the schema against the new version"
STRAIGHT = "Tools in order: build → deploy"
CAREFUL = "Tools in order: build → psql → deploy"
NEW_TASK = "Roll out version 9 of the invoices service"


def recommend(**more: Any) -> Ask:
    return ask(
        "recommend_patterns", task_description=NEW_TASK, domain="deployment", at_us=days(21), **more
    )


def analysis(**more: Any) -> Ask:
    return ask("batch_pattern_analysis", domain="deployment", at_us=days(21), **more)


def lived(episodes: Episodes) -> dict[bool, list[str]]:
    """Twenty runs, a day apart, careful ones and others in turn; and some of another trade."""
    ids: dict[bool, list[str]] = {True: [], False: []}
    check = step("psql", "Validate the schema against the new version")
    for day in range(20):
        careful = day % 2 == 0
        steps = [step("build", "compile"), *([check] if careful else []), step("deploy", "push")]
        ends = succeeded("live") if careful else failed("a column is missing")
        asked = task(f"Deploy the {SERVICES[day // 2]} service", language="go", at_us=days(day))
        ids[careful].append(episodes.ran(asked, *steps, ends=ends))
    for day in range(3):
        episodes.ran(task("Bake a cake", "cooking", at_us=days(day)), step("mix"), step("oven"))
    return ids


@pytest.fixture(params=["hybrid", "bm25_only"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Episodes]:
    """With a model, and without."""
    episodes = Episodes(tmp_path, model=MODEL if request.param == "hybrid" else None)
    yield episodes
    episodes.close()


def described(world: Episodes) -> None:
    """Tasks of deploying are all at a cosine of 0.75 from the new one, but for a cake."""
    if world.model is not None:
        world.described({"Tools in order: mix": at_cosine(0.52), "": at_cosine(0.75)})
        world.queries[f"{NEW_TASK}\ndeployment"] = NORTH


def test_a_hidden_regularity_is_found_and_unlearned(world: Episodes) -> None:
    ids = lived(world)
    described(world)

    advised = world.told(recommend())
    assert advised["mode"] == ("bm25_only" if world.model is None else "hybrid")
    names = [one["description"] for one in advised["recommendations"]]
    # What all of them have in common, the language, does no better than chance and comes last.
    assert set(names[:2]) == {CHECK, CAREFUL}
    assert STRAIGHT not in names
    assert advised["recommendations"][0]["occurrences"] == 10
    assert advised["recommendations"][0]["why"]["success"] == 1.0

    found = world.told(analysis())
    assert found["episodes_analyzed"] == 20
    assert {one["description"] for one in found["successful_patterns"]} == {CHECK, CAREFUL}
    assert [one["description"] for one in found["anti_patterns"]] == [STRAIGHT]
    assert (
        f"Avoid: {STRAIGHT} — 0 % success in 10 episodes, 50 % in all" in found["recommendations"]
    )
    compared = world.told(
        ask("batch_compare_episodes", episode_ids=[ids[True][0], ids[False][0]], at_us=days(21))
    )
    assert "Every success used psql, no failure did" in compared["insights"]
    assert world.rebuilt().digest() == world.state.digest()

    for one in ids[False]:
        world.after(delete(one, at_us=days(22)))
    found = world.told(analysis())
    assert (found["episodes_analyzed"], found["anti_patterns"]) == (10, [])
    assert STRAIGHT not in [one.description for one in world.patterns()]

    for one in ids[True]:
        world.after(delete(one, at_us=days(22)))
    assert world.told(analysis())["total_patterns_found"] == 0
    assert world.told(recommend())["recommendations"] == []
    assert [one.domain for one in world.patterns()] == ["cooking"]
    assert world.rebuilt().digest() == world.state.digest()
