"""Lets in who can say who they are, and says to the others how they could.

What a message needs is known once it is read (`needs.py`); what a route needs, before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from mnemolog.services.gateway.auth.lasting import Lasting
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.gateway.calls import AUTHORIZATION_FAILED
from mnemolog.services.scopes import READ, WRITE

SERVER_ERROR: Final = -32000
AUTHENTICATION_FAILED: Final = -32002
CALLER: Final = "mnemolog.caller"
"""Where a request's scope has it."""
MAX_TOKEN: Final = 16 * 1024
"""Characters of a key or token."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class Unauthenticated(Exception):
    """Nobody is known by what was sent. `error` is what RFC 6750 calls it; None: nothing was."""

    def __init__(self, sentence: str, error: str | None = "invalid_token") -> None:
        super().__init__(sentence)
        self.error = error


def nobody() -> Unauthenticated:
    """Nothing was sent to be known by."""
    return Unauthenticated("Who asks has to say so: Authorization: Bearer TOKEN", None)


class AuthUnavailable(Exception):
    """Who it is cannot be found out now."""


class Authenticator(Protocol):
    @property
    def routes(self) -> Sequence[BaseRoute]:
        """What everybody may ask to find out how to come in."""
        return ()

    async def caller(self, token: str | None, address: str) -> Caller:
        """Who sent the bearer token, None: none was. Raises `Unauthenticated`, or
        `AuthUnavailable`."""
        ...

    def challenge(self, error: str | None, scopes: tuple[str, ...]) -> str:
        """What `WWW-Authenticate` says to who is not let in; `scopes` are what it takes."""
        return challenge(error, scopes)

    async def close(self) -> None:
        """Nobody asks any more."""
        return


class Everybody(Authenticator):
    """Whoever gets here is taken for the service's own user; calls are counted by address."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def caller(self, token: str | None, address: str) -> Caller:
        return msgspec.structs.replace(self._caller, key=address)


class Admission:
    """`needs` has the scope of each path that takes one; None: that is for the route to say. What
    is not in it is open to everybody."""

    def __init__(self, app: ASGIApp, auth: Authenticator, needs: Mapping[str, str | None]) -> None:
        self._app = app
        self._auth = auth
        self._needs = needs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in self._needs:
            await self._app(scope, receive, send)
            return
        needed = self._needs[scope["path"]]
        try:
            caller = await self._auth.caller(*_presented(scope))
        except Unauthenticated as unknown:
            answer = self._unknown(unknown, needed)
        except AuthUnavailable as away:
            answer = error(503, SERVER_ERROR, str(away), {"Retry-After": "1"})
        else:
            scope[CALLER] = caller
            if needed is None or needed in caller.scopes:
                await self._lasting(scope, needed)(scope, receive, send)
                return
            answer = insufficient(self._auth, caller, needed)
        await answer(scope, receive, send)

    def _lasting(self, scope: Scope, needed: str | None) -> ASGIApp:
        """The application, as long as the caller is known."""

        async def known() -> bool:
            try:
                await self._auth.caller(*_presented(scope))
            except Unauthenticated:
                return False
            except AuthUnavailable:
                return True  # Who was let in is not sent away because nobody can be asked.
            return True

        def refusal() -> Response:
            over = Unauthenticated("What the caller was known by holds no longer")
            return self._unknown(over, needed)

        return Lasting(self._app, known, refusal)

    def _unknown(self, unknown: Unauthenticated, needed: str | None) -> Response:
        scopes = (READ, WRITE) if needed is None else (needed,)
        headers = {"WWW-Authenticate": self._auth.challenge(unknown.error, scopes)}
        return error(401, AUTHENTICATION_FAILED, str(unknown), headers)


def insufficient(
    auth: Authenticator, caller: Caller, needed: str, id_: int | str | None = None
) -> Response:
    """The caller may come again with a token of a wider scope."""
    # With what they have: a token for the new scope alone would take the others away.
    scopes = (*sorted(caller.scopes - {needed}), needed)
    headers = {"WWW-Authenticate": auth.challenge("insufficient_scope", scopes)}
    return error(403, AUTHORIZATION_FAILED, needs_scope(needed), headers, id_)


def needs_scope(needed: str) -> str:
    return f"This needs the scope {needed}, which the caller does not have"


def challenge(error: str | None, scopes: tuple[str, ...], **more: str) -> str:
    """A `WWW-Authenticate` header. Everything in it is the service's own words."""
    parts = {"realm": "mnemolog"}
    if error is not None:
        parts["error"] = error
    if scopes:
        parts["scope"] = " ".join(scopes)
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in (parts | more).items())


async def may(auth: Authenticator, scope: Scope, needed: str) -> bool:
    """Whether who sent a request to an open route has a scope; whoever cannot say who they are has
    none."""
    try:
        caller = await auth.caller(*_presented(scope))
    except (Unauthenticated, AuthUnavailable):
        return False
    return needed in caller.scopes


def caller_of(scope: Scope) -> Caller:
    found: Caller = scope[CALLER]
    return found


def _presented(scope: Scope) -> tuple[str | None, str]:
    """The bearer token, and the address it came from."""
    connection = HTTPConnection(scope)
    given = connection.headers.getlist("authorization")
    address = "" if connection.client is None else connection.client.host
    if not given:
        return None, address
    kind, _, token = given[0].partition(" ")
    if len(given) > 1 or kind.lower() != "bearer" or not token.strip():
        raise Unauthenticated("Authorization must be one header: Bearer TOKEN", "invalid_request")
    token = token.strip()
    if len(token) > MAX_TOKEN:
        raise Unauthenticated(f"A token has at most {MAX_TOKEN:,} characters")
    if not _TOKEN.fullmatch(token):
        raise Unauthenticated("The token is none: it has characters that no token has")
    return token, address


def error(
    status: int,
    code: int,
    sentence: str,
    headers: dict[str, str] | None = None,
    id_: int | str | None = None,
    data: dict[str, Any] | None = None,
) -> Response:
    """A JSON-RPC error as an HTTP answer of its own."""
    told = {"code": code, "message": sentence} | ({} if data is None else {"data": data})
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "error": told})
    return Response(body, status, headers, media_type="application/json")
