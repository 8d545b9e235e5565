"""recall: BM25 and vectors, fused, then filtered and ordered by what the state says."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Call
from mnemolog.events.robot import Recall
from mnemolog.projections.language.summary import human_summary
from mnemolog.projections.ports import Hit, TextIndex, Vector, VectorIndex, VectorsAway
from mnemolog.projections.ranking.fusion import normalise
from mnemolog.projections.robot import state
from mnemolog.projections.state.view import View
from mnemolog.projections.times import iso
from mnemolog.services.families.robot.answering.filters import (
    read_context,
    read_filter,
    read_spatial_sort,
)
from mnemolog.services.families.robot.answering.judging import Judged, Judgement, Query
from mnemolog.services.reader.reader import Read, Reader

MAX_FETCH = 10_000
"""How deep a leg is searched at most when filters leave too few rows."""
MAX_SHOWN_CHARACTERS = 16 * 1024 * 1024
"""Of contexts and data in one answer. They are looked at before they are parsed: parsed they take
some thirty times as much."""
_SUMMARY_FIELDS = ("params", "spatial", "robot", "task")


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
    judged = Judged(view, query)
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
        kept = judged.keep([[(hit.id, hit.version) for hit in leg] for leg in legs])
        exhausted = all(len(leg) < fetch for leg in legs)
        if len(kept) >= query.n or exhausted or fetch >= MAX_FETCH:
            break
        fetch, min_confidence = min(fetch * 4, MAX_FETCH), query.min_confidence
    mode = _mode(bool(legs[0]), len(legs) == 2, len(legs) == 2 and bool(legs[1]))
    return Found(_show_all(view, kept[: query.n]), mode)


def _nearest(
    vectors: VectorIndex, vector: Vector, query: Query, fetch: int, min_confidence: float | None
) -> list[Hit] | None:
    try:
        return vectors.search(
            query.space, vector, fetch, session=query.session, min_confidence=min_confidence
        )
    except VectorsAway:
        return None


def _mode(words: bool, has_vectors: bool, meaning: bool) -> str:
    if not has_vectors:
        return "bm25_only"
    if words == meaning:
        return "hybrid"
    return "bm25_only" if words else "vec_only"


def _show_all(view: View, kept: list[Judgement]) -> list[dict[str, Any]]:
    """What is told of the memories, in this order; `Refused` when that is too much to tell."""
    rows: dict[int, state.Memory] = {}
    size = 0
    with closing(state.each_memory(view, [one.id for one in kept])) as found:
        for memory in found:
            size += len(memory.context) + len(memory.data or "") + len(memory.metadata or "")
            if size > MAX_SHOWN_CHARACTERS:
                raise Refused(
                    f"The {len(kept)} memories that this recall found have more than "
                    f"{MAX_SHOWN_CHARACTERS:,} characters of context and data, which is more than "
                    "one answer holds: ask for fewer memories with n"
                )
            rows[memory.id] = memory
    best = normalise([(one.id, one.score) for one in kept])
    return [
        _show(rows[one.id], one.distance, score) for one, (_, score) in zip(kept, best, strict=True)
    ]


def _show(memory: state.Memory, distance: float | None, score: float) -> dict[str, Any]:
    context = read_context(memory.context)
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
        **{name: context.get(name) for name in _SUMMARY_FIELDS},
        "_rrf_score": score,
        "created_at": iso(memory.created_at_us),
    }
    if memory.taught_by:
        shown["taught_by"] = memory.taught_by
    if memory.kind == "perception":
        shown["perception_data"] = msgspec.json.decode(memory.data) if memory.data else None
        shown["perception_metadata"] = (
            msgspec.json.decode(memory.metadata) if memory.metadata else None
        )
    if distance is not None:
        shown["_distance"] = round(distance, 6)
    return shown
