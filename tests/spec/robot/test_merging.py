"""Merging finds what comparing every memory with every other would find, with fewer comparisons."""

from __future__ import annotations

import random
from collections.abc import Set
from itertools import combinations, islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemolog.events.robot import MemoriesConsolidated
from mnemolog.projections.language import jaccard, token_set
from mnemolog.projections.robot.state import Brief
from mnemolog.services.families.robot.deciding import merging
from mnemolog.services.families.robot.deciding.merging import Merge, merge
from mnemolog.services.families.robot.rules import RobotRules
from tests.spec.given import NORTH, S1, Robot, at_cosine, end_session, learned, started

WORDS = [f"word{chr(97 + n)}" for n in range(14)]


def brief(number: int, content: str, category: str = "code", confidence: float = 0.8) -> Brief:
    return Brief(number, "fact", content, category, confidence, number, 0)


def plainly(eligible: list[Brief], rules: RobotRules) -> list[Merge]:
    """Each with each, the most trusted first."""
    waiting = sorted(
        eligible,
        key=lambda one: (one.confidence, one.access_count, one.created_at_us, one.id),
        reverse=True,
    )
    merges = []
    while waiting:
        kept, *rest = waiting
        close = {
            one.id: similarity
            for one in sorted(rest, key=lambda one: one.id)
            if one.category == kept.category
            and (similarity := jaccard(token_set(kept.content), token_set(one.content)))
            > rules.consolidate_jaccard
        }
        if close:
            merges.append(Merge(kept.id, list(close), list(close.values())))
        waiting = [one for one in rest if one.id not in close]
    return merges


class Comparisons:
    """Counts how often two memories are compared."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        patch.setattr(merging, "jaccard", self)

    def __call__(self, a: Set[str], b: Set[str]) -> float:
        self.count += 1
        return jaccard(a, b)


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(WORDS), max_size=10, unique=True),
            st.sampled_from(["code", "pattern"]),
            st.sampled_from([0.6, 0.8]),
        ),
        min_size=3,
        max_size=25,
    ),
    st.sampled_from([0.0, 0.1, 0.3, 1 / 3, 0.5, 0.6, 2 / 3, 0.7, 0.8, 0.9, 0.99, 1.0]),
)
@example([(WORDS[:10], "code", 0.8), (WORDS[:7], "code", 0.8), ([], "code", 0.8)], 0.7)
@example([(WORDS[:4], "code", 0.8), (WORDS[:7], "code", 0.8), (WORDS[8:], "code", 0.8)], 0.5)
def test_it_merges_what_comparing_all_would(
    said: list[tuple[list[str], str, float]], above: float
) -> None:
    eligible = [
        brief(number, " ".join(words), category, confidence)
        for number, (words, category, confidence) in enumerate(said, start=1)
    ]
    rules = RobotRules(consolidate_jaccard=above)
    assert merge(eligible, rules) == plainly(eligible, rules)


def test_memories_that_share_only_common_words_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparisons = Comparisons(monkeypatch)
    eligible = [brief(n, f"grip the cup part{n} bolt{n} screw{n // 2}x") for n in range(1, 2001)]
    assert merge(eligible, RobotRules()) == []
    assert comparisons.count <= 1000


def test_few_words_are_compared_so_often_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of memories of the same few words, hardly any of them similar enough."""
    comparisons = Comparisons(monkeypatch)
    contents = [" ".join(one) for one in islice(combinations(WORDS, 5), 2000)]
    eligible = [brief(n, content) for n, content in enumerate(contents * 2, start=1)]
    rules = RobotRules(consolidate_jaccard=0.7, consolidate_comparisons=50_000)
    merges = merge(eligible, rules)
    assert 40_000 < comparisons.count <= 50_000
    whole = merge(eligible, RobotRules(consolidate_jaccard=0.7, consolidate_comparisons=10**9))
    assert merges
    assert merges == whole[: len(merges)], "what is merged is merged as without a limit"
    assert len(merges) < len(whole)


def test_a_session_of_thousands_ends(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few different words, and nearly no two memories that are similar: all remain to the end."""
    comparisons = Comparisons(monkeypatch)
    some = random.Random(1)
    words = [f"word{one}{two}" for one in "abcdefghij" for two in "abcdefghij"]
    contents = [" ".join(some.sample(words, 12)) for _ in range(2500)]
    robot.given(
        started(S1),
        *(learned(n, one, session=S1) for n, one in enumerate(contents, start=1)),
        learned(2501, contents[0], session=S1, confidence=0.9),
    ).when(end_session(S1))
    assert robot.reply["summary"]["memory_count"] == 2501
    most = RobotRules().consolidate_comparisons
    assert most * 0.9 < comparisons.count <= most, "each with each would be three million"
    assert robot.decision is not None
    merged = [one for one in robot.decode(robot.decision) if isinstance(one, MemoriesConsolidated)]
    assert merged[0] == MemoriesConsolidated(session_id=S1, kept=2501, superseded=[1])


def test_what_is_related_is_told_by_the_newest() -> None:
    robot = Robot(RobotRules(related_from=2)).given(
        started(S1),
        learned(1, "alpha bravo", vector=at_cosine(0.1, axis=2)),
        learned(2, "charlie delta", vector=NORTH),
        learned(3, "alpha echo", session=S1, vector=at_cosine(0.1, axis=2)),
        learned(4, "charlie foxtrot", session=S1, vector=NORTH),
        learned(5, "charlie golf", session=S1, vector=NORTH),
    )
    robot.when(end_session(S1))
    assert [one["id"] for one in robot.reply["related_memories"]] == [2, 1]
    assert [one["_rrf_score"] for one in robot.reply["related_memories"]] == [1.0, 0.4919]


def test_all_of_a_sessions_own_are_left_out() -> None:
    robot = Robot(RobotRules(related_from=1)).given(
        started(S1),
        *(learned(n, f"alpha word{n}", session=S1, vector=NORTH) for n in range(1, 40)),
        learned(40, "alpha bravo", vector=at_cosine(0.5)),
    )
    robot.when(end_session(S1))
    assert [one["id"] for one in robot.reply["related_memories"]] == [40]
