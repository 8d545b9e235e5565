"""Everybody's own room: from who asks, and what the address says, to a way to the service."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from mnemolog.events.arguments import Refused
from mnemolog.services.api import Files, Unavailable, own_files
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.clients import Client
from mnemolog.services.gateway.tools import Offer

TOOLSETS: Final = "toolsets"
MAX_TOOLSETS: Final = 200
"""Characters of a list of them."""


class House:
    """`offer` is what there is for anybody, `import_root` where the files are that clients may
    name: everybody's if it is `shared`."""

    def __init__(self, calls: Calls, offer: Offer, import_root: Path, *, shared: bool) -> None:
        self.offer = offer
        self._calls = calls
        self._import_root = import_root
        self._shared = shared
        self._narrow: dict[frozenset[str], Offer] = {}
        self._files_of = lru_cache(1024)(self._files)

    def client(self, caller: Caller, query: Mapping[str, str]) -> Client:
        """Raises `Refused` when the address asks for what there is not."""
        offer = self.offer if TOOLSETS not in query else self._narrowed(query[TOOLSETS])
        return Client(self._calls.of(caller, self._files_of(caller.tenant)), offer)

    def _narrowed(self, text: str) -> Offer:
        names = frozenset(name for name in map(str.strip, text.split(",")) if name)
        if not names:
            return self.offer
        if names not in self._narrow:
            try:
                made = self.offer.narrowed(names)
            except Unavailable as error:
                raise Refused(str(error)[:MAX_TOOLSETS]) from None
            self._narrow[names] = made
        return self._narrow[names]

    def _files(self, tenant: str) -> Files:
        """Where they know each other apart, everybody has files of their own."""
        return own_files(self._import_root if self._shared else self._import_root / tenant)
