"""Asking the authorization server about each token (RFC 7662), so that a revoked one is refused."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import structlog

from mnemolog.services.gateway.auth.admission import AuthUnavailable, Unauthenticated
from mnemolog.services.gateway.auth.asking import Asking, Away

KEPT_S: Final = 10.0
"""How long an answer is used: so long a revoked token may go on."""
MAX_KEPT: Final = 10_000
MAX_UNDER_WAY: Final = 64
PAUSE_S: Final = 2.0
"""How long a server that does not answer is not asked again."""
_log = structlog.get_logger()

Claims = dict[str, Any]


class Introspection:
    """Tokens are kept as hashes, their answers for moments."""

    def __init__(
        self,
        url: str,
        client: tuple[str, str],
        asking: Asking,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._client = client
        self._asking = asking
        self._clock, self._wall = clock, wall
        self._kept: OrderedDict[bytes, tuple[float, Claims]] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Task[Claims]] = {}
        self._away_until_s = 0.0

    async def claims(self, token: str) -> Claims:
        """What the server says of an active token. Raises `Unauthenticated`, or
        `AuthUnavailable`."""
        name = hashlib.sha256(token.encode()).digest()
        until_s, found = self._kept.get(name, (0.0, {}))
        if until_s <= self._clock():
            found = await self._fresh(name, token)
        if found.get("active") is not True:
            raise Unauthenticated("The token is not active: revoked, expired, or none at all")
        return found

    async def _fresh(self, name: bytes, token: str) -> Claims:
        asked = self._under_way.get(name)
        if asked is None:
            if self._clock() < self._away_until_s or len(self._under_way) >= MAX_UNDER_WAY:
                raise _unavailable()
            asked = asyncio.create_task(self._asked(name, token))
            self._under_way[name] = asked
            asked.add_done_callback(lambda task: self._done(name, task))
        try:
            return await asyncio.shield(asked)
        except Away:
            raise _unavailable() from None

    async def _asked(self, name: bytes, token: str) -> Claims:
        form = {"token": token, "token_type_hint": "access_token"}
        try:
            found = await self._asking.post(self._url, form, self._client)
            if not isinstance(found, dict):
                raise Away("the answer is no object")
        except Away as away:
            _log.warning("a token cannot be introspected", reason=str(away))
            # Of a server that answers, one strange answer says nothing about the next.
            if not away.reached:
                self._away_until_s = self._clock() + PAUSE_S
            raise
        self._keep(name, found)
        return found

    def _keep(self, name: bytes, found: Claims) -> None:
        left_s = moment(found.get("exp", math.inf)) - self._wall()
        self._kept.pop(name, None)
        self._kept[name] = (self._clock() + min(KEPT_S, left_s), found)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def _done(self, name: bytes, task: asyncio.Task[Claims]) -> None:
        del self._under_way[name]
        if not task.cancelled():
            task.exception()  # Nobody may be left to look at it.

    async def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()


def moment(value: Any) -> float:
    """Seconds since 1970; what is no time is neither before nor after any."""
    try:
        return float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return math.nan


def _unavailable() -> AuthUnavailable:
    return AuthUnavailable("The authorization server cannot be asked about the token now")
