"""Who asks: whose memory it is about, under which name it is recorded, and what they may do."""

from __future__ import annotations

import msgspec

from mnemolog.services.scopes import EVERY


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`actor` is who calls are recorded as; they may name somebody else if it is one of
    `speaks_for`, or of the caller's own: `fleet-1` speaks for `fleet-1/arm-3`. With None they may
    name anybody. `key` tells callers apart where their calls are counted."""

    tenant: str = "default"
    actor: str = ""
    scopes: frozenset[str] = EVERY
    speaks_for: frozenset[str] | None = None
    key: str = ""

    def may_be(self, actor: str) -> bool:
        """Whether a call of theirs may be recorded as that of `actor`."""
        if self.speaks_for is None or actor == self.actor or actor in self.speaks_for:
            return True
        return bool(self.actor) and actor.startswith(f"{self.actor}/")
