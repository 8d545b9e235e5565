"""What of the health is told, and to whom."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from mnemolog.services.api import Unavailable
from mnemolog.services.gateway.auth.admission import (
    Authenticator,
    AuthUnavailable,
    Entry,
    Everybody,
    Unauthenticated,
)
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.gateway.health import ENDING, Health
from mnemolog.services.scopes import ADMIN, READ

WELL = {"status": "ok", "reasons": [], "data": "/srv/memory"}
ILL = {"status": "degraded", "reasons": ["/srv/memory/log.db was moved"], "data": "/srv/memory"}


class Service:
    def __init__(self, health: dict[str, Any]) -> None:
        self._health = health

    async def health(self) -> dict[str, Any]:
        if not self._health:
            raise Unavailable("/srv/memory is held by process 7")
        return self._health


class Tokens:
    """Knows `admin` and `reader`; asked for `slow`, it does not come back."""

    async def caller(self, token: str | None, address: str) -> Caller:
        if token == "slow":
            await asyncio.Event().wait()
        if token == "away":
            raise AuthUnavailable("who it is cannot be found out now")
        if token not in ("admin", "reader"):
            raise Unauthenticated("nobody")
        return Caller(scopes=frozenset([ADMIN if token == "admin" else READ]))

    def challenge(self, error: str | None, scopes: tuple[str, ...]) -> str:
        return "Bearer"


def asked(*tokens: str) -> Request:
    headers = [(b"authorization", f"Bearer {one}".encode()) for one in tokens]
    return Request({"type": "http", "headers": headers, "client": ("127.0.0.1", 1)})


def told(
    route: str,
    health: dict[str, Any],
    request: Request,
    auth: Authenticator | None = None,
    *,
    ends: bool = False,
) -> tuple[int, Any]:
    async def ask() -> Response:
        ending = asyncio.Event()
        if ends:
            ending.set()
        entry = Entry(auth or Tokens(), limited=False)  # type: ignore[arg-type]
        routes = Health(Service(health), entry, ending)  # type: ignore[arg-type]
        answer: Response = await getattr(routes, route)(request)
        return answer

    answer = asyncio.run(ask())
    return answer.status_code, json.loads(bytes(answer.body))


@pytest.mark.parametrize("route", ["healthz", "readyz"])
@pytest.mark.parametrize("tokens", [(), ("reader",), ("wrong",), ("away",), ("admin", "admin")])
def test_who_may_not_know_hears_whether_it_is_well(route: str, tokens: tuple[str, ...]) -> None:
    status, body = told(route, ILL, asked(*tokens))
    assert status == 503
    assert body == {"status": "degraded" if route == "healthz" else "not ready"}
    assert told(route, WELL, asked(*tokens))[0] == 200


def test_finding_out_who_asks_takes_no_longer_than_a_moment() -> None:
    assert told("readyz", WELL, asked("slow")) == (200, {"status": "ready"})


def test_who_may_know_hears_why_without_directories() -> None:
    assert told("readyz", ILL, asked("admin")) == (
        503,
        {"status": "not ready", "reasons": ["(a path) was moved"]},
    )
    assert told("healthz", ILL, asked("admin")) == (
        503,
        {"status": "degraded", "reasons": ["(a path) was moved"]},
    )


def test_where_nobody_is_asked_everybody_may_know() -> None:
    body = told("healthz", ILL, asked(), Everybody(Caller()))[1]
    assert body["reasons"] == ["(a path) was moved"]


@pytest.mark.parametrize(
    ("health", "reason"),
    [
        ({}, "(a path) is held by process 7"),
        ({"status": "starting"}, "The service is starting"),
        (
            {"status": "ok", "role": "projector", "takes_calls": False},
            "This process is a projector and takes no calls",
        ),
    ],
)
def test_what_cannot_answer_calls_is_not_ready(health: dict[str, Any], reason: str) -> None:
    assert told("readyz", health, asked("admin")) == (
        503,
        {"status": "not ready", "reasons": [reason]},
    )


def test_what_is_ending_is_not_ready_and_lives() -> None:
    assert told("readyz", WELL, asked("admin"), ends=True)[1]["reasons"] == [ENDING]
    assert told("livez", {}, asked(), ends=True) == (200, {"status": "alive"})
