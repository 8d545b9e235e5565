"""What callers may be allowed to do. Every tool, resource, stream and operator's route needs one of
these; none of them includes another."""

from __future__ import annotations

from typing import Final, Literal

Scope = Literal["memory:read", "memory:write", "memory:admin"]
READ: Final = "memory:read"
WRITE: Final = "memory:write"
ADMIN: Final = "memory:admin"
SCOPES: Final[tuple[Scope, ...]] = (READ, WRITE, ADMIN)
EVERY: Final = frozenset(SCOPES)
