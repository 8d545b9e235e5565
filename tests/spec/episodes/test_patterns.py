"""Patterns analysed, searched and recommended."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest

from mnemolog.projections.ranking import wilson
from tests.spec.given import NORTH, Ask, ask, at_cosine, days
from tests.spec.given_episodes import (
    VALIDATION,
    Episodes,
    Reply,
    delete,
    failed,
    step,
    succeeded,
    task,
)


def analyze(task_type: str = "code_generation", **more: Any) -> Ask:
    return ask("analyze_patterns", task_type=task_type, **more)


def find(query: str, domain: str = "deployment", **more: Any) -> Ask:
    return ask("search_patterns", query=query, domain=domain, **more)


def recommend(description: str, domain: str = "deployment", **more: Any) -> Ask:
    return ask("recommend_patterns", task_description=description, domain=domain, **more)


def ran(
    episodes: Episodes, tools: str, times: int = 1, ends: Reply | None = None, **more: Any
) -> None:
    """Runs that use these tools, one after another."""
    for _ in range(times):
        episodes.ran(task("ship it", **more), *(step(one) for one in tools.split()), ends=ends)


def told(rows: list[Reply]) -> list[str]:
    return [" ".join(row["tools"]) for row in rows]


# --- how far evidence goes -----------------------------------------------------------------------


def test_one_lucky_run_does_not_beat_twenty() -> None:
    """By the tables for Wilson's interval: 1 of 1, 19 of 20, 0 of 10."""
    assert wilson.lower(1, 1) == pytest.approx(0.2065, abs=1e-4)
    assert wilson.lower(19, 20) == pytest.approx(0.7639, abs=1e-4)
    assert wilson.upper(0, 10) == pytest.approx(0.2775, abs=1e-4)
    assert wilson.lower(0, 10) == pytest.approx(0.0)
    assert wilson.upper(10, 10) == pytest.approx(1.0)
    assert (wilson.lower(0, 0), wilson.upper(0, 0)) == (0.0, 1.0)


# --- analyze_patterns ----------------------------------------------------------------------------


def test_the_patterns_of_a_type_of_task_the_surest_first(episodes: Episodes) -> None:
    ran(episodes, "lucky go")
    ran(episodes, "a b", times=19)
    ran(episodes, "a b", ends=failed())
    ran(episodes, "a bad", times=3, ends=failed())
    ran(episodes, "other kind", task_type="testing")
    found = episodes.told(analyze())
    assert told(found["patterns"]) == ["a b", "lucky go"]
    assert found["patterns"][0] == {
        "id": "pattern-2",
        "type": "ToolSequence",
        "description": "Tools in order: a → b",
        "success_rate": 0.95,
        "occurrences": 20,
        "domain": "deployment",
        "task_type": "code_generation",
        "tools": ["a", "b"],
        "tags": [],
        "first_seen": "2024-10-04T00:01:00Z",
        "last_seen": "2024-10-04T00:01:00Z",
        "effectiveness": 0.7639,
    }
    assert found["statistics"] == {
        "total_patterns": 2,
        "avg_success_rate": 0.975,
        "most_common_tools": [
            {"tool": "a", "patterns": 1},
            {"tool": "b", "patterns": 1},
            {"tool": "go", "patterns": 1},
            {"tool": "lucky", "patterns": 1},
        ],
    }


def test_the_statistics_are_of_all_and_not_only_of_those_shown(episodes: Episodes) -> None:
    for tools in ("a b", "a c", "a b a"):
        ran(episodes, tools)
    ran(episodes, "a d", ends=failed())
    found = episodes.told(analyze(limit=1, min_success_rate=0.0))
    assert len(found["patterns"]) == 1
    assert found["statistics"] == {
        "total_patterns": 4,
        "avg_success_rate": 0.75,
        "most_common_tools": [
            {"tool": "a", "patterns": 4},
            {"tool": "b", "patterns": 2},
            {"tool": "c", "patterns": 1},
            {"tool": "d", "patterns": 1},
        ],
    }


