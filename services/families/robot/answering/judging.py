"""Which of the memories that a recall's searches found are shown, and in which order."""

from __future__ import annotations

from contextlib import closing

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.projections.ranking.fusion import fuse, source_weight
from mnemolog.projections.robot import state
from mnemolog.projections.state.view import View
from mnemolog.services.families.robot.answering.filters import (
    Condition,
    SpatialSort,
    read_context,
)

MAX_CONTEXT_CHARACTERS = 64 * 1024 * 1024
"""What one recall looks at of contexts. Others wait for the thread that parses them."""


class Query(msgspec.Struct, frozen=True):
    """A recall that has been checked."""

    text: str
    space: str
    n: int
    min_confidence: float
    session: str | None
    conditions: list[Condition]
    spatial: SpatialSort | None


class Judgement(msgspec.Struct):
    """What is kept of a memory that was looked at; `passes` when it may be shown."""

    id: int
    version: int
    weight: float
    passes: bool
    distance: float | None = None
    score: float = 0.0


class Judged:
    """The memories that one recall has looked at, each once, however often it is found.

    Of a context nothing is kept but what it says about the query: hundreds of large ones, parsed,
    would not fit into memory.
    """

    def __init__(self, view: View, query: Query) -> None:
        self._view = view
        self._query = query
        self._space = view.space_id(query.space)
        self._asked: set[int] = set()
        self._rows: dict[int, Judgement] = {}
        self._characters = 0

    def keep(self, legs: list[list[tuple[int, int]]]) -> list[Judgement]:
        """The candidates (ids with versions) that the state lets pass, in the order they are shown.
        `Refused` when there is too much to look at."""
        self._look({number for leg in legs for number, _ in leg})
        rows = self._rows
        ranked = [
            [
                number
                for number, version in leg
                if number in rows and version in (0, rows[number].version)
            ]
            for leg in legs
        ]
        kept = []
        for number, score in fuse(ranked, {one.id: one.weight for one in rows.values()}):
            row = rows[number]
            if row.passes:
                row.score = score
                kept.append(row)
        return kept if self._query.spatial is None else _by_distance(kept, self._query.spatial)

    def _look(self, wanted: set[int]) -> None:
        numbers = sorted(wanted - self._asked)
        self._asked.update(numbers)
        if self._space is None:
            return
        asked = bool(self._query.conditions) or self._query.spatial is not None
        found = state.candidates(self._view, self._space, numbers, contexts=asked)
        with closing(found) as rows:
            for one in rows:
                self._characters += len(one.context)
                if self._characters > MAX_CONTEXT_CHARACTERS:
                    raise self._too_much()
                self._rows[one.id] = self._judge(one)

    def _judge(self, one: state.Candidate) -> Judgement:
        query = self._query
        passes = one.confidence >= query.min_confidence and query.session in (None, one.session)
        judged = Judgement(one.id, one.version, source_weight(one.context), passes)
        if passes and (query.conditions or query.spatial is not None):
            context = read_context(one.context)
            judged.passes = all(condition.holds(context) for condition in query.conditions)
            if query.spatial is not None:
                judged.distance = query.spatial.distance(context)
        return judged

    def _too_much(self) -> Refused:
        return Refused(
            f"This recall would look at more than {MAX_CONTEXT_CHARACTERS:,} characters of "
            f"contexts: it has looked at {len(self._rows):,} memories, and there are more. Narrow "
            "it: name a session_id, use rarer words, or ask for fewer memories with n"
        )


def _by_distance(rows: list[Judgement], spatial: SpatialSort) -> list[Judgement]:
    """Nearest first; without a position last, or left out when there is a largest distance."""
    if spatial.max_distance is not None:
        limit = spatial.max_distance
        rows = [row for row in rows if row.distance is not None and row.distance <= limit]
    return sorted(rows, key=lambda row: float("inf") if row.distance is None else row.distance)
