"""Where things live: spaces, partitions, and ids that tell their partition.

A space is the unit of order. Its key alone decides the partition, so every node agrees on it.
"""

from __future__ import annotations

import hashlib
import re
import uuid

from mnemolog.events.fields import TENANT

MAX_PARTITIONS = 1024
_TENANT = re.compile(TENANT)


def is_tenant(name: str) -> bool:
    return _TENANT.fullmatch(name) is not None


def space_of(tenant: str, family: str, *rest: str) -> str:
    """The space of a tenant's family, or of a part of it; what comes last may be anything."""
    if not is_tenant(tenant) or "/" in family:
        raise ValueError(f"{tenant!r} is no tenant, or {family!r} no family")
    return "/".join((tenant, family, *rest))


def partition_of_space(space: str, partitions: int) -> int:
    digest = hashlib.blake2b(space.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % partitions


def nth_id(n: int, partition: int, partitions: int) -> int:
    """The n-th integer id (from 1) that `partition` hands out: 1, 2, 3, … with one partition."""
    return (n - 1) * partitions + partition + 1


def partition_of_id(number: int, partitions: int) -> int:
    return (number - 1) % partitions


def session_id(call_id: str, partition: int) -> str:
    """A UUID (version 8) made from the call that started the session; its last two bytes are the
    partition."""
    return uuid_of("session", call_id, partition)


def uuid_of(kind: str, call_id: str, partition: int) -> str:
    """A UUID (version 8) for the thing of a kind that a call made; its last two bytes are the
    partition."""
    raw = bytearray(hashlib.sha256(f"{kind}\0{call_id}".encode()).digest()[:16])
    raw[6] = (raw[6] & 0x0F) | 0x80
    raw[8] = (raw[8] & 0x3F) | 0x80
    raw[14:16] = partition.to_bytes(2, "big")
    return str(uuid.UUID(bytes=bytes(raw)))


def partition_of_session(session: str, partitions: int) -> int | None:
    """The partition a session's UUID names; None when it cannot be one of ours."""
    try:
        partition = int.from_bytes(uuid.UUID(session).bytes[14:16], "big")
    except ValueError:
        return None
    return partition if partition < partitions else None
