"""Lets in who can say who they are, and says to the others how they could.

What a message needs is known once it is read (`needs.py`); what a route needs, before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from mnemolog.services.gateway.auth.failures import Failures
from mnemolog.services.gateway.auth.lasting import Lasting
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.gateway.calls import AUTHORIZATION_FAILED
from mnemolog.services.gateway.connections import no_room
from mnemolog.services.gateway.jsonrpc import SERVER_ERROR, error
from mnemolog.services.gateway.limits import Limits, Taken, of_address
from mnemolog.services.scopes import READ, WRITE
from mnemolog.services.shares import Shares

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
        return msgspec.structs.replace(self._caller, key=of_address(address))


class _TooOften(Exception):
    def __init__(self, taken: Taken) -> None:
        super().__init__()
        self.taken = taken


class Entry:
    """Has `auth` find out who asks; with `limited`, who fails too often is not looked at."""

    def __init__(self, auth: Authenticator, *, limited: bool) -> None:
        self.auth = auth
        self._failures = Failures() if limited else None

    async def caller(self, scope: Scope, headers: dict[str, str] | None = None) -> Caller:
        """Who it is. When that is not known, `headers` say how often it may be tried again."""
        failures, address = self._failures, _address(scope)
        token, wrong = None, None
        try:
            token = _presented(scope)
        except Unauthenticated as unreadable:
            wrong = unreadable
        if failures is not None and (refused := failures.too_many(token, address)) is not None:
            raise _TooOften(refused)
        try:
            if wrong is not None:
                raise wrong
            found = await self.auth.caller(token, address)
        except Unauthenticated:
            if failures is not None:
                told = failures.failed(token, address).headers
                if headers is not None:
                    headers.update(told)
            raise
        if failures is not None:
            failures.succeeded(token)
        return found


class Admission:
    """`needs` has the scope of each path that takes one; None: that, and what a request counts as,
    is for the route to say. The others are reads. What is not in it is open to everybody. `shares`
    are what tenants have of the requests that may be under way; None: there is one alone."""

    def __init__(
        self,
        app: ASGIApp,
        entry: Entry,
        needs: Mapping[str, str | None],
        limits: Limits | None = None,
        shares: Shares | None = None,
    ) -> None:
        self._app = app
        self._entry = entry
        self._needs = needs
        self._limits = limits
        self._shares = shares

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in self._needs:
            await self._app(scope, receive, send)
            return
        needed = self._needs[scope["path"]]
        headers: dict[str, str] = {}
        try:
            caller = await self._entry.caller(scope, headers)
        except _TooOften as refused:
            assert self._limits is not None
            await self._limits.send_away(refused.taken, (scope, receive, send))
            return
        except Unauthenticated as unknown:
            answer = self._unknown(unknown, needed, headers)
        except AuthUnavailable as away:
            answer = error(503, SERVER_ERROR, str(away), {"Retry-After": "1"})
        else:
            scope[CALLER] = caller
            await self._let_in(caller, needed, (scope, receive, send))
            return
        await answer(scope, receive, send)

    async def _let_in(
        self, caller: Caller, needed: str | None, to: tuple[Scope, Receive, Send]
    ) -> None:
        scope, receive, send = to
        if needed is not None and self._limits is not None:
            counted = await self._limits.admit(caller.key, "read", to)
            if counted is None:
                return
            send = counted
        app = self._lasting(scope, needed)
        if needed is not None and needed not in caller.scopes:
            await insufficient(self._entry.auth, caller, needed)(scope, receive, send)
        elif self._shares is None:
            await app(scope, receive, send)
        else:
            await _share(app, self._shares, caller.tenant, (scope, receive, send))

    def _lasting(self, scope: Scope, needed: str | None) -> ASGIApp:
        """The application, as long as the caller is known."""

        async def known() -> bool:
            try:
                await self._entry.auth.caller(_presented(scope), _address(scope))
            except Unauthenticated:
                return False
            except AuthUnavailable:
                return True  # Who was let in is not sent away because nobody can be asked.
            return True

        def refusal() -> Response:
            over = Unauthenticated("What the caller was known by holds no longer")
            return self._unknown(over, needed, {})

        return Lasting(self._app, known, refusal)

    def _unknown(
        self, unknown: Unauthenticated, needed: str | None, headers: dict[str, str]
    ) -> Response:
        scopes = (READ, WRITE) if needed is None else (needed,)
        challenge = {"WWW-Authenticate": self._entry.auth.challenge(unknown.error, scopes)}
        return error(401, AUTHENTICATION_FAILED, str(unknown), challenge | headers)


async def _share(
    app: ASGIApp, shares: Shares, tenant: str, to: tuple[Scope, Receive, Send]
) -> None:
    if not shares.has_room(tenant):
        await no_room("As many requests of this tenant as there may be are under way")(*to)
        return
    shares.take(tenant)
    try:
        await app(*to)
    finally:
        shares.leave(tenant)


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


async def may(entry: Entry, scope: Scope, needed: str) -> bool:
    """Whether who sent a request to an open route has a scope; whoever cannot say who they are has
    none."""
    try:
        caller = await entry.caller(scope)
    except (Unauthenticated, AuthUnavailable, _TooOften):
        return False
    return needed in caller.scopes


def caller_of(scope: Scope) -> Caller:
    found: Caller = scope[CALLER]
    return found


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return "" if client is None else str(client[0])


def _presented(scope: Scope) -> str | None:
    """The bearer token; None: there is none."""
    given = HTTPConnection(scope).headers.getlist("authorization")
    if not given:
        return None
    kind, _, token = given[0].partition(" ")
    if len(given) > 1 or kind.lower() != "bearer" or not token.strip():
        raise Unauthenticated("Authorization must be one header: Bearer TOKEN", "invalid_request")
    token = token.strip()
    if len(token) > MAX_TOKEN:
        raise Unauthenticated(f"A token has at most {MAX_TOKEN:,} characters")
    if not _TOKEN.fullmatch(token):
        raise Unauthenticated("The token is none: it has characters that no token has")
    return token
