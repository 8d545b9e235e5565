"""How often a client may ask: a bucket of tokens each for reads and writes, filled at a rate."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mnemolog.services.api import Unavailable
from mnemolog.services.gateway.auth.needs import Kind
from mnemolog.services.gateway.jsonrpc import RATE_LIMIT_EXCEEDED, error

MAX_CLIENTS: Final = 10_000
"""So many clients are remembered; whoever asked longest ago is forgotten first."""
PAUSE_S = 0.5
"""How long who comes again before it was told to has to wait to hear so: to refuse is work, too,
and a flood of it would be everybody's."""
MAX_PAUSED: Final = 256
"""So many at a time: those who wait are requests under way, and others need room for theirs."""
_RATE = re.compile(r"(read|write)=(\d{1,6}(?:\.\d{1,3})?)(?:/(\d{1,6}))?")
_LITTLE: Final = 1e-9
"""Of a token: what adding up fractions may lose, so that who waited as told is not sent away."""
_NETWORK: Final = 64
"""Bits of an IPv6 address that tell clients apart: the others are one client's to choose."""


class Rate(msgspec.Struct, frozen=True):
    """So many a second, and so many at once."""

    per_s: float
    burst: float


Rates = Mapping[Kind, Rate]
DEFAULT: Final[Rates] = {"read": Rate(100, 150), "write": Rate(20, 30)}


class Taken(msgspec.Struct, frozen=True):
    """What came of asking for a token. `wait_s` is how long until there is one; 0: it was given."""

    rate: Rate
    remaining: int
    reset_at_s: int
    """When the bucket is full again, in seconds since 1970."""
    wait_s: float = 0.0
    too_early: bool = False
    """Whether an answer before this one said to wait for longer."""

    @property
    def allowed(self) -> bool:
        return not self.wait_s

    @property
    def retry_after_s(self) -> int:
        return math.ceil(self.wait_s)

    @property
    def headers(self) -> dict[str, str]:
        found = {
            "X-RateLimit-Limit": str(self._limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset_at_s),
        }
        return found if self.allowed else {**found, "Retry-After": str(self.retry_after_s)}

    @property
    def data(self) -> dict[str, Any]:
        """What the error says besides."""
        return {
            "retry_after": self.retry_after_s,
            "limit": self._limit,
            "remaining": self.remaining,
            "reset": self.reset_at_s,
        }

    @property
    def _limit(self) -> float:
        whole = int(self.rate.per_s)
        return whole if whole == self.rate.per_s else self.rate.per_s


class _Bucket(msgspec.Struct):
    tokens: float
    at_s: float
    told_s: float = 0.0
    """Who asks was told to come again then."""


class Buckets:
    """One for each name, full at first; `most` of them are remembered."""

    def __init__(
        self,
        most: int = 2 * MAX_CLIENTS,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._most = most
        self._clock, self._wall = clock, wall
        self._buckets: OrderedDict[object, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: object, rate: Rate, count: int = 1) -> Taken:
        """`count` tokens, if there is a whole one; with 0 it is only looked whether there is."""
        now_s = self._clock()
        bucket = self._buckets.pop(name, None) or _Bucket(rate.burst, now_s)
        grown = bucket.tokens + max(0.0, now_s - bucket.at_s) * rate.per_s
        bucket.tokens, bucket.at_s = min(rate.burst, grown), now_s
        wait_s, too_early = 0.0, False
        if bucket.tokens >= 1 - _LITTLE:
            bucket.tokens = max(0.0, bucket.tokens - count)
        else:
            wait_s = (1 - bucket.tokens) / rate.per_s
            too_early = now_s < bucket.told_s
            bucket.told_s = max(bucket.told_s, now_s + math.ceil(wait_s))
        self._buckets[name] = bucket
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        full_s = (rate.burst - bucket.tokens) / rate.per_s
        reset_at_s = math.ceil(self._wall() + full_s)
        return Taken(rate, int(bucket.tokens), reset_at_s, wait_s, too_early)


class Limits:
    """`rates` are everybody's but for those in `own`, by the client's key. `refused` counts the
    requests that came too often."""

    def __init__(
        self,
        rates: Rates = DEFAULT,
        own: Mapping[str, Rates] | None = None,
        buckets: Buckets | None = None,
    ) -> None:
        self.refused: dict[Kind, int] = {"read": 0, "write": 0}
        self._paused = 0
        self._rates = rates
        self._own = own or {}
        self._buckets = Buckets() if buckets is None else buckets

    def take(self, client: str, kind: Kind) -> Taken:
        """One token of the client's, if there is one."""
        rate = self._own.get(client, self._rates)[kind]
        taken = self._buckets.take((client, kind), rate)
        if not taken.allowed:
            self.refused[kind] += 1
        return taken

    async def admit(
        self,
        client: str,
        kind: Kind,
        to: tuple[Scope, Receive, Send],
        id_: int | str | None = None,
    ) -> Send | None:
        """The way for the answer to a request, which then says how much is left; None: it came too
        often, and that was said."""
        taken = self.take(client, kind)
        if taken.allowed:
            return with_headers(to[2], taken.headers)
        await self.send_away(taken, to, id_)
        return None

    async def send_away(
        self, taken: Taken, to: tuple[Scope, Receive, Send], id_: int | str | None = None
    ) -> None:
        if taken.too_early and self._paused < MAX_PAUSED:
            self._paused += 1
            try:
                await asyncio.sleep(PAUSE_S)
            finally:
                self._paused -= 1
        await too_often(taken, id_)(*to)


def with_headers(send: Send, headers: dict[str, str]) -> Send:
    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return adding


def too_often(taken: Taken, id_: int | str | None = None) -> Response:
    sentence = "Rate limit exceeded"
    return error(429, RATE_LIMIT_EXCEEDED, sentence, taken.headers, id_, taken.data)


def of_address(address: str) -> str:
    """What clients that are known by nothing else are counted by."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), _NETWORK), strict=False))


def read_limits(everybody: str, own: str) -> Limits | None:
    """From the settings; None: switched off. Raises `Unavailable`."""
    word = everybody.strip().lower()
    clients: dict[str, Rates] = {}
    off = word in ("off", "false", "0", "no")
    on = off or word in ("", "on", "true", "1", "yes")
    rates = DEFAULT if on else _rates(everybody, DEFAULT)
    for one in filter(None, (one.strip() for one in own.split(","))):
        name, _, given = one.partition(" ")
        if of_address(name) in clients:
            raise _wrong(one)
        clients[of_address(name)] = _rates(given, rates)
    return None if off else Limits(rates, clients)


def _rates(text: str, base: Rates) -> Rates:
    found: dict[Kind, Rate] = {}
    for part in text.split():
        match = _RATE.fullmatch(part)
        if match is None:
            raise _wrong(text)
        kind: Kind = "read" if match[1] == "read" else "write"
        per_s = float(match[2])
        burst = float(match[3]) if match[3] else max(1.0, 1.5 * per_s)
        if kind in found or per_s <= 0 or burst < 1:
            raise _wrong(text)
        found[kind] = Rate(per_s, burst)
    if not found:
        raise _wrong(text)
    return {**base, **found}


def _wrong(text: str) -> Unavailable:
    return Unavailable(
        "rate_limits can be on, off, or rates with bursts such as 'read=100/150 write=20/30', each "
        "more than 0 and given once; client_limits such rates after a client's name or address, "
        f"separated by commas; not {text[:80]!r}"
    )
