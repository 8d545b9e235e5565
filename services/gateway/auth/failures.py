"""How often somebody may fail to say who they are, by address: finding that out is work."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from mnemolog.services.gateway.limits import Buckets, Rate, Taken, of_address

FAILURES: Final = Rate(1, 20)
"""From one address."""
MAX_ADDRESSES: Final = 10_000
MAX_KNOWN: Final = 10_000
"""Tokens, as hashes."""


class Failures:
    """Tokens that were good the last time are looked at however many others of their address are
    not: behind a proxy everybody has one address, and who is at work there goes on."""

    def __init__(self, buckets: Buckets | None = None) -> None:
        self._buckets = Buckets(MAX_ADDRESSES) if buckets is None else buckets
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def too_many(self, token: str | None, address: str) -> Taken | None:
        """Why a token is not looked at; None: it is."""
        found = self._buckets.take(of_address(address), FAILURES, 0)
        known = token is not None and _hash(token) in self._known
        return None if found.allowed or known else found

    def failed(self, token: str | None, address: str) -> Taken:
        if token is not None:
            self._known.pop(_hash(token), None)
        return self._buckets.take(of_address(address), FAILURES)

    def succeeded(self, token: str | None) -> None:
        if token is None:
            return
        key = _hash(token)
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