def test_a_rate_that_is_just_reached_is_reached(episodes: Episodes) -> None:
    """7 of 10 is 0.7, also to a machine."""
    ran(episodes, "a b", times=7)
    ran(episodes, "a b", times=3, ends=failed())
    assert told(episodes.told(analyze(min_success_rate=0.7))["patterns"]) == ["a b"]
    assert episodes.told(analyze(min_success_rate=0.71))["patterns"] == []


def test_where_nothing_was_learned_there_is_nothing_to_analyse(episodes: Episodes) -> None:
    nothing = {
        "patterns": [],
        "statistics": {"total_patterns": 0, "avg_success_rate": None, "most_common_tools": []},
    }
    assert episodes.told(analyze()) == nothing
    ran(episodes, "a b", tenant="rival")
    assert episodes.told(analyze()) == nothing


# --- search_patterns -----------------------------------------------------------------------------


@pytest.fixture
def searched(episodes: Episodes) -> Episodes:
    """Three sequences at a cosine of 0.9, 0.7 and 0.5 from `ship`, and with evidence of 1 run, 4
    and 9; the last is of another domain."""
    ran(episodes, "near by", tags=["sql", "Cloud"])
    ran(episodes, "half way", times=4)
    ran(episodes, "far off", times=9, domain="cooking")
    episodes.described(
        {
            "Tools in order: near": at_cosine(0.9),
            "Tools in order: half": at_cosine(0.7),
            "Tools in order: far": at_cosine(0.5),
        }
    )
    episodes.queries |= {"ship": NORTH, "ship it\ndeployment": NORTH}
    return episodes


def test_a_score_is_the_sum_of_its_parts(searched: Episodes) -> None:
    found = searched.told(find("ship", at_us=days(30), min_relevance=0.0))
    assert (found["total"], found["mode"]) == (3, "hybrid")
    assert told(found["patterns"]) == ["near by", "half way", "far off"]
    rows = {" ".join(row["tools"]): row for row in found["patterns"]}
    parts = rows["half way"]["score_parts"]
    assert parts == {
        "semantic": pytest.approx(0.5, abs=0.005),
        "context": 1.0,
        "effectiveness": pytest.approx(0.5101, abs=1e-4),
        "recency": pytest.approx(exp(-1), abs=1e-4),
        "success": 1.0,
    }
    assert rows["half way"]["relevance_score"] == pytest.approx(
        0.4 * parts["semantic"] + 0.2 + 0.2 * 0.5101 + 0.1 * exp(-1) + 0.1, abs=2e-4
    )
    assert rows["near by"]["score_parts"]["semantic"] == pytest.approx(1.0, abs=0.005)
    far = rows["far off"]["score_parts"]
    assert far["semantic"] == pytest.approx(0.0, abs=0.005)
    assert far["context"] == 0.0


def test_tags_weigh_in_the_context(searched: Episodes) -> None:
    found = searched.told(find("ship", tags=[" SQL", "rust"]))
    rows = {" ".join(row["tools"]): row["score_parts"]["context"] for row in found["patterns"]}
    assert rows == {"near by": 0.75, "half way": 0.5, "far off": 0.0}


def test_only_what_is_relevant_enough_or_of_the_domain(searched: Episodes) -> None:
    assert told(searched.told(find("ship", filter_by_domain=True))["patterns"]) == [
        "near by",
        "half way",
    ]
    assert told(searched.told(find("ship", min_relevance=0.5))["patterns"]) == [
        "near by",
        "half way",
    ]
    assert searched.told(find("ship", min_relevance=1.0))["patterns"] == []
    assert told(searched.told(find("ship", limit=1))["patterns"]) == ["near by"]
    found = searched.told(find("ship", "Cooking", filter_by_domain=True))
    assert told(found["patterns"]) == ["far off"]


def test_those_of_a_domain_are_found_behind_many_others(episodes: Episodes) -> None:
    """More of another domain are nearer than what is asked for at first."""
    for number in range(60):
        ran(episodes, f"t{number} go", domain="cooking")
    ran(episodes, "far off")
    vectors = {f"Tools in order: t{number} ": at_cosine(0.9) for number in range(60)}
    episodes.described({**vectors, "Tools in order: far": at_cosine(0.6)})
    episodes.queries["sail"] = NORTH
    found = episodes.told(find("sail", filter_by_domain=True, min_relevance=0.0))
    assert told(found["patterns"]) == ["far off"]


