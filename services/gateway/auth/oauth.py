"""OAuth 2: tokens of an authorization server, and how clients find it (RFC 9728)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from mnemolog.services.gateway.auth.admission import Authenticator, challenge, nobody
from mnemolog.services.gateway.auth.asking import Asking
from mnemolog.services.gateway.auth.introspection import Claims, Introspection
from mnemolog.services.gateway.auth.jwks import Found, Jwks
from mnemolog.services.gateway.auth.tokens import bearer, check, verified
from mnemolog.services.gateway.auth.trusted import Trusted
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.gateway.identity import TITLE
from mnemolog.services.scopes import SCOPES

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


class OAuth(Authenticator):
    """Signed tokens are verified here; with an introspection endpoint every token is asked about
    there too, which is how it can be revoked. `secret` is this server's own."""

    def __init__(self, trusted: Trusted, secret: str = "") -> None:
        self._trusted = trusted
        self._asking = Asking()
        self._introspection: Introspection | None = None
        self._jwks: Jwks | None = None
        if trusted.introspection_url is not None:
            client = (trusted.client_id, secret)
            self._introspection = Introspection(trusted.introspection_url, client, self._asking)
        if trusted.introspection_url is None or trusted.jwks_url is not None:
            self._jwks = Jwks(Found(trusted, self._asking))
        parts = urlsplit(trusted.resource)
        self._metadata_url = f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"

    async def caller(self, token: str | None, address: str) -> Caller:
        if token is None:
            raise nobody()
        return bearer(await self._claims(token), self._trusted)

    def challenge(self, error: str | None, scopes: tuple[str, ...]) -> str:
        return challenge(error, scopes, resource_metadata=self._metadata_url)

    @property
    def routes(self) -> Sequence[BaseRoute]:
        paths = {WELL_KNOWN, f"{WELL_KNOWN}/mcp", urlsplit(self._metadata_url).path}
        return [Route(path, self._metadata, methods=["GET"]) for path in sorted(paths)]

    async def close(self) -> None:
        for part in (self._jwks, self._introspection, self._asking):
            if part is not None:
                await part.close()

    async def _claims(self, token: str) -> Claims:
        # With introspection a token need not be a signed one.
        signed = self._introspection is None or token.count(".") == 2
        found: Claims = {}
        if self._jwks is not None and signed:
            found = await verified(token, self._jwks, self._trusted)
        if self._introspection is not None:
            found = found | await self._introspection.claims(token)
            check(found, self._trusted)
        return found

    async def _metadata(self, _: Request) -> Response:
        about = {
            "resource": self._trusted.resource,
            "authorization_servers": [self._trusted.issuer],
            "scopes_supported": SCOPES,
            "bearer_methods_supported": ["header"],
            "resource_name": TITLE,
        }
        headers = {"Cache-Control": "max-age=300"}
        return Response(msgspec.json.encode(about), 200, headers, media_type="application/json")
