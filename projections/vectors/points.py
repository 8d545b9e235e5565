"""How a stored vector looks as a Qdrant point, whichever Qdrant holds it.

Pure functions that every Qdrant backend shares, so that the same change gives the same point, and
the same points give the same digest, in process and on a server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import numpy as np

from mnemolog.projections.ports import Hit, PutVector, Vector

PREFIX = "mnemolog"
"""What the names of collections on a server begin with."""

MAX_LIMIT = 10_000
"""The most hits that one search may ask for."""


def point_id(space: str, id: int) -> UUID:
    """The id of the point that holds `id` of `space`: always the same one, so that a replacement
    overwrites and a repeated change changes nothing. 128 bits of hash: no collisions to handle."""
    name = f"{id}\0{space}".encode()
    return UUID(bytes=hashlib.blake2b(name, digest_size=16, person=b"mnemolog.point").digest())


def checkpoint_id(partition: int) -> UUID:
    """The id of the point that is a partition's checkpoint, where checkpoints are points."""
    name = str(partition).encode()
    return UUID(bytes=hashlib.blake2b(name, digest_size=16, person=b"mnemolog.checkpt").digest())


def payload_of(put: PutVector) -> dict[str, Any]:
    """What is stored beside the vector. A point without a session has no such field."""
    payload: dict[str, Any] = {
        "space": put.space,
        "id": put.id,
        "version": put.version,
        "confidence": float(put.confidence),
    }
    if put.session is not None:
        payload["session"] = put.session
    return payload


def checked_vector(vector: Vector, dims: int) -> list[float]:
    """`vector` as the list an engine takes; ValueError if it could not be compared with others."""
    if vector.dtype != np.float16:
        raise ValueError(f"A vector must be of float16, this one is of {vector.dtype}")
    if vector.shape != (dims,):
        raise ValueError(
            f"This index holds vectors of {dims} dimensions, this one has the shape {vector.shape}"
        )
    values = vector.astype(np.float32)
    square = float(np.dot(values, values))
    if not np.isfinite(square):
        raise ValueError("A vector must have finite numbers only, this one holds NaN or infinity")
    if square == 0.0:
        raise ValueError("A vector must have a direction, this one is all zeros")
    numbers: list[float] = values.tolist()
    return numbers


def checked_put(put: PutVector, dims: int) -> list[float]:
    """The vector of `put` as a list, once everything about it is known to be storable."""
    if not 0.0 <= put.confidence <= 1.0:
        raise ValueError(f"A confidence lies between 0 and 1, this one is {put.confidence}")
    return checked_vector(put.vector, dims)


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"A search returns 1 to {MAX_LIMIT} hits, {limit} were asked for")
    return limit


def ranked(hits: Iterable[Hit]) -> list[Hit]:
    """Best first, equal scores newest first."""
    return sorted(hits, key=lambda hit: (-hit.score, -hit.id))


def row_of(payload: Mapping[str, Any], vector: Iterable[float], code: float | None = None) -> bytes:
    """A hash of one point, within its space; `vector` as stored, that is normalised and rounded to
    float16. `code` stands for what is stored beside it to find it by, where that is known."""
    head = (
        f"{payload['id']}\0{payload['version']}\0{payload.get('session', '')}"
        f"\0{'session' in payload}\0{payload['confidence']!r}\0"
    )
    if code is not None:
        head += f"{code!r}\0"
    return hashlib.sha256(head.encode() + np.asarray(vector, dtype="<f2").tobytes()).digest()


class SpaceDigests:
    """Collects points in any order and hashes each space's contents."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[int, bytes]]] = {}

    def add(
        self, payload: Mapping[str, Any], vector: Iterable[float], code: float | None = None
    ) -> None:
        """Take in one point, see `row_of`."""
        row = row_of(payload, vector, code)
        self._rows.setdefault(payload["space"], []).append((payload["id"], row))

    def result(self) -> dict[str, str]:
        return {
            space: hashlib.sha256(b"".join(row for _, row in sorted(rows))).hexdigest()
            for space, rows in sorted(self._rows.items())
        }
