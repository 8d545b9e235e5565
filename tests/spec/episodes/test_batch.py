"""Many episodes at once: a page of them with their statistics, and what their patterns come to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mnemolog.services.families.episodes.answering import batch
from tests.spec.given import Ask, ask, days
from tests.spec.given_episodes import (
    NOBODY,
    VALIDATION,
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


def query(**more: Any) -> Ask:
    return ask("batch_query_episodes", **more)


def analysis(domain: str = "deployment", **more: Any) -> Ask:
    return ask("batch_pattern_analysis", domain=domain, **more)


def shown(found: Reply) -> list[str]:
    return [row["task_description"] for row in found["episodes"]]


# --- batch_query_episodes ------------------------------------------------------------------------


@pytest.fixture
def four(episodes: Episodes) -> Episodes:
    """A success in 10 s, a partial one in 20 s, a failure in 30 s, and one that goes on."""
    episodes.ran(
        task("one", tags=["sql", "cloud"]), step("a"), step("b"), ends=succeeded(), seconds=10
    )
    episodes.ran(
        task("two", "web-api", "testing", tags=["sql"], at_us=days(1)),
        step("a"),
        ends=partly(["x"], ["y"]),
        seconds=20,
    )
    episodes.ran(task("three", at_us=days(2)), ends=failed(), seconds=30)
    episodes.begun(task("four", at_us=days(3)), step("a"), step("b"), step("c"))
    return episodes


def test_a_page_the_newest_first_and_statistics_of_all(four: Episodes) -> None:
    found = four.told(query(limit=2, offset=1))
    assert shown(found) == ["three", "two"]
    rewards = [four.shown(row["id"])["reward_score"] for row in four.told(query())["episodes"]]
    assert found["statistics"] == {
        "count": 4,
        "completed": 3,
        "success_rate": 0.5,
        "average_reward": pytest.approx(sum(one for one in rewards if one) / 3, abs=1e-4),
        "average_duration_ms": 20_000.0,
        "average_steps": 1.0,
        "by_outcome": {"active": 1, "failure": 1, "partial_success": 1, "success": 1},
    }
    rest = {name: found[name] for name in found if name not in ("episodes", "statistics")}
    assert rest == {
        "requested_count": 2,
        "found_count": 2,
        "total_count": 4,
        "not_found": [],
        "truncated": False,
        "next_offset": 3,
    }
    assert shown(four.told(query(limit=2, offset=3))) == ["one"]
    assert four.answer["next_offset"] is None
    assert four.told(query(offset=9))["episodes"] == []


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"domain": "web-api"}, ["two"]),
        ({"task_type": "code_generation"}, ["four", "three", "one"]),
        ({"tags": [" SQL"]}, ["two", "one"]),
        ({"tags": ["sql", "cloud"]}, ["one"]),
        ({"success_only": True}, ["one"]),
        ({"domain": "cooking"}, []),
        ({}, ["four", "three", "two", "one"]),
    ],
)
def test_only_those_that_the_filter_lets_pass(
    four: Episodes, wanted: Reply, names: list[str]
) -> None:
    found = four.told(query(filter=wanted))
    assert shown(found) == names
    assert found["statistics"]["count"] == found["total_count"] == len(names)


def test_by_their_ids_in_the_order_asked_for(four: Episodes) -> None:
    four_id, three, two, one = (row["id"] for row in four.told(query())["episodes"])
    found = four.told(query(episode_ids=[two, NOBODY, four_id.upper(), two, one]))
    assert shown(found) == ["two", "four", "one"]
    assert (found["requested_count"], found["found_count"]) == (4, 3)
    assert found["not_found"] == [NOBODY]
    assert found["statistics"]["count"] == 3
    page = four.told(query(episode_ids=[two, one, three], limit=1, offset=1))
    assert (shown(page), page["next_offset"], page["total_count"]) == (["one"], 2, 3)
    passed = four.told(query(episode_ids=[two, one], filter={"success_only": True}))
    assert (shown(passed), passed["not_found"]) == (["one"], [])
    none = four.told(query(episode_ids=[NOBODY]))
    assert (none["episodes"], none["statistics"]["count"]) == ([], 0)


def test_what_belongs_to_an_episode_is_shown_on_demand(four: Episodes) -> None:
    (row,) = four.told(query(filter={"tags": ["cloud"]}))["episodes"]
    assert [one["tool"] for one in row["steps"]] == ["a", "b"]
    assert "patterns" not in row and "reflection" not in row
    asked = query(
        filter={"tags": ["cloud"]},
        include_steps=False,
        include_patterns=True,
        include_reflections=True,
        aggregate_stats=False,
    )
    found = four.told(asked)
    (row,) = found["episodes"]
    assert "steps" not in row
    assert [one["tools"] for one in row["patterns"]] == [["a", "b"]]
    assert row["reflection"]["successes"] == ["done", "All 2 steps succeeded"]
    assert found["statistics"] is None
    assert found["total_count"] == 1


def test_a_page_that_grows_too_long_ends_early_and_says_where_to_go_on(
    episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "PAGE_BYTES", 20_000)
    for name in ("one", "two", "three"):
        episodes.begun(task(name), *[step("a", parameters={"x": "y" * 1000})] * 7)
    found = episodes.told(query())
    assert (shown(found), found["truncated"], found["next_offset"]) == (["three", "two"], True, 2)
    assert len(msgspec.json.encode(found)) < 21_000
    found = episodes.told(query(offset=2))
    assert (shown(found), found["truncated"], found["next_offset"]) == (["one"], False, None)
    assert episodes.told(query(include_steps=False))["truncated"] is False


def test_of_an_episode_that_is_too_long_alone_the_first_steps_are_shown(
    episodes: Episodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "PAGE_BYTES", 20_000)
    episodes.begun(task("short"), step("a"))
    episodes.begun(task("long"), *[step("a", parameters={"x": "y" * 1000})] * 60)
    found = episodes.told(query())
    (row,) = found["episodes"]
    assert (row["task_description"], row["steps_truncated"]) == ("long", True)
    assert [one["step_number"] for one in row["steps"]] == list(range(1, len(row["steps"]) + 1))
    assert 10 < len(row["steps"]) < 20
    assert (found["truncated"], found["next_offset"]) == (True, 1)
    assert "steps_truncated" not in episodes.told(query(offset=1))["episodes"][0]


def test_a_tenant_sees_its_own(four: Episodes) -> None:
    ids = [row["id"] for row in four.told(query())["episodes"]]
    found = four.told(query(episode_ids=ids, tenant="rival"))
    assert (found["episodes"], found["not_found"]) == ([], ids)
    assert four.told(query(tenant="rival"))["total_count"] == 0


# --- batch_pattern_analysis ----------------------------------------------------------------------


def ran(episodes: Episodes, tools: str, times: int, ends: Reply | None = None, **more: Any) -> None:
    for _ in range(times):
        episodes.ran(task("ship", **more), *(step(one) for one in tools.split()), ends=ends)


@pytest.fixture
def mixed(episodes: Episodes) -> Episodes:
    """`a b` succeeds 5 times of 5, `a c` 1 of 4, `a d` 1 of 2, `a e` was seen once."""
    ran(episodes, "a b", 5)
    ran(episodes, "a c", 3, failed())
    ran(episodes, "a c", 1, at_us=days(1))
    ran(episodes, "a d", 1, at_us=days(1))
    ran(episodes, "a d", 1, failed(), at_us=days(1))
    ran(episodes, "a e", 1, at_us=days(1), task_type="testing")
    ran(episodes, "x y", 3, domain="cooking", at_us=days(1))
    episodes.begun(task("goes on", at_us=days(1)), step("a"))
    return episodes


def told(rows: list[Reply]) -> list[tuple[str, int, float]]:
    return [(" ".join(row["tools"]), row["occurrences"], row["success_rate"]) for row in rows]


def test_what_leads_to_success_and_what_does_not(mixed: Episodes) -> None:
    found = mixed.told(analysis(min_episodes=2))
    assert found["episodes_analyzed"] == 12
    assert found["total_patterns_found"] == 3
    assert told(found["successful_patterns"]) == [("a b", 5, 1.0)]
    assert told(found["anti_patterns"]) == [("a c", 4, 0.25)]
    assert found["recommendations"] == [
        "Do: Tools in order: a → b — 100 % success in 5 episodes, 67 % in all",
        "Avoid: Tools in order: a → c — 25 % success in 4 episodes, 67 % in all",
    ]
    row = found["successful_patterns"][0]
    assert (row["success_rate_low"], row["success_rate_high"]) == (0.5655, 1.0)


def test_what_few_have_shown_does_not_count(mixed: Episodes) -> None:
    assert mixed.told(analysis())["total_patterns_found"] == 2
    assert mixed.told(analysis(min_episodes=5))["total_patterns_found"] == 1
    found = mixed.told(analysis(min_episodes=6))
    assert (found["total_patterns_found"], found["successful_patterns"]) == (0, [])
    assert found["recommendations"] == [
        "No pattern was seen in 6 or more of the 12 episodes yet: more of them, or a lower "
        "min_episodes, would tell more"
    ]


def test_a_pattern_is_never_both(mixed: Episodes) -> None:
    """Half is no anti-pattern, and a quarter is none to whom a quarter is enough."""
    found = mixed.told(analysis(min_episodes=2, min_success_rate=0.9))
    assert told(found["anti_patterns"]) == [("a c", 4, 0.25)]
    found = mixed.told(analysis(min_episodes=2, min_success_rate=0.25))
    assert told(found["successful_patterns"]) == [
        ("a b", 5, 1.0),
        ("a d", 2, 0.5),
        ("a c", 4, 0.25),
    ]
    assert found["anti_patterns"] == []
    assert mixed.told(analysis(include_anti_patterns=False))["anti_patterns"] == []


def test_of_a_type_of_task_and_at_most_so_many(mixed: Episodes) -> None:
    found = mixed.told(analysis(min_episodes=1, task_type="testing"))
    assert (found["episodes_analyzed"], told(found["successful_patterns"])) == (
        1,
        [("a e", 1, 1.0)],
    )
    found = mixed.told(analysis(min_episodes=1, min_success_rate=0, limit=2))
    assert (found["total_patterns_found"], len(found["successful_patterns"])) == (4, 2)


def test_where_nothing_stands_out(mixed: Episodes) -> None:
    ran(mixed, "p q", 2, partly(["x"], ["y"]), domain="dull", at_us=days(1))
    assert mixed.told(analysis("dull", min_episodes=2))["recommendations"] == [
        "None of the 1 patterns stands out from 50 % success in all"
    ]


def test_only_what_was_seen_within_the_time_is_evidence(mixed: Episodes) -> None:
    """The first eight ended a minute after the 4th began, the others a day later."""
    first_day = {"start": "2024-10-04", "end": "2024-10-05T00:00:00Z"}
    found = mixed.told(analysis(time_range=first_day))
    assert found["episodes_analyzed"] == 8
    assert told(found["anti_patterns"]) == [("a c", 3, 0.0)]
    found = mixed.told(analysis(time_range={"start": "2024-10-05T02:00:00+02:00"}, min_episodes=1))
    assert found["episodes_analyzed"] == 4
    assert told(found["successful_patterns"]) == [("a c", 1, 1.0), ("a e", 1, 1.0)]
    # From the start on and before the end.
    ended = "2024-10-04T00:01:00"
    found = mixed.told(analysis(time_range={"start": ended, "end": f"{ended}.000001"}))
    assert found["episodes_analyzed"] == 8
    assert mixed.told(analysis(time_range={"end": ended}))["episodes_analyzed"] == 0
    assert mixed.told(analysis(time_range={"start": "0001-01-01"}))["episodes_analyzed"] == 12


def test_what_is_deleted_is_no_evidence(mixed: Episodes) -> None:
    rows = mixed.told(query(filter={"domain": "deployment"}))["episodes"]
    gone = [row for row in rows if [one["tool"] for one in row["steps"]] == ["a", "c"]]
    mixed.after(*(delete(row["id"], at_us=days(2)) for row in gone))
    found = mixed.told(analysis(min_episodes=1))
    assert (found["episodes_analyzed"], found["anti_patterns"]) == (8, [])
    assert mixed.rebuilt().digest() == mixed.state.digest()


def test_where_nothing_is_known(episodes: Episodes) -> None:
    found = episodes.told(analysis())
    assert (found["episodes_analyzed"], found["total_patterns_found"]) == (0, 0)
    assert len(found["recommendations"]) == 1


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (query(limit=0), "limit"),
        (query(limit=1001), "limit"),
        (query(offset=-1), "offset"),
        (query(episode_ids=[]), "episode_ids"),
        (query(episode_ids=["x"] * 101), "episode_ids"),
        (query(filter={"task_type": "cooking"}), "filter.task_type"),
        (query(filter={"tags": ["x"]}), "filter.tags[0]"),
        (query(filter={"taste": "sweet"}), "filter"),
        (query(include_steps="no"), "include_steps"),
        (analysis(""), "domain"),
        (analysis(limit=0), "limit"),
        (analysis(min_episodes=0), "min_episodes"),
        (analysis(min_success_rate=2), "min_success_rate"),
        (analysis(task_type="cooking"), "task_type"),
        (analysis(time_range="today"), "time_range"),
        (analysis(time_range={"start": "yesterday"}), "time_range.start"),
        (analysis(time_range={"end": "2024-13-01"}), "time_range.end"),
        (analysis(time_range={"end": ""}), "time_range.end"),
        (analysis(time_range={"start": "2024-02-01", "end": "2024-02-01"}), "time_range.start"),
        (analysis(time_range={"start": "2024-02-02", "end": "2024-02-01Z"}), "time_range.end"),
        (analysis(time_range={"start": "2024-02-02", "end": "2024-02-01"}), "time_range.start"),
    ],
)
def test_what_cannot_be_taken_is_refused(episodes: Episodes, asked: Ask, field: str) -> None:
    episodes.begun(task("there is one", at_us=seconds(0)))
    episodes.when(asked).then_refused_with(VALIDATION, field=field)
