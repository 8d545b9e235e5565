"""The points of a shard that a search finds, read by way of all that a search reads.

A point is stored in parts: its payload, its vector, the code of its vector, and an index for each
field that a condition may name. A search goes by the codes and the indexes; payload and vector
alone do not say that it finds the point. So each point is searched for: by its own vector, which
must be next to its code, under conditions that it alone meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import qdrant_edge as qe

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
            yield from _found(shard, whole[start : start + BATCH])
        if offset is None:
            return


def _is_whole(record: qe.Record) -> bool:
    """Whether it has its payload and its vector: what lies in a lost file is left out of it."""
    payload = cast("dict[str, Any]", record.payload or {})
    return isinstance(record.vector, list) and payload.keys() >= {
        "space",
        "id",
        "version",
        "confidence",
    }


def _found(shard: qe.EdgeShard, records: list[qe.Record]) -> Iterator[Point]:
    asked = qe.QueryBatchRequest([_by_itself(record) for record in records])
    for record, hits in zip(records, shard.query_batch(asked), strict=True):
        vector = cast("list[float]", record.vector)
        if hits and hits[0].score > NEAR * float(np.dot(vector, vector)):
            yield cast("dict[str, Any]", record.payload), vector, hits[0].score


def _by_itself(record: qe.Record) -> qe.QueryRequest:
    """The search for a point among those with its id, by codes alone."""
    payload = cast("dict[str, Any]", record.payload)
    least, most = payload["confidence"] - DIGIT, payload["confidence"] + DIGIT
    conditions: list[qe.HasIdCondition | qe.FieldCondition] = [
        qe.HasIdCondition({record.id}),
        qe.FieldCondition("space", match=qe.MatchValue(payload["space"])),
        qe.FieldCondition("confidence", range=qe.RangeFloat(gte=least, lte=most)),
    ]
    if "session" in payload:
        conditions.append(qe.FieldCondition("session", match=qe.MatchValue(payload["session"])))
    return qe.QueryRequest(
        limit=1,
        query=qe.Query.Nearest(cast("list[float]", record.vector)),
        filter=qe.Filter(must=[*conditions]),
        with_payload=False,
        params=qe.SearchParams(quantization=qe.QuantizationSearchParams(rescore=False)),
    )
