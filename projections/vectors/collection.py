"""One collection on a Qdrant server: how it is made, written, searched, and named.

A model has one live collection, `mnemolog_<model>_v<N>`, which its readers reach through the alias
`mnemolog_<model>`. Every point carries `at`, the offset of the decision it comes from, and every
write says up to which offset its writer has followed the log: what is newer than that stays as it
is. So a write that comes late, from whomever, takes nothing back. The checkpoints are points too,
without vectors, in the same collection and its only shard: they share its write-ahead log and come
after their data in it, are switched with it, copied with it and dropped with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from qdrant_client import models

from mnemolog.projections.ports import Hit, VectorsAway
from mnemolog.projections.vectors.client import SEARCH_TIMEOUT_S, WRITE_TIMEOUT_S, Server
from mnemolog.projections.vectors.points import checkpoint_id

FORMAT = 1
VECTOR = "content"
CHUNK = 256
"""Points in one request: some two megabytes of JSON with 384 dimensions."""
OVERSAMPLING = 2.0
"""Candidates by int8 code per hit wanted; they are scored again with the originals."""
SCROLL_PAGE = 1_000

Payload = Mapping[str, Any]


class Names:
    """What a model's collections are called."""

    def __init__(self, model: str, prefix: str) -> None:
        self.alias = f"{prefix}_{model}"
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", self.alias):
            raise ValueError(
                f"{self.alias!r} cannot be the name of a collection: letters, digits and . _ - "
                "are allowed, 200 of them at most"
            )

    def collection(self, number: int) -> str:
        return f"{self.alias}_v{number}"

    def number(self, name: str) -> int | None:
        """The number in a collection's name; None if it is not one of this model."""
        found = re.fullmatch(re.escape(self.alias) + r"_v(\d{1,9})", name)
        return None if found is None else int(found.group(1))


class Collection:
    """The collection called `name`, or the one that the alias `name` stands for at the moment."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self.name = name

    def search(
        self,
        space: str,
        vector: list[float],
        limit: int,
        session: str | None,
        min_confidence: float | None,
    ) -> list[Hit]:
        found = self._server.ask(
            lambda client: client.query_points(
                self.name,
                query=vector,
                using=VECTOR,
                query_filter=_conditions(space, session, min_confidence),
                limit=limit,
                with_payload=["id", "version"],
                search_params=models.SearchParams(
                    quantization=models.QuantizationSearchParams(
                        rescore=True, oversampling=OVERSAMPLING
                    )
                ),
                timeout=SEARCH_TIMEOUT_S,
            )
        )
        payloads = ((point, cast("Payload", point.payload)) for point in found.points)
        return [Hit(payload["id"], point.score, payload["version"]) for point, payload in payloads]

    def checkpoints(self, partitions: Iterable[int]) -> dict[int, int]:
        """Those that are there, of these partitions."""
        ids = [str(checkpoint_id(partition)) for partition in partitions]
        if not ids:
            return {}
        records = self._server.ask(
            lambda client: client.retrieve(
                self.name, ids, with_payload=True, timeout=SEARCH_TIMEOUT_S
            )
        )
        payloads = (cast("Payload", record.payload) for record in records)
        return {payload["partition"]: payload["at"] for payload in payloads}

    def points(self) -> Iterator[tuple[Payload, list[float]]]:
        """Every point but the checkpoints, in no order that means anything."""
        offset = None
        while True:
            page, offset = self._scroll(offset)
            for record in page:
                payload = cast("Payload", record.payload)
                if "space" in payload:
                    yield payload, cast("dict[str, list[float]]", record.vector)[VECTOR]
            if offset is None:
                return

    def write(
        self, puts: Sequence[models.PointStruct], removed: Sequence[UUID], up_to: int
    ) -> None:
        """Store and remove points of one partition that has been followed up to offset `up_to`.
        An id is in one of the two. When this returns a search finds them so."""
        for start in range(0, len(puts), CHUNK):
            self._upsert(puts[start : start + CHUNK], up_to)
        for start in range(0, len(removed), CHUNK):
            ids: list[Any] = [str(one) for one in removed[start : start + CHUNK]]
            selector = models.FilterSelector(
                filter=models.Filter(must=[models.HasIdCondition(has_id=ids), _not_after(up_to)])
            )
            self._server.ask(
                lambda client, selector=selector: client.delete(  # type: ignore[misc]
                    self.name,
                    selector,
                    wait=True,
                    ordering=models.WriteOrdering.STRONG,
                    timeout=WRITE_TIMEOUT_S,
                )
            )

    def set_checkpoint(self, partition: int, offset: int) -> None:
        """Move the checkpoint to `offset`, unless it stands further already."""
        payload = {"partition": partition, "at": offset}
        point = models.PointStruct(id=str(checkpoint_id(partition)), vector={}, payload=payload)
        self._upsert([point], offset)

    def drop(self) -> None:
        self._server.ask(
            lambda client: client.delete_collection(self.name, timeout=WRITE_TIMEOUT_S)
        )

    def _upsert(self, points: Sequence[models.PointStruct], up_to: int) -> None:
        self._server.ask(
            lambda client: client.upsert(
                self.name,
                list(points),
                wait=True,
                ordering=models.WriteOrdering.STRONG,
                update_filter=models.Filter(must=[_not_after(up_to)]),
                timeout=WRITE_TIMEOUT_S,
            )
        )

    def _scroll(self, offset: Any) -> tuple[list[models.Record], Any]:
        return self._server.ask(
            lambda client: client.scroll(
                self.name,
                offset=offset,
                limit=SCROLL_PAGE,
                with_payload=True,
                with_vectors=True,
                timeout=WRITE_TIMEOUT_S,
            )
        )


def live(server: Server, names: Names) -> str | None:
    """The collection that the model's alias stands for; None if there is no such alias."""
    aliases = server.ask(lambda client: client.get_aliases()).aliases
    return next((one.collection_name for one in aliases if one.alias_name == names.alias), None)


