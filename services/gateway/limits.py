"""How often a client may ask: a bucket of tokens each for reads and writes, filled at a rate."""

from __future__ import annotations

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

from mnemolog.services.api import Unavailable
from mnemolog.services.gateway.auth.admission import error
from mnemolog.services.gateway.auth.needs import Kind

MAX_CLIENTS: Final = 10_000
"""So many clients are remembered; whoever asked longest ago is forgotten first."""
RATE_LIMIT_EXCEEDED: Final = -32001
_RATE = re.compile(r"(read|write)=(\d{1,6}(?:\.\d{1,3})?)(?:/(\d{1,6}))?")


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

    @property
    def allowed(self) -> bool:
        return not self.wait_s

    @property
    def retry_after_s(self) -> int:
        return math.ceil(self.wait_s)

    @property
    def headers(self) -> dict[str, str]:
        found = {
            "X-RateLimit-Limit": f"{self.rate.per_s:g}",
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset_at_s),
        }
        return found if self.allowed else {**found, "Retry-After": str(self.retry_after_s)}

    @property
    def data(self) -> dict[str, Any]:
        """What the error says besides."""
        return {
            "retry_after": self.retry_after_s,
            "limit": self.rate.per_s,
            "remaining": self.remaining,
            "reset": self.reset_at_s,
        }


class _Bucket(msgspec.Struct):
    tokens: float
    at_s: float


class Limits:
    """`rates` are everybody's but for those in `own`, by the client's key. `refused` counts the
    requests that came too often."""

    def __init__(
        self,
        rates: Rates = DEFAULT,
        own: Mapping[str, Rates] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.refused: dict[Kind, int] = {"read": 0, "write": 0}
        self._rates = rates
        self._own = own or {}
        self._clock, self._wall = clock, wall
        self._buckets: OrderedDict[tuple[str, Kind], _Bucket] = OrderedDict()

    def take(self, client: str, kind: Kind) -> Taken:
        """One token of the client's, if there is one."""
        rate = self._own.get(client, self._rates)[kind]
        now_s = self._clock()
        bucket = self._buckets.pop((client, kind), None) or _Bucket(rate.burst, now_s)
        grown = bucket.tokens + (now_s - bucket.at_s) * rate.per_s
        bucket.tokens, bucket.at_s = min(rate.burst, grown), now_s
        wait_s = 0.0
        if bucket.tokens >= 1:
            bucket.tokens -= 1
        else:
            wait_s = (1 - bucket.tokens) / rate.per_s
            self.refused[kind] += 1
        self._buckets[client, kind] = bucket
        if len(self._buckets) > 2 * MAX_CLIENTS:
            self._buckets.popitem(last=False)
        full_s = (rate.burst - bucket.tokens) / rate.per_s
        return Taken(rate, int(bucket.tokens), math.ceil(self._wall() + full_s), wait_s)


def too_often(taken: Taken, id_: int | str | None) -> Response:
    sentence = "Rate limit exceeded"
    return error(429, RATE_LIMIT_EXCEEDED, sentence, taken.headers, id_, taken.data)


def read_limits(everybody: str, own: str) -> Limits | None:
    """From the settings; None: switched off."""
    word = everybody.strip().lower()
    if word in ("off", "false", "0", "no"):
        return None
    rates = DEFAULT if word in ("", "on", "true", "1", "yes") else _rates(everybody, DEFAULT)
    clients: dict[str, Rates] = {}
    for one in filter(None, (one.strip() for one in own.split(","))):
        name, _, given = one.partition(" ")
        clients[name] = _rates(given, rates)
    return Limits(rates, clients)


def _rates(text: str, base: Rates) -> Rates:
    found = dict(base)
    parts = text.split()
    for part in parts:
        match = _RATE.fullmatch(part)
        if match is None or float(match[2]) <= 0:
            raise _wrong(text)
        kind: Kind = "read" if match[1] == "read" else "write"
        per_s = float(match[2])
        burst = float(match[3]) if match[3] else max(1.0, 1.5 * per_s)
        if burst < 1:
            raise _wrong(text)
        found[kind] = Rate(per_s, burst)
    if not parts:
        raise _wrong(text)
    return found


def _wrong(text: str) -> Unavailable:
    return Unavailable(
        "rate_limits can be on, off, or rates with bursts such as 'read=100/150 write=20/30'; "
        "client_limits such rates after a client's name or address, separated by commas; "
        f"not {text[:80]!r}"
    )
