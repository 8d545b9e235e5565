"""recall: BM25 and vectors, fused, then filtered and ordered by what the state says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Call
from mnemolog.events.robot import Recall
from mnemolog.projections.language.summary import human_summary
from mnemolog.projections.ports import Hit, TextIndex, Vector, VectorIndex, VectorsAway
from mnemolog.projections.ranking.fusion import fuse, normalise
from mnemolog.projections.robot import state
from mnemolog.projections.state.view import View
from mnemolog.projections.times import iso
from mnemolog.services.families.robot.answering.filters import (
    Condition,
    SpatialSort,
    read_filter,
    read_spatial_sort,
)
from mnemolog.services.reader.reader import Read, Reader

MAX_FETCH = 10_000
"""How deep a leg is searched at most when filters leave too few rows."""
_SUMMARY_FIELDS = ("params", "spatial", "robot", "task")


class Query(msgspec.Struct, frozen=True):
    """A recall that has been checked."""

    text: str
    space: str
    n: int
    min_confidence: float
    session: str | None
    conditions: list[Condition]
    spatial: SpatialSort | None


class Found(msgspec.Struct, frozen=True):
    memories: list[dict[str, Any]]
    mode: str

    @property
    def ids(self) -> list[int]:
        return [one["id"] for one in self.memories]


def answer_recall(reader: Reader, call: Call, args: Recall) -> Read:
    started = time.perf_counter()
    query = read_query(call.space, args)
    vector = reader.embed(query.text)
    found = recall(reader.view, reader.text, reader.vectors, vector, query)
    reply = {
        "memories": found.memories,
        "total": len(found.memories),
        "mode": found.mode,
        "query_ms": round((time.perf_counter() - started) * 1000, 1),
    }
    return Read(reply, found.ids, found.mode)


def read_query(space: str, args: Recall) -> Query:
    """The query that the arguments ask for, or `Refused`."""
    text = args.query.strip()
    if not text:
        raise Refused("query must not be empty: say what to look for")
    return Query(
        text=text,
        space=space,
        n=args.n,
        min_confidence=args.min_confidence,
        session=args.session_id or None,
        conditions=read_filter(args.context_filter),
        spatial=read_spatial_sort(args.spatial_sort),
    )


def recall(
    view: View,
    text: TextIndex,
    vectors: VectorIndex | None,
    vector: Callable[[], Vector] | None,
    query: Query,
) -> Found:
    """The best memories for `query`; as many as it asks for whenever that many match.

    `vector` gives the query's vector; it is asked once the words have been searched.

    The indexes filter by space and session, the state decides on the rest. When too few rows
    survive, more are fetched, and the indexes filter by confidence too (what they know of it is
    its highest value: it only ever falls). At first they do not: nearly all memories pass, and to
    check each of them takes longer than the search.

    A vector store that is away is one leg less; the mode says so.
    """
    fetch = query.n * (4 if query.conditions or query.spatial else 2)
    min_confidence: float | None = None
    while True:
        legs = [
            text.search(
                query.space,
                query.text,
                fetch,
                session=query.session,
                min_confidence=min_confidence,
            )
        ]
        if vectors is not None and vector is not None:
            near = _nearest(vectors, vector(), query, fetch, min_confidence)
            if near is None:
                vectors = None
            else:
                legs.append(near)
        kept = _keep(view, [[(hit.id, hit.version) for hit in leg] for leg in legs], query)
        exhausted = all(len(leg) < fetch for leg in legs)
        if len(kept) >= query.n or exhausted or fetch >= MAX_FETCH:
            break
        fetch, min_confidence = min(fetch * 4, MAX_FETCH), query.min_confidence
    mode = _mode(bool(legs[0]), len(legs) == 2, len(legs) == 2 and bool(legs[1]))
    best = normalise([(row.memory.id, row.score) for row in kept[: query.n]])
    return Found(
        [_show(row, score) for row, (_, score) in zip(kept[: query.n], best, strict=True)],
        mode,
    )


def _nearest(
    vectors: VectorIndex, vector: Vector, query: Query, fetch: int, min_confidence: float | None
) -> list[Hit] | None:
    try:
        return vectors.search(
            query.space, vector, fetch, session=query.session, min_confidence=min_confidence
        )
    except VectorsAway:
        return None


class _Row(msgspec.Struct):
    memory: state.Memory
    context: dict[str, Any]
    score: float = 0.0
    distance: float | None = None


def _keep(view: View, legs: list[list[tuple[int, int]]], query: Query) -> list[_Row]:
    """The candidates that the state lets pass, in the order they are shown."""
    rows: dict[int, _Row] = {}
    candidates = sorted({number for leg in legs for number, _ in leg})
    for start in range(0, len(candidates), 500):
        for memory in state.memories(view, candidates[start : start + 500]):
            if memory.status == "active" and memory.space == query.space:
                rows[memory.id] = _Row(memory, _context(memory.context))
    ranked = [
        [
            number
            for number, version in leg
            if number in rows and version in (0, rows[number].memory.version)
        ]
        for leg in legs
    ]
    fused = fuse(ranked, {number: row.memory.context for number, row in rows.items()})
    kept = []
    for number, score in fused:
        row = rows[number]
        if row.memory.confidence < query.min_confidence:
            continue
        if query.session is not None and row.memory.session != query.session:
            continue
        if not all(condition.holds(row.context) for condition in query.conditions):
            continue
        row.score = score
        kept.append(row)
    return kept if query.spatial is None else _by_distance(kept, query.spatial)


def _by_distance(rows: list[_Row], spatial: SpatialSort) -> list[_Row]:
    """Nearest first; without a position last, or left out when there is a largest distance."""
    for row in rows:
        row.distance = spatial.distance(row.context)
    if spatial.max_distance is not None:
        limit = spatial.max_distance
        rows = [row for row in rows if row.distance is not None and row.distance <= limit]
    return sorted(rows, key=lambda row: float("inf") if row.distance is None else row.distance)


def _mode(words: bool, has_vectors: bool, meaning: bool) -> str:
    if not has_vectors:
        return "bm25_only"
    if words == meaning:
        return "hybrid"
    return "bm25_only" if words else "vec_only"


def _context(text: str) -> dict[str, Any]:
    parsed = msgspec.json.decode(text) if text else {}
    return parsed if isinstance(parsed, dict) else {}


def _show(row: _Row, score: float) -> dict[str, Any]:
    memory = row.memory
    shown: dict[str, Any] = {
        "id": memory.id,
        "content": memory.content,
        "human_summary": human_summary(memory.content),
        "type": memory.kind,
        "perception_type": memory.perception_type,
        "session_id": memory.session,
        "category": memory.category,
        "confidence": memory.confidence,
        "context": memory.context,
        **{name: row.context.get(name) for name in _SUMMARY_FIELDS},
        "_rrf_score": score,
        "created_at": iso(memory.created_at_us),
    }
    if memory.kind == "perception":
        shown["perception_data"] = msgspec.json.decode(memory.data) if memory.data else None
        shown["perception_metadata"] = (
            msgspec.json.decode(memory.metadata) if memory.metadata else None
        )
    if row.distance is not None:
        shown["_distance"] = round(row.distance, 6)
    return shown
