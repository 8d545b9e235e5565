"""Search by meaning and words in the knowledge graph: entities, re-ranked by how they are used,
and reflections.

The indexes say who may be near; how near is measured by the vectors in the state, so that a store
that lags behind, or holds an older version of an entity, never gives a wrong distance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np

from mnemolog.events.envelope import Call
from mnemolog.events.graph import SearchReflections, SearchSemantic
from mnemolog.projections.described import index_space
from mnemolog.projections.graph import meaning, state
from mnemolog.projections.graph.meaning import ENTITY, REFLECTION
from mnemolog.projections.ports import Hit, TextIndex, Vector, VectorIndex, VectorsAway
from mnemolog.projections.ranking import limbic
from mnemolog.projections.ranking.fusion import RRF_K, reciprocal_ranks
from mnemolog.projections.state.view import View
from mnemolog.services.families.graph.replies import shown_reflection
from mnemolog.services.reader.reader import Read, Reader, no_model

FETCH = 3
"""Hits of each leg per result wanted."""
MAX_FETCH = 10_000
EXACT = 2_000
"""Up to so many reflections that a filter lets pass are all compared with the query."""
RANK_SHARE = 0.5
"""How much of a reflection's score its fused rank makes; the rest is its cosine."""


class Sources(msgspec.Struct, frozen=True):
    """What a search looks at. `vector` gives the query's vector and is asked once the words have
    been searched; None: the model does not cover the query's script."""

    view: View
    text: TextIndex
    vectors: VectorIndex | None
    vector: Callable[[], Vector] | None
    model: str


class Found(msgspec.Struct, frozen=True):
    """Rows of a reply. `away`: the vector store did not answer, so only words were searched."""

    rows: list[dict[str, Any]]
    away: bool = False


def answer_search_semantic(reader: Reader, call: Call, args: SearchSemantic) -> Read:
    space = call.space
    sources = _sources(reader, args.query)
    found = search_entities(sources, space, args.query, args.limit, call.received_at_us)
    return _read(reader, sources, found)


def answer_search_reflections(reader: Reader, call: Call, args: SearchReflections) -> Read:
    sources = _sources(reader, args.query)
    found = search_reflections(sources, call.space, args)
    return _read(reader, sources, found)


def search_entities(sources: Sources, space: str, query: str, limit: int, now_us: int) -> Found:
    """The best `limit` entities. What words alone found still has its distance, from the state."""
    view, place = sources.view, sources.view.space_id(space)
    if place is None:
        return Found([])
    by_words, by_meaning, vector = _legs(sources, index_space(space, ENTITY), query, limit * FETCH)
    away = by_meaning is None
    by_meaning = by_meaning or []
    candidates = {hit.id for hit in (*by_words, *by_meaning)}
    used = state.used(view, place, candidates)
    if not used:
        return Found([], away)
    distances = _distances(sources, ENTITY, used, vector)
    words = [hit.id for hit in by_words if hit.id in used]
    near = _nearest([hit.id for hit in by_meaning], distances)
    rrf = reciprocal_ranks([near, words])
    if not rrf:  # The index still knows what the state has no vector of any more.
        return Found([], away)
    least, most = min(rrf.values()), max(rrf.values())
    meant = set(near)
    bases = {
        number: limbic.base_of_meaning(distances[number])
        if number in meant
        else limbic.base_of_words(score, least, most)
        for number, score in rrf.items()
    }
    scored = limbic.scores(
        bases,
        {number: one.use for number, one in used.items()},
        state.together(view, list(bases)),
        now_us,
    )
    best = sorted(bases, key=lambda number: (-scored[number].score, -number))[:limit]
    state.check_size(view, best)
    said = state.observations_of(view, best)
    rows = []
    for number in best:
        entity, score = used[number].entity, scored[number]
        distance = distances.get(number)
        row: dict[str, Any] = {
            "id": number,
            "name": entity.name,
            "entityType": entity.type,
            "observations": said[number],
            "limbic_score": round(score.score, 4),
            "scoring": {
                "importance": round(score.importance, 4),
                "temporal_factor": round(score.temporal, 4),
                "cooc_boost": round(score.cooccurrence, 4),
            },
            "distance": None if distance is None else round(distance, 4),
        }
        if words:
            row["rrf_score"] = round(rrf[number], 6)
        rows.append(row)
    return Found(rows, away)