def numbers(server: Server, names: Names) -> list[int]:
    """The numbers of all collections of the model, the live one and what rebuilds left behind."""
    there = server.ask(lambda client: client.get_collections()).collections
    return sorted(n for one in there if (n := names.number(one.name)) is not None)


def make_live(server: Server, names: Names, name: str) -> None:
    """Let the alias stand for the collection `name` from now on, in one step."""
    changes: list[models.AliasOperations] = []
    if live(server, names) is not None:
        changes.append(
            models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=names.alias))
        )
    changes.append(
        models.CreateAliasOperation(
            create_alias=models.CreateAlias(collection_name=name, alias_name=names.alias)
        )
    )
    server.ask(lambda client: client.update_collection_aliases(changes, timeout=WRITE_TIMEOUT_S))


def create(server: Server, name: str, dims: int, model: str) -> None:
    """Make the collection with its payload indexes; what is there already stays."""
    try:
        if not _exists(server, name):
            _create(server, name, dims, model)
    except VectorsAway:
        if not _exists(server, name):  # else somebody else made it at the same moment
            raise
    for field, schema in _INDEXES.items():
        server.ask(
            lambda client, field=field, schema=schema: client.create_payload_index(  # type: ignore[misc]
                name, field, schema, wait=True, timeout=WRITE_TIMEOUT_S
            )
        )


def check(server: Server, name: str, dims: int, model: str) -> None:
    """ValueError if the collection was not made for this model by this version."""
    config = server.ask(lambda client: client.get_collection(name)).config
    metadata = config.metadata or {}
    vectors = config.params.vectors
    params = vectors.get(VECTOR) if isinstance(vectors, dict) else None
    if params is None or metadata.get("format") != FORMAT:
        raise ValueError(
            f"The collection {name} has format {metadata.get('format')}, this version reads "
            f"{FORMAT}; rebuild the index from the log"
        )
    if (metadata.get("model"), params.size) != (model, dims):
        raise ValueError(
            f"The collection {name} holds vectors of {metadata.get('model')} with {params.size} "
            f"dimensions, not of {model} with {dims}"
        )


_INDEXES: dict[str, Any] = {
    # Graphs are built per space alone: every search names one.
    "space": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "session": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False),
    "confidence": models.FloatIndexParams(type=models.FloatIndexType.FLOAT, enable_hnsw=False),
    "at": models.IntegerIndexParams(
        type=models.IntegerIndexType.INTEGER, lookup=False, range=True, enable_hnsw=False
    ),
}


def _exists(server: Server, name: str) -> bool:
    return server.ask(lambda client: client.collection_exists(name))


def _create(server: Server, name: str, dims: int, model: str) -> None:
    """The codes that a search goes through are in memory, the float16 originals on disk."""
    vectors = models.VectorParams(
        size=dims,
        distance=models.Distance.COSINE,
        datatype=models.Datatype.FLOAT16,
        memory=models.Memory.COLD,
        hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
        quantization_config=models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(
                type=models.ScalarType.INT8, quantile=0.99, memory=models.Memory.PINNED
            )
        ),
    )
    server.ask(
        lambda client: client.create_collection(
            name,
            vectors_config={VECTOR: vectors},
            shard_number=1,
            metadata={"model": model, "dims": dims, "format": FORMAT},
            timeout=WRITE_TIMEOUT_S,
        )
    )


def _not_after(offset: int) -> models.FieldCondition:
    return models.FieldCondition(key="at", range=models.Range(lte=offset))


def _conditions(space: str, session: str | None, min_confidence: float | None) -> models.Filter:
    conditions: list[models.Condition] = [
        models.FieldCondition(key="space", match=models.MatchValue(value=space))
    ]
    if session is not None:
        conditions.append(
            models.FieldCondition(key="session", match=models.MatchValue(value=session))
        )
    if min_confidence is not None:
        conditions.append(
            models.FieldCondition(key="confidence", range=models.Range(gte=min_confidence))
        )
    return models.Filter(must=conditions)
