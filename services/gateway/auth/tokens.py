"""What a token says: whether it is for this server and holds now, and who its bearer is."""

from __future__ import annotations

import math
import time
from typing import Any, Final

import jwt

from mnemolog.events.ids import is_tenant
from mnemolog.services.gateway.auth.admission import Unauthenticated
from mnemolog.services.gateway.auth.introspection import Claims, moment
from mnemolog.services.gateway.auth.jwks import ALGORITHMS, Jwks
from mnemolog.services.gateway.auth.trusted import Trusted
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.scopes import EVERY

LEEWAY_S: Final = 30
"""How far clocks may be apart."""
MAX_ACTOR: Final = 200
MAX_ACTORS: Final = 1000
_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")


async def verified(token: str, jwks: Jwks, trusted: Trusted) -> Claims:
    """The claims of a signed token. Raises `Unauthenticated`, or `AuthUnavailable`."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise Unauthenticated("The token cannot be read") from None
    kid, algorithm = header.get("kid"), header.get("alg")
    # Extensions of the signature are not understood, and a token of another kind is not for here.
    if "crit" in header or "b64" in header or str(header.get("typ", "jwt")).lower() not in _TYPES:
        raise Unauthenticated("The token is of a kind that is not taken")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise Unauthenticated("The token is not signed in a way that is taken")
    if not isinstance(kid, str):
        raise Unauthenticated("The token does not say which key it is signed with")
    key = await jwks.key(kid, algorithm)
    try:
        found: Claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=sorted(trusted.audiences),
            issuer=trusted.issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iss", "aud"]},
        )
    except jwt.PyJWTError as error:
        raise Unauthenticated(_why(error)) from None
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Unauthenticated("The token cannot be read") from None
    return found


def _why(error: jwt.PyJWTError) -> str:
    """In words of ours: what the library says may repeat what is in the token."""
    if isinstance(error, jwt.ExpiredSignatureError):
        return "The token has expired"
    if isinstance(error, jwt.ImmatureSignatureError):
        return "The token is not valid yet"
    if isinstance(error, jwt.InvalidAudienceError):
        return "The token is for another service"
    if isinstance(error, jwt.InvalidIssuerError):
        return "The token is another authorization server's"
    return "The token is not valid"


def check(claims: Claims, trusted: Trusted) -> None:
    """What an introspection said of an active token is held against what is wanted."""
    now_s = time.time()
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(one, str) and one in trusted.audiences for one in named):
        raise Unauthenticated("The token is for another service")
    if claims.get("iss", trusted.issuer) != trusted.issuer:
        raise Unauthenticated("The token is another authorization server's")
    if str(claims.get("token_type", "bearer")).lower() not in ("bearer", "access_token"):
        raise Unauthenticated("The token is of a kind that is not taken")
    if not moment(claims.get("exp", math.inf)) > now_s - LEEWAY_S:
        raise Unauthenticated("The token has expired")
    if not moment(claims.get("nbf", 0)) <= now_s + LEEWAY_S:
        raise Unauthenticated("The token is not valid yet")


def bearer(claims: Claims, trusted: Trusted) -> Caller:
    """Raises `Unauthenticated` when the token does not say whose it is."""
    if "cnf" in claims:
        raise Unauthenticated("The token is bound to a key of its owner, which cannot be checked")
    tenant = claims.get(trusted.tenant_claim) if trusted.tenant_claim else trusted.tenant
    if not isinstance(tenant, str) or not is_tenant(tenant):
        raise Unauthenticated("The token does not say whose memory it is for")
    actor: Any = claims.get("sub") or claims.get("client_id")
    if not _is_actor(actor):
        raise Unauthenticated("The token does not say whose it is")
    others = claims.get("actors", [])
    if not isinstance(others, list) or len(others) > MAX_ACTORS or not all(map(_is_actor, others)):
        raise Unauthenticated("The token does not say properly for whom its bearer may speak")
    return Caller(
        tenant=tenant,
        actor=actor,
        scopes=_scopes(claims) & EVERY,
        speaks_for=frozenset(others),
        key=f"{tenant}/{actor}",
    )


def _is_actor(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ACTOR and value.isprintable()


def _scopes(claims: Claims) -> frozenset[str]:
    given = claims.get("scope", claims.get("scp"))
    if isinstance(given, str):
        return frozenset(given.split())
    listed = given if isinstance(given, list) else []
    return frozenset(one for one in listed if isinstance(one, str))
