"""query_memory and query_semantic_memory: past experiences for a task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spec.given import NORTH, Ask, at_cosine, days, unit
from tests.spec.given_episodes import (
    SERVER,
    VALIDATION,
    Episodes,
    add_step,
    complete,
    delete,
    query,
    semantic,
)

LOGIN, TOKENS, MENU = "Fix the login", "Renew JWT tokens", "Cook soup"
EAST = unit(0, 1)


@pytest.fixture
def episodes(tmp_path: Path) -> Iterator[Episodes]:
    """With three episodes, a day between them; they are in another order by duration, and by
    success."""
    found = Episodes(tmp_path)
    login = found.begun(LOGIN, at_us=days(0))
    tokens = found.begun(TOKENS, at_us=days(1), task_type="testing")
    menu = found.begun(MENU, at_us=days(2), domain="kitchen")
    found.after(
        add_step(login, 1, "reader", "Read the log", at_us=days(2)),
        add_step(login, 2, "editor", "Fix it", at_us=days(2)),
        add_step(menu, 1, "editor", "Write the menu", at_us=days(2)),
        complete(menu, "failure", at_us=days(2)),
        complete(tokens, "partial_success", at_us=days(3)),
        complete(login, at_us=days(4)),
    )
    yield found
    found.close()


def scores(episodes: Episodes, asked: Ask) -> dict[str, float]:
    rows = episodes.told(asked)["episodes"]
    return {one["task_description"]: one["relevance_score"] for one in rows}


# --- query_memory --------------------------------------------------------------------------------


def test_nothing_is_found_where_nothing_was_done(tmp_path: Path) -> None:
    nothing = Episodes(tmp_path)
    told = nothing.told(query("login"))
    assert (told["episodes"], told["total"], told["patterns"]) == ([], 0, [])
    assert told["insights"]["success_rate"] is None
    nothing.close()


def test_words_find_and_nothing_is_dropped_for_lacking_them(episodes: Episodes) -> None:
    told = episodes.told(query("soup"))
    assert [one["task_description"] for one in told["episodes"]] == [MENU, TOKENS, LOGIN]
    assert told["total"] == 3
    # Of what has none of the words, the domain's come first, the newest before the others.
    assert scores(episodes, query("soup")) == {MENU: 1.0, TOKENS: 0.0, LOGIN: 0.0}
    assert episodes.found(query("zebra", domain="kitchen"))[0] == MENU


def test_how_it_ended_is_found_too(episodes: Episodes) -> None:
    assert scores(episodes, query("access"))[MENU] == 1.0


def test_meaning_finds_what_words_do_not(episodes: Episodes) -> None:
    episodes.described({LOGIN: EAST, TOKENS: at_cosine(0.9), MENU: NORTH})
    episodes.queries["authentication"] = unit(0.1, 1)
    told = episodes.told(query("authentication"))
    assert told["mode"] == "hybrid"
    assert told["episodes"][0]["task_description"] == LOGIN
    assert told["episodes"][0]["relevance_score"] == 1.0


def test_what_is_not_described_yet_is_found_by_words(episodes: Episodes) -> None:
    episodes.queries["soup"] = NORTH
    assert episodes.found(query("soup"))[0] == MENU


def test_without_a_model_words_are_searched_alone(by_words: Episodes) -> None:
    for text in (MENU, LOGIN):
        by_words.begun(text)
    told = by_words.told(query("soup"))
    assert told["mode"] == "bm25_only"
    assert [one["task_description"] for one in told["episodes"]] == [MENU, LOGIN]


def test_vectors_that_are_away_are_done_without(episodes: Episodes) -> None:
    episodes.described({LOGIN: EAST, TOKENS: NORTH, MENU: NORTH})
    episodes.queries["soup"] = EAST
    episodes.away = True
    told = episodes.told(query("soup"))
    assert told["mode"] == "bm25_only"
    assert told["episodes"][0]["task_description"] == MENU


def test_the_domain_weighs_and_does_not_filter(by_words: Episodes) -> None:
    for domain in ("kitchen", "web-api", "garden"):
        by_words.begun("Water the plants", domain=domain)
    for domain in ("kitchen", " garden "):
        rows = by_words.told(query("plants", domain=domain))["episodes"]
        assert len(rows) == 3
        assert (rows[0]["domain"], rows[0]["relevance_score"]) == (domain.strip(), 1.0)
        assert all(0 < one["relevance_score"] < 1 for one in rows[1:])


def test_the_type_of_task_filters(episodes: Episodes) -> None:
    assert episodes.found(query("login", task_type="testing")) == [TOKENS]
    assert episodes.found(query("login", task_type="analysis")) == []
    assert episodes.found(query("soup", task_type="debugging")) == [MENU, LOGIN]


def test_a_type_of_task_that_is_rare_is_not_missed(by_words: Episodes) -> None:
    for number in range(120):
        by_words.begun(f"Test the login {number}", task_type="testing")
    by_words.begun("Draw something")
    assert by_words.found(query("test login", task_type="debugging")) == ["Draw something"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("relevance", [LOGIN, TOKENS, MENU]),
        ("newest", [MENU, TOKENS, LOGIN]),
        ("oldest", [LOGIN, TOKENS, MENU]),
        ("duration", [MENU, TOKENS, LOGIN]),
        ("success", [LOGIN, TOKENS, MENU]),
    ],
)
def test_the_order_asked_for(episodes: Episodes, sort: str, expected: list[str]) -> None:
    assert episodes.found(query("login", sort=sort)) == expected
    assert episodes.found(query("login", sort=sort, limit=2)) == expected[:2]


def test_what_is_not_completed_is_behind_what_failed(episodes: Episodes) -> None:
    episodes.begun("Sleep", at_us=days(5))
    found = episodes.found(query("login", sort="success", at_us=days(5)))
    assert found == [LOGIN, TOKENS, MENU, "Sleep"]


def test_as_many_as_asked_for(by_words: Episodes) -> None:
    for number in range(12):
        by_words.begun(f"Task {number}")
    assert len(by_words.found(query("task"))) == 10
    assert len(by_words.found(query("task", limit=1))) == 1
    assert len(by_words.found(query("other", limit=100))) == 12
    for wrong in (0, 101, True, "5"):
        by_words.when(query("task", limit=wrong))
        assert (by_words.reply["field"], by_words.decided.code) == ("limit", VALIDATION)


@pytest.mark.parametrize("name", ["query", "domain"])
def test_what_a_query_has_to_say(by_words: Episodes, name: str) -> None:
    by_words.when(query("task", **{name: None})).then_invalid(name, "Field is required", None)
    by_words.when(query("task", **{name: " "}))
    assert (by_words.reply["field"], by_words.reply["value"]) == (name, " ")


def test_the_reply_tells_steps_patterns_and_what_they_have_in_common(episodes: Episodes) -> None:
    told = episodes.told(query("login", domain="web-api"))
    (first, *_) = told["episodes"]
    assert first["context"] == LOGIN
    assert first["duration_ms"] == 4 * 86_400_000
    assert first["steps"] == [
        {
            "step_number": number,
            "tool": tool,
            "action": action,
            "result_type": None,
            "latency_ms": None,
        }
        for number, tool, action in ((1, "reader", "Read the log"), (2, "editor", "Fix it"))
    ]
    (pattern,) = told["patterns"]
    assert (pattern["type"], pattern["tools"]) == ("ToolSequence", ["reader", "editor"])
    insights = told["insights"]
    assert (insights["completed"], insights["success_rate"]) == (3, 0.5)
    assert insights["common_tools"] == [
        {"tool": "editor", "episodes": 2},
        {"tool": "reader", "episodes": 1},
    ]


def test_a_long_episode_is_told_briefly(by_words: Episodes) -> None:
    own = by_words.begun(LOGIN)
    for number in range(1, 31):
        given = {
            "parameters": {"x": "y" * 1000},
            "result": {"type": "success", "output": "z" * 1000},
        }
        by_words.after(add_step(own, number, "editor", "a" * 300, **given))
    (row,) = by_words.told(query("login"))["episodes"]
    assert row["step_count"] == 30
    assert [one["step_number"] for one in row["steps"]] == list(range(1, 21))
    assert all(one["action"] == "a" * 199 + "…" for one in row["steps"])
    assert row["steps"][0]["result_type"] == "success"


def test_what_was_deleted_is_not_found(episodes: Episodes) -> None:
    (menu,) = episodes.told(query("soup", limit=1))["episodes"]
    episodes.after(delete(menu["id"]))
    assert episodes.found(query("soup")) == [TOKENS, LOGIN]


# --- query_semantic_memory -----------------------------------------------------------------------


def test_meaning_alone_finds_what_is_near_enough(episodes: Episodes) -> None:
    episodes.described({LOGIN: NORTH, TOKENS: at_cosine(0.8), MENU: at_cosine(0.3)})
    episodes.queries["auth"] = NORTH
    told = episodes.told(semantic("auth"))
    rows = [(one["task_description"], one["similarity"]) for one in told["episodes"]]
    assert rows == [(LOGIN, 1.0), (TOKENS, pytest.approx(0.8, abs=0.002))]
    assert (told["total"], told["model"]) == (2, "spec-model")
    assert told["similarity_threshold"] == 0.7
    assert "pending" not in told
    assert episodes.found(semantic("auth", similarity_threshold=1.0)) == [LOGIN]
    assert episodes.found(semantic("auth", similarity_threshold=0.0)) == [LOGIN, TOKENS, MENU]
    assert episodes.found(semantic("auth", limit=1)) == [LOGIN]


def test_meaning_within_a_domain_or_a_type_of_task(episodes: Episodes) -> None:
    episodes.described(dict.fromkeys((LOGIN, TOKENS, MENU), NORTH))
    episodes.queries["auth"] = NORTH
    assert episodes.found(semantic("auth", domain=" kitchen ")) == [MENU]
    assert episodes.found(semantic("auth", task_type="testing")) == [TOKENS]
    assert episodes.found(semantic("auth", domain="kitchen", task_type="testing")) == []


def test_what_few_are_is_found_behind_many_that_are_nearer(tmp_path: Path) -> None:
    found = Episodes(tmp_path)
    for _ in range(30):
        found.begun(LOGIN)
    found.begun(MENU, domain="kitchen")
    found.described({LOGIN: NORTH, MENU: at_cosine(0.9)})
    found.queries["auth"] = NORTH
    assert found.found(semantic("auth", domain="kitchen", limit=1)) == [MENU]
    found.close()


def test_what_has_no_vector_yet_is_counted(episodes: Episodes) -> None:
    episodes.described({LOGIN: NORTH})
    episodes.begun("Sleep", at_us=days(5))
    episodes.queries["auth"] = NORTH
    told = episodes.told(semantic("auth", at_us=days(5)))
    assert [one["task_description"] for one in told["episodes"]] == [LOGIN]
    assert told["pending"] == 1


def test_what_is_deleted_is_not_found_by_meaning(episodes: Episodes) -> None:
    episodes.described({LOGIN: NORTH, TOKENS: NORTH, MENU: EAST})
    episodes.queries["auth"] = NORTH
    (newest, *_) = episodes.told(semantic("auth"))["episodes"]
    assert newest["task_description"] == TOKENS
    episodes.after(delete(newest["id"]))
    assert episodes.found(semantic("auth")) == [LOGIN]


def test_meaning_needs_a_model(by_words: Episodes) -> None:
    by_words.when(semantic("auth")).then_nothing_changed()
    assert by_words.decided.code == SERVER
    assert "query_memory needs none" in by_words.reply["details"]


def test_meaning_needs_a_model_that_is_installed(episodes: Episodes) -> None:
    episodes.installed = False
    episodes.when(semantic("auth")).then_nothing_changed()
    assert "mnemolog models pull spec-model" in episodes.reply["error"]


def test_meaning_needs_vectors_and_a_script_that_is_covered(episodes: Episodes) -> None:
    episodes.when(semantic("认证")).then_invalid(
        "query", "is in a script that spec-model does not cover; query_memory takes words", "认证"
    )
    episodes.queries["auth"] = NORTH
    episodes.away = True
    episodes.when(semantic("auth")).then_server_error(
        "The vector store does not answer; try again soon. query_memory searches by words meanwhile"
    )


def test_another_tenants_episodes_are_not_found(tmp_path: Path) -> None:
    found = Episodes(tmp_path)
    found.begun(LOGIN)
    assert found.found(query("login", tenant="rival")) == []
    found.queries["auth"] = NORTH
    found.described({LOGIN: NORTH})
    assert found.found(semantic("auth", tenant="rival")) == []
    found.close()
