"""What is asked of the engine: a shard made and opened, its nearest points, its counts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import qdrant_edge as qe

from mnemolog.projections.ports import Hit, VectorsAway, is_want
from mnemolog.projections.vectors.manifest import VectorIndexError
from mnemolog.projections.vectors.points import ranked

OVERSAMPLING = 4.0
"""Candidates by 4-bit code per hit wanted; they are scored again with the originals."""

MANY = 10_000
"""Points in the shard from which on it pays to leave conditions out at first, see `search`."""

MARGIN = 3
"""Points fetched per hit wanted where those that do not fit are dropped here, not by the engine."""

_Payload = dict[str, Any]


def bare(path: Path, dims: int) -> qe.EdgeShard:
    """A shard for points that are found by their ids alone, and need not be durable."""
    path.mkdir()
    vectors = qe.EdgeVectorParams(
        size=dims,
        distance=qe.Distance.Cosine,
        datatype=qe.VectorStorageDatatype.Float16,
        quantization_config=qe.TurboQuantQuantizationConfig(
            bits=qe.TurboQuantBitSize.Bits4, memory=qe.Memory.Cached
        ),
        memory=qe.Memory.Cached,
    )
    return qe.EdgeShard.create(str(path), qe.EdgeConfig(vectors=vectors, wal_enabled=False))


def create(path: Path, dims: int) -> qe.EdgeShard:
    shard = bare(path, dims)
    for field, schema in (
        ("space", qe.KeywordIndexParams()),
        ("session", qe.KeywordIndexParams()),
        ("confidence", qe.FloatIndexParams()),
    ):
        shard.update(qe.UpdateOperation.create_field_index(field, schema))
    shard.flush()
    return shard


def load(path: Path) -> qe.EdgeShard:
    try:
        return qe.EdgeShard.load(str(path))
    except BaseException as error:
        if not is_engines(error):
            raise
        if is_want(error):
            raise VectorsAway(f"The shard in {path} cannot be opened ({error})") from error
        raise VectorIndexError(path.parent, f"cannot be opened ({error})") from error


def is_engines(error: BaseException) -> bool:
    """Whether an error may come from the engine, which raises nothing more specific; what it did
    not reckon with reaches Python as no Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def unfindable(shard: qe.EdgeShard) -> int:
    """How many points no condition on their space or their confidence finds, at least."""
    total = shard.info().points_count
    spaces = shard.facet(qe.FacetRequest("space", limit=total + 1, exact=True))
    trusted = [qe.FieldCondition("confidence", range=qe.RangeFloat(gte=0.0))]
    counted = qe.CountRequest(exact=True, filter=qe.Filter(must=[*trusted]))
    return total - min(sum(one.count for one in spaces.hits), shard.count(counted))


def conditions(
    space: str, session: str | None, min_confidence: float | None
) -> list[qe.FieldCondition]:
    found = [qe.FieldCondition("space", match=qe.MatchValue(space))]
    if session is not None:
        found.append(qe.FieldCondition("session", match=qe.MatchValue(session)))
    if min_confidence is not None:
        found.append(qe.FieldCondition("confidence", range=qe.RangeFloat(gte=min_confidence)))
    return found


def fits(point: qe.ScoredPoint, space: str, min_confidence: float | None) -> bool:
    payload = cast("_Payload", point.payload)
    return payload["space"] == space and (
        min_confidence is None or payload["confidence"] >= min_confidence
    )


def count(shard: qe.EdgeShard, having: list[qe.FieldCondition]) -> int:
    """The engine's quick estimate."""
    return shard.count(qe.CountRequest(exact=False, filter=qe.Filter(must=[*having])))


def query(
    shard: qe.EdgeShard, ask: qe.Query, limit: int, having: list[qe.FieldCondition]
) -> list[qe.ScoredPoint]:
    return shard.query(
        qe.QueryRequest(
            limit=limit,
            query=ask,
            filter=qe.Filter(must=[*having]) if having else None,
            with_payload=True,
            params=qe.SearchParams(
                quantization=qe.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING)
            ),
        )
    )


def hits(points: Iterable[qe.ScoredPoint]) -> list[Hit]:
    payloads = ((point, cast("_Payload", point.payload)) for point in points)
    return ranked(
        Hit(payload["id"], point.score, payload["version"]) for point, payload in payloads
    )


def nearest(
    shard: qe.EdgeShard,
    ask: qe.Query,
    limit: int,
    space: str,
    session: str | None,
    min_confidence: float | None,
) -> list[Hit]:
    """The nearest points of a space that fit, see `EdgeVectors.search`."""
    every = conditions(space, session, min_confidence)
    first = every
    total = shard.info().points_count
    if total >= MANY:
        first = conditions(space, session, None)
        if session is None and count(shard, first) * 2 >= total:
            first = []
    if len(first) < len(every):
        wanted = limit * MARGIN
        found = query(shard, ask, wanted, first)
        kept = [point for point in found if fits(point, space, min_confidence)]
        if len(kept) >= limit or len(found) < wanted:
            return hits(kept)[:limit]
    return hits(query(shard, ask, limit, every))
