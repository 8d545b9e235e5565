"""The authorization server's keys (JWKS), kept for a while and taken up anew when they change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from mnemolog.services.gateway.auth.admission import AuthUnavailable, Unauthenticated
from mnemolog.services.gateway.auth.asking import Asking, Away
from mnemolog.services.gateway.auth.trusted import Trusted, secure

FRESH_S: Final = 300.0
"""How long keys are used before they are asked for again."""
STALE_S: Final = 24 * 3600.0
"""How long they are used when nobody answers."""
PAUSE_S: Final = 5.0
"""How long after being asked the server is left alone."""
REFRESH_S: Final = 6.0
"""How long finding the keys may take in all."""
MAX_KEYS: Final = 100
RSA_BITS: Final = range(2048, 8193)
_log = structlog.get_logger()

_EC: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
ALGORITHMS: Final[dict[str, tuple[str, tuple[str | None, ...]]]] = {
    **{f"{kind}{size}": ("RSA", (None,)) for kind in ("RS", "PS") for size in (256, 384, 512)},
    **{name: ("EC", (curve,)) for name, curve in _EC.items()},
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
}
"""What a token may be signed with, and the type and curves of the key that takes. Whoever verifies
with these cannot sign."""


class PublicKey:
    """One key of the set. `data` is what the server says of it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._made: dict[str, jwt.PyJWK | None] = {}

    def of(self, algorithm: str) -> jwt.PyJWK | None:
        """To verify what is signed with `algorithm`; None: it does not fit."""
        if algorithm not in self._made:
            self._made[algorithm] = self._make(algorithm) if self._fits(algorithm) else None
        return self._made[algorithm]

    def _fits(self, algorithm: str) -> bool:
        kind, curves = ALGORITHMS[algorithm]
        data = self._data
        operations = data.get("key_ops", ["verify"])
        return (
            data.get("kty") == kind
            and data.get("crv") in curves
            and data.get("alg", algorithm) == algorithm
            and data.get("use", "sig") == "sig"
            and isinstance(operations, list)
            and "verify" in operations
        )

    def _make(self, algorithm: str) -> jwt.PyJWK | None:
        # What is secret in it is none of ours, and a key that has it would not be a public one.
        public = {name: value for name, value in self._data.items() if name != "d"}
        try:
            found = jwt.PyJWK(public, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            return None
        if isinstance(found.key, RSAPublicKey) and found.key.key_size not in RSA_BITS:
            return None
        return found


class Jwks:
    """`find` asks for the set; it raises `Away`."""

    def __init__(
        self, find: Callable[[], Awaitable[Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._clock = clock
        self._keys: dict[str, list[PublicKey]] = {}
        self._found_s: float | None = None
        self._tried_s: float | None = None
        self._failed = False
        self._asking: asyncio.Task[None] | None = None

    async def key(self, kid: str, algorithm: str) -> jwt.PyJWK:
        """Raises `Unauthenticated` when there is none, `AuthUnavailable` when nobody can tell."""
        known = self._known(kid, algorithm)
        if known is not None:
            if self._age_s() > FRESH_S:
                self._ask()
            return known
        self._ask()
        # Who was away the last time is not waited for.
        if self._asking is not None and not self._failed:
            await asyncio.shield(self._asking)
            known = self._known(kid, algorithm)
        if known is not None:
            return known
        if self._failed:
            raise AuthUnavailable("The authorization server cannot be asked for its keys now")
        raise Unauthenticated("The token is signed with a key that is not known")

    def _known(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        if self._age_s() > STALE_S:
            return None
        made = (key.of(algorithm) for key in self._keys.get(kid, ()))
        return next((key for key in made if key is not None), None)

    def _age_s(self) -> float:
        return float("inf") if self._found_s is None else self._clock() - self._found_s

    def _ask(self) -> None:
        """In the background, once at a time and not too often."""
        tired = self._tried_s is not None and self._clock() - self._tried_s < PAUSE_S
        if self._asking is None and not tired:
            self._asking = asyncio.create_task(self._asked())

    async def _asked(self) -> None:
        try:
            async with asyncio.timeout(REFRESH_S):
                found = keys_in(await self._find())
        except (Away, TimeoutError) as error:
            why = str(error) or f"no answer within {REFRESH_S:g} s"
            if not self._failed:
                _log.warning("the authorization server's keys cannot be had", reason=why)
            self._failed = True
        else:
            self._keys, self._found_s, self._failed = found, self._clock(), False
        finally:
            self._tried_s = self._clock()
            self._asking = None

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()


def keys_in(answer: Any) -> dict[str, list[PublicKey]]:
    """The keys of a set by their id; those without one cannot be asked for. Raises `Away`."""
    given = answer.get("keys") if isinstance(answer, dict) else None
    if not isinstance(given, list):
        raise Away("the answer is no set of keys")
    found: dict[str, list[PublicKey]] = {}
    for one in given[:MAX_KEYS]:
        if isinstance(one, dict) and isinstance(one.get("kid"), str):
            found.setdefault(one["kid"], []).append(PublicKey(one))
    return found


class Found:
    """Where the keys are: as `trusted` says, else as the server says of itself (RFC 8414, OpenID
    Connect Discovery)."""

    def __init__(self, trusted: Trusted, asking: Asking) -> None:
        self._trusted = trusted
        self._asking = asking
        self._url: str | None = None

    async def __call__(self) -> Any:
        url = self._trusted.jwks_url or self._url or await self._discovered()
        # A server that moves its keys says so: where they are is asked again if they are not there.
        self._url = None
        answer = await self._asking.get(url)
        self._url = url
        return answer

    async def _discovered(self) -> str:
        issuer = self._trusted.issuer
        why = Away("it does not describe itself")
        for url in places(issuer):
            try:
                about = await self._asking.get(url)
            except Away as away:
                if not away.reached:
                    raise
                why = away
                continue
            keys = about.get("jwks_uri") if isinstance(about, dict) else None
            if not isinstance(keys, str) or about.get("issuer") != issuer:
                raise Away("it calls itself something else than OAUTH_ISSUER, or names no jwks_uri")
            if not secure(keys):
                raise Away("its jwks_uri is no https:// URL")
            return keys
        raise why


def places(issuer: str) -> list[str]:
    """Where a server may describe itself."""
    scheme, _, rest = issuer.partition("://")
    host, slash, path = rest.rstrip("/").partition("/")
    origin, path = f"{scheme}://{host}/.well-known", slash + path
    found = [
        f"{origin}/oauth-authorization-server{path}",
        f"{origin}/openid-configuration{path}",
        f"{issuer.rstrip('/')}/.well-known/openid-configuration",
    ]
    return list(dict.fromkeys(found))
