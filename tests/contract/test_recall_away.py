"""A recall whose vector store is away: words alone, and the mode says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mnemolog.events.codec import decode_decision
from mnemolog.events.robot import Recall
from mnemolog.projections.text.index import TantivyText
from mnemolog.projections.vectors.breaker import Breaker
from mnemolog.projections.vectors.tail import TailedVectors
from mnemolog.services.counted import Counted
from mnemolog.services.families.robot.answering.recall import Found, read_query, recall
from mnemolog.services.node.following.follow import feed_text, feed_vectors
from tests.contract.qdrant_local import LocalServer, away
from tests.families import FACTS, PROJECTED
from tests.spec.given import DIMS, MODEL, NORTH, Robot, at_cosine, learned


@pytest.fixture
def local() -> Iterator[LocalServer]:
    local = LocalServer()
    yield local
    local.stop()


class Node:
    """A state, a text index, and vectors on a server; two memories, one of which shares no word
    with the query but its direction."""

    def __init__(self, local: LocalServer, directory: Path) -> None:
        self.now = 0.0
        self.robot = Robot()
        self.text = TantivyText(directory)
        breaker = Breaker(pause_s=3.0, clock=lambda: self.now)
        self.vectors = TailedVectors(local.server(), DIMS, MODEL.name, breaker=breaker)
        self.vectors.checkpoint(0)
        self.robot.given(
            learned(1, "hold the cup gently", vector=at_cosine(0.2)),
            learned(2, "grip force fifteen newton", vector=NORTH),
        )
        for offset, data in enumerate(self.robot.log):
            decision = decode_decision(data)
            counted = Counted(offset, decision, FACTS.decode(decision.facts))
            feed_text(self.text, PROJECTED, 0, counted)
            feed_vectors(self.vectors, PROJECTED, MODEL.name, 0, counted)

    def recall(self, words: str, n: int = 5) -> Found:
        query = read_query("default/robot/default", Recall(query=words, n=n))
        vector = np.frombuffer(NORTH, np.float16)
        return recall(self.robot.state.view, self.text, self.vectors, lambda: vector, query)


def test_a_recall_goes_on_without_vectors_and_says_so(local: LocalServer, tmp_path: Path) -> None:
    node = Node(local, tmp_path)
    found = node.recall("cup")
    assert (set(found.ids), found.mode) == ({1, 2}, "hybrid")

    local.before = away()
    asked = [len(local.requests)]
    for _ in range(4):
        found = node.recall("cup")
        assert (found.ids, found.mode) == ([1], "bm25_only")
        asked.append(len(local.requests))
    assert asked[1] == asked[0] + 1
    assert asked[-1] == asked[1], "only the first one waited for the server"

    local.before = lambda name: None
    node.now += 4.0
    found = node.recall("cup")
    assert (set(found.ids), found.mode) == ({1, 2}, "hybrid")


def test_nothing_found_by_words_is_still_no_error(local: LocalServer, tmp_path: Path) -> None:
    node = Node(local, tmp_path)
    local.before = away()
    found = node.recall("zebra")
    assert (found.ids, found.mode) == ([], "bm25_only")
