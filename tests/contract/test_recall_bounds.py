"""What one recall may take of memory, and what it says when that is not enough."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mnemolog.events.arguments import Refused
from mnemolog.events.codec import decode_decision
from mnemolog.events.robot import Recall
from mnemolog.projections.text.index import TantivyText
from mnemolog.services.counted import Counted
from mnemolog.services.families.robot.answering import judging
from mnemolog.services.families.robot.answering import recall as answering
from mnemolog.services.families.robot.answering.recall import Found, read_query, recall
from mnemolog.services.node.following.follow import feed_text
from tests.families import FACTS, PROJECTED
from tests.spec.given import Given, Robot, learned

MEBIBYTE = 1024 * 1024
NOTHING = {"task.name": "none"}


class Memories:
    """A state and a text index with these memories."""

    def __init__(self, directory: Path, given: Sequence[Given]) -> None:
        self.robot = Robot().given(*given)
        self.text = TantivyText(directory)
        for offset, data in enumerate(self.robot.log):
            decision = decode_decision(data)
            counted = Counted(offset, decision, FACTS.decode(decision.facts))
            feed_text(self.text, PROJECTED, 0, counted)

    def recall(self, **asked: Any) -> Found:
        query = read_query("default/robot/default", Recall(query="cup", **asked))
        return recall(self.robot.state.view, self.text, None, None, query)


def lists(size: int, **more: Any) -> str:
    """A context of about that many characters that takes some twenty times as much when parsed."""
    return json.dumps({"params": [[]] * (size // 4), **more})


def cups(count: int, context: str) -> list[Given]:
    return [learned(n, f"cup number {n} here", context=context) for n in range(1, count + 1)]


def test_contexts_are_looked_at_one_at_a_time(tmp_path: Path) -> None:
    memories = Memories(tmp_path, cups(30, lists(MEBIBYTE // 8, env={"sim_or_real": "real"})))
    tracemalloc.start()
    try:
        found = memories.recall(n=10, context_filter=NOTHING)
        at_most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.ids == []
    assert at_most < 12 * MEBIBYTE, "a few of them, not thirty"


def test_past_the_budget_a_recall_says_what_to_narrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = lists(1000)
    memories = Memories(tmp_path, cups(40, context))
    # Deeper and deeper searches find the same memories again: each is counted once.
    monkeypatch.setattr(judging, "MAX_CONTEXT_CHARACTERS", 40 * len(context))
    assert memories.recall(n=1, context_filter=NOTHING).ids == []
    monkeypatch.setattr(judging, "MAX_CONTEXT_CHARACTERS", 40 * len(context) - 1)
    sentence = (
        f"^This recall would look at more than {40 * len(context) - 1:,} characters of contexts: "
        "it has looked at 39 memories, and there are more. Narrow it: "
    )
    with pytest.raises(Refused, match=sentence):
        memories.recall(n=1, context_filter=NOTHING)
    with pytest.raises(Refused, match=sentence):
        memories.recall(n=100, spatial_sort={"field": "a", "target": [1]})
    assert len(memories.recall(n=40).ids) == 40, "no context was needed to find them"


def test_what_does_not_fit_an_answer_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = lists(1000)
    memories = Memories(tmp_path, cups(10, context))
    monkeypatch.setattr(answering, "MAX_SHOWN_CHARACTERS", 9 * len(context))
    with pytest.raises(Refused, match=r"^The 10 memories that this recall found have more than"):
        memories.recall(n=10)
    assert len(memories.recall(n=9).ids) == 9


def test_a_context_from_before_there_was_a_limit_is_shown(tmp_path: Path) -> None:
    context = json.dumps({"task": {"name": "x" * MEBIBYTE}})
    [shown] = Memories(tmp_path, cups(1, context)).recall().memories
    assert shown["context"] == context
    assert shown["task"] == {"name": "x" * MEBIBYTE}


def test_filters_hold_for_each_memory_by_its_own_context(tmp_path: Path) -> None:
    """More memories than one query of the state asks for."""
    given = [
        learned(
            n,
            f"cup number {n} here",
            confidence=0.2 if n % 7 == 0 else 0.8,
            context=json.dumps({"task": {"name": n % 3}, "at": [n, 0]}),
        )
        for n in range(1, 1201)
    ]
    found = Memories(tmp_path, given).recall(
        n=100,
        context_filter={"task.name": 1},
        spatial_sort={"field": "at", "target": [1200, 0], "max_distance": 500},
    )
    fitting = [n for n in range(1200, 699, -1) if n % 3 == 1 and n % 7]
    assert found.ids == fitting[:100]
    assert [one["_distance"] for one in found.memories] == [1200 - n for n in fitting[:100]]
