"""The points of a shard that a search finds, read by way of all that a search reads.

A point is stored in parts: its payload, its vector, the code of its vector, and an index for each
field that a condition may name. A search goes by the codes and the indexes; payload and vector
alone do not say that it finds the point. So each point is searched for: by its own vector, which
must be next to its code, under conditions that it alone meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

import numpy as np
import qdrant_edge as qe

from mnemolog.projections.vectors.points import point_id, row_of

PAGE = 1_000
BATCH = 64
"""Searches that are handed to the engine at once: a third of the time of one by one."""
NEAR = 0.9
"""What a vector scores with its own 4-bit code is 0.97 of its square or more, whatever vector it
is; with a code that was lost, or is another one's, less than this."""
DIGIT = 1e-9
"""The engine's index of a number may be off by its last digit."""

Point = tuple[dict[str, Any], list[float], float]


def findable(shard: qe.EdgeShard) -> Iterator[Point]:
    """Payload and vector of each point that is whole and is found, and what its vector scores with
    its code, in no order that counts. The same vector has the same code, and that score, in every
    shard: a bit of the code that was changed shows in it."""
    offset = None
    while True:
        page, offset = shard.scroll(
            qe.ScrollRequest(offset=offset, limit=PAGE, with_payload=True, with_vector=True)
        )
        whole = [record for record in page if _is_whole(record)]
        for start in range(0, len(whole), BATCH):
            for record, code in scored(shard, whole[start : start + BATCH]):
                yield (
                    cast("dict[str, Any]", record.payload),
                    cast("list[float]", record.vector),
                    code,
                )
        if offset is None:
            return


def rows(
    shard: qe.EdgeShard, after: UUID | None, limit: int
) -> tuple[dict[UUID, bytes | None], UUID | None]:
    """The next points in the order of their ids, each with its hash or, if it is not whole, not
    found or not where it belongs, None; and where to go on."""
    page, following = shard.scroll(
        qe.ScrollRequest(offset=after, limit=limit, with_payload=True, with_vector=True)
    )
    found: dict[UUID, bytes | None] = {cast("UUID", record.id): None for record in page}
    for record, code in scored(shard, [record for record in page if _is_whole(record)]):
        payload, vector = cast("dict[str, Any]", record.payload), cast("list[float]", record.vector)
        key = point_id(payload["space"], payload["id"])
        if key == record.id:
            found[key] = row_of(payload, vector, code)
    return found, cast("UUID | None", following)


def _is_whole(record: qe.Record) -> bool:
    """Whether it has its payload and its vector: what lies in a lost file is left out of it."""
    payload = cast("dict[str, Any]", record.payload or {})
    return isinstance(record.vector, list) and payload.keys() >= {
        "space",
        "id",
        "version",
        "confidence",
    }


def scored(shard: qe.EdgeShard, records: list[qe.Record]) -> Iterator[tuple[qe.Record, float]]:
    """Those of the points that are found, each with what its vector scores with its code."""
    asked = qe.QueryBatchRequest([_by_itself(record) for record in records])
    for record, hits in zip(records, shard.query_batch(asked), strict=True):
        vector = cast("list[float]", record.vector)
        if hits and hits[0].score > NEAR * float(np.dot(vector, vector)):
            yield record, hits[0].score


def _by_itself(record: qe.Record) -> qe.QueryRequest:
    """The search for a point among those with its id, by codes alone."""
    payload = cast("dict[str, Any]", record.payload or {})
    conditions: list[qe.HasIdCondition | qe.FieldCondition] = [qe.HasIdCondition({record.id})]
    for field in ("space", "session"):
        if field in payload:
            conditions.append(qe.FieldCondition(field, match=qe.MatchValue(payload[field])))
    if "confidence" in payload:
        least, most = payload["confidence"] - DIGIT, payload["confidence"] + DIGIT
        within = qe.RangeFloat(gte=least, lte=most)
        conditions.append(qe.FieldCondition("confidence", range=within))
    return qe.QueryRequest(
        limit=1,
        query=qe.Query.Nearest(cast("list[float]", record.vector)),
        filter=qe.Filter(must=[*conditions]),
        with_payload=False,
        params=qe.SearchParams(quantization=qe.QuantizationSearchParams(rescore=False)),
    )