def search_reflections(sources: Sources, space: str, args: SearchReflections) -> Found:
    """The best reflections; as many as asked for whenever that many match.

    The score is half the fused rank (1 for the first of every leg) and half the cosine.
    """
    place = sources.view.space_id(space)
    if place is None:
        return Found([])
    words, near, found, distances, away = _reflections(sources, space, place, args)
    legs = [leg for leg in (near, words) if leg]
    rrf = reciprocal_ranks(legs)
    scores = {
        number: RANK_SHARE * score * (RRF_K + 1) / len(legs)
        + (1 - RANK_SHARE) * min(1.0, max(0.0, 1.0 - distances.get(number, 1.0)))
        for number, score in rrf.items()
    }
    best = sorted(scores, key=lambda number: (-scores[number], -number))[: args.limit]
    rows = [
        shown_reflection(found[number]) | {"score": round(scores[number], 4)} for number in best
    ]
    return Found(rows, away)


def _reflections(
    sources: Sources, space: str, place: int, args: SearchReflections
) -> tuple[list[int], list[int], dict[int, meaning.Reflection], dict[int, float], bool]:
    """Those that pass the filter, by words and by meaning, what they are, their distances, and
    whether the vector store was missed.

    A rare author is not to be missed behind many others: where a filter lets few pass, all of
    them are compared; where it lets many pass, the indexes are asked for more until enough do.
    """
    view, name = sources.view, index_space(space, REFLECTION)
    filters = (args.author, args.mood, args.target_type)
    filtered = any(one is not None for one in filters)
    passing = meaning.reflections_of(view, place, *filters, EXACT + 1) if filtered else []
    few = filtered and len(passing) <= EXACT
    fetch = args.limit * FETCH
    while True:
        by_words, by_meaning, vector = _legs(sources, name, args.query, fetch)
        if few:
            distances = _distances(sources, REFLECTION, passing, vector)
            near = _nearest(passing, distances)[:fetch]
        else:
            hits = [hit.id for hit in by_meaning or ()]
            distances = _distances(sources, REFLECTION, hits, vector)
            near = _nearest(hits, distances)
        candidates = {*near, *(hit.id for hit in by_words)}
        found = {
            one.id: one
            for one in meaning.reflections(view, place, candidates)
            if all(
                wanted in (None, has)
                for wanted, has in zip(
                    filters, (one.author, one.mood, one.target_type), strict=True
                )
            )
        }
        more = len(by_words) >= fetch or (not few and len(by_meaning or ()) >= fetch)
        if len(found) >= args.limit or not filtered or not more or fetch >= MAX_FETCH:
            break
        fetch = min(fetch * 4, MAX_FETCH)
    words = [hit.id for hit in by_words if hit.id in found]
    distances |= _distances(sources, REFLECTION, words, vector)
    near = [number for number in near if number in found]
    return words, near, found, distances, by_meaning is None and not few


def _legs(
    sources: Sources, name: str, query: str, fetch: int
) -> tuple[list[Hit], list[Hit] | None, Vector | None]:
    """By words, by meaning (None: the vector store is away), and the query's vector."""
    by_words = sources.text.search(name, query, fetch)
    if sources.vector is None or sources.vectors is None:
        return by_words, [], None
    vector = sources.vector()
    try:
        return by_words, sources.vectors.search(name, vector, fetch), vector
    except VectorsAway:
        return by_words, None, vector


def _distances(
    sources: Sources, kind: str, numbers: Iterable[int], vector: Vector | None
) -> dict[int, float]:
    """1 - cosine for each that has a vector."""
    if vector is None:
        return {}
    found = meaning.DESCRIBED.meanings(sources.view, sources.model, kind, list(numbers))
    if not found:
        return {}
    rows = np.stack(list(found.values())).astype(np.float32)
    query = vector.astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    cosines = (rows @ query) / np.maximum(lengths, np.float32(1e-12))
    return {number: 1.0 - float(one) for number, one in zip(found, cosines, strict=True)}


def _nearest(numbers: Iterable[int], distances: dict[int, float]) -> list[int]:
    """Those that have a vector, nearest first, equally near ones newest first."""
    there = [number for number in numbers if number in distances]
    return sorted(there, key=lambda number: (distances[number], -number))


def _sources(reader: Reader, query: str) -> Sources:
    vector = reader.embed(query)
    model = reader.loaded()
    if model is None:
        raise no_model(reader.model)
    return Sources(reader.view, reader.text, reader.vectors, vector, model)


def _read(reader: Reader, sources: Sources, found: Found) -> Read:
    reply: dict[str, Any] = {"results": found.rows}
    if reader.pending:
        reply["pending"] = reader.pending
    mode = "bm25_only" if sources.vector is None or found.away else "hybrid"
    if found.away:
        reply["mode"] = mode
    return Read(reply, [row["id"] for row in found.rows], mode)
