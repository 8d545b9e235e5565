"""recall is answered by a gateway; what it returned counts as accessed."""

from __future__ import annotations

from typing import Any

import pytest

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Refusal
from mnemolog.events.robot import MemoriesRecalled, Recall
from mnemolog.services.families.robot.answering.recall import read_query
from tests.spec.given import (
    S1,
    Robot,
    ask,
    days,
    ended,
    forgotten,
    learn,
    learned,
    perceived,
    recall,
    started,
    superseded,
)


def test_what_was_returned_counts_as_accessed(robot: Robot) -> None:
    robot.given(learned(1, "one"), perceived(2, "two cups"), learned(3, "three")).when(
        recall("cups", returned=[2, 1], at_us=days(2))
    ).then(MemoriesRecalled(memory_ids=[2, 1]))
    assert [robot.memory(n).access_count for n in (1, 2, 3)] == [1, 1, 0]
    assert [robot.memory(n).accessed_at_us for n in (1, 2, 3)] == [days(2), days(2), None]
    robot.when(recall("cups", returned=[1], at_us=days(3)))
    assert (robot.memory(1).access_count, robot.memory(1).accessed_at_us) == (2, days(3))


def test_the_record_says_what_was_returned(robot: Robot) -> None:
    robot.given(learned(1, "one")).when(
        recall("cups", returned=[1, 7], mode="bm25_only")
    ).then_reply({"ids": [1, 7], "mode": "bm25_only"})


def test_nothing_returned_is_no_fact(robot: Robot) -> None:
    robot.given(learned(1, "one")).when(recall("cups", returned=[])).then().then_nothing_changed()


def test_only_active_memories_of_the_space_count(robot: Robot) -> None:
    robot.given(
        learned(1, "one"),
        learned(2, "two"),
        learned(3, "three"),
        learned(4, "four", collection="kitchen"),
        learned(5, "five", tenant="rival"),
        forgotten(2),
        superseded(3, by=1),
    ).when(recall("cups", returned=[1, 2, 3, 4, 5, 6])).then(MemoriesRecalled(memory_ids=[1]))
    robot.when(recall("cups", returned=[1, 4], collection="kitchen")).then(
        MemoriesRecalled(memory_ids=[4])
    )


def test_an_ended_session_may_be_asked_for(robot: Robot) -> None:
    robot.given(started(S1), learned(1, "one", session=S1), ended(S1)).when(
        recall("cups", returned=[1], session_id=S1)
    ).then(MemoriesRecalled(memory_ids=[1]))


def test_a_recall_has_no_outcome_to_repeat(robot: Robot) -> None:
    robot.given(learned(1, "one"))
    for _ in range(2):
        robot.when(recall("cups", returned=[1], key="k")).then(MemoriesRecalled(memory_ids=[1]))
    assert robot.state.view.all("SELECT * FROM outcome") == []


def test_a_key_that_a_write_used_does_not_keep_a_recall_from_counting(robot: Robot) -> None:
    robot.when(learn("one", key="k"))
    robot.when(recall("cups", returned=[1], key="k")).then(MemoriesRecalled(memory_ids=[1]))


def test_a_recall_nobody_answered_is_refused(robot: Robot) -> None:
    robot.given(learned(1, "one")).when(ask("recall", query="cups")).then_refused(
        "A read is answered by a gateway; this call was recorded without its answer"
    )


def test_a_recall_that_should_not_have_been_answered_counts_for_nothing(robot: Robot) -> None:
    robot.given(learned(1, "one"))
    robot.when(recall("cups", returned=[1], n=0)).then_refused(
        "n must be a whole number from 1 to 100, not 0"
    )
    robot.when(recall("cups", returned=[1], min_confidence=1.1)).then_refused(
        "min_confidence must be a number from 0.0 to 1.0, not 1.1"
    )


def test_a_recall_that_was_refused_is_recorded_with_the_sentence_its_caller_got(
    robot: Robot,
) -> None:
    refused = Refusal("context_filter has an empty path; use one such as task.success")
    robot.given(learned(1, "one")).when(ask("recall", query="cups", refused=refused)).then_refused(
        "context_filter has an empty path; use one such as task.success"
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"query": "  "}, "query must not be empty: say what to look for"),
        (
            {"context_filter": {f"a.b{i}": 1 for i in range(11)}},
            "context_filter has 11 conditions; at most 10 are allowed",
        ),
        (
            {"context_filter": '{"a": {"$in": [1]}}'},
            "context_filter knows the operators $lt, $lte, $gt, $gte, $ne, not '$in'",
        ),
        (
            {"spatial_sort": '{"target": [1]}'},
            "spatial_sort needs field, a path such as spatial.object_position",
        ),
    ],
)
def test_what_a_recall_is_refused_for(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        read_query("default/robot/default", Recall(**{"query": "cups", **given}))
    assert refused.value.sentence == sentence