def test_without_a_model_words_tell(by_words: Episodes) -> None:
    by_words.ran(task("migrate the orders table"), step("psql"), step("deploy"))
    by_words.ran(task("bake a cake", "cooking"), step("oven"), step("plate"))
    found = by_words.told(find("migrate a table", limit=1))
    assert (told(found["patterns"]), found["mode"]) == (["psql deploy"], "bm25_only")
    assert found["patterns"][0]["score_parts"]["semantic"] == 1.0
    assert by_words.told(find("没有"))["patterns"] == []


def test_what_is_not_described_yet_is_found_by_its_words(searched: Episodes) -> None:
    ran(searched, "brand new")
    searched.queries["brand"] = NORTH
    rows = searched.told(find("brand"))["patterns"]
    assert rows[0]["tools"] == ["brand", "new"]
    assert rows[0]["score_parts"]["semantic"] == 1.0


def test_what_is_gone_is_not_found(episodes: Episodes) -> None:
    one = episodes.ran(task("x"), step("a"), step("b"))
    episodes.described({"Tools in order": NORTH}).queries["ship"] = NORTH
    assert told(episodes.told(find("ship"))["patterns"]) == ["a b"]
    episodes.after(delete(one))
    assert episodes.told(find("ship")) == {"patterns": [], "total": 0, "mode": "hybrid"}


def test_a_tenant_finds_its_own(searched: Episodes) -> None:
    assert searched.told(find("ship", tenant="rival"))["patterns"] == []


# --- recommend_patterns --------------------------------------------------------------------------


def test_what_did_well_is_recommended_and_says_why(searched: Episodes) -> None:
    found = searched.told(recommend("ship it", at_us=days(30)))
    assert (found["task_description"], found["domain"], found["total"]) == (
        "ship it",
        "deployment",
        2,
    )
    first, second = found["recommendations"]
    assert told([first, second]) == ["near by", "half way"]
    assert set(first["why"]) == {"semantic", "context", "effectiveness", "recency", "success"}
    why = second["why"]
    assert second["relevance_score"] == pytest.approx(
        0.35 * why["semantic"]
        + 0.25 * why["context"]
        + 0.25 * why["effectiveness"]
        + 0.1 * why["recency"]
        + 0.05 * why["success"],
        abs=2e-4,
    )


def test_what_mostly_fails_is_not_recommended(episodes: Episodes) -> None:
    """However near it is. Half of the time is enough."""
    ran(episodes, "a bad", times=2, ends=failed())
    ran(episodes, "a bad")
    ran(episodes, "a fair", ends=failed())
    ran(episodes, "a fair", ends=succeeded())
    episodes.described({"Tools": NORTH})
    episodes.queries["ship it\ndeployment"] = NORTH
    found = episodes.told(recommend("ship it", limit=10))
    assert told(found["recommendations"]) == ["a fair"]


def test_what_is_hardly_relevant_is_not_recommended(searched: Episodes) -> None:
    searched.queries["eat\neating"] = at_cosine(0.1, axis=4)
    assert searched.told(recommend("eat", "eating", at_us=days(100)))["recommendations"] == []


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (analyze(limit=0), "limit"),
        (analyze(limit=201), "limit"),
        (analyze(min_success_rate=2), "min_success_rate"),
        (analyze("cooking"), "task_type"),
        (ask("analyze_patterns"), "task_type"),
        (find("ship", limit=0), "limit"),
        (find("ship", limit=101), "limit"),
        (find("ship", min_relevance=-0.1), "min_relevance"),
        (find(" "), "query"),
        (find("ship", ""), "domain"),
        (find("ship", tags=["x"]), "tags[0]"),
        (find("ship", filter_by_domain="yes"), "filter_by_domain"),
        (recommend(""), "task_description"),
        (recommend("ship", limit=0), "limit"),
        (recommend("ship", tags=["ok", " "]), "tags[1]"),
        (ask("recommend_patterns", task_description="x"), "domain"),
    ],
)
def test_what_cannot_be_taken_is_refused(episodes: Episodes, asked: Ask, field: str) -> None:
    episodes.when(asked).then_refused_with(VALIDATION, field=field)
