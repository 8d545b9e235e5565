"""With an introspection endpoint tokens can be revoked, and need not be signed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnemolog.services.gateway.auth import introspection
from mnemolog.services.gateway.auth.admission import AuthUnavailable, Unauthenticated
from mnemolog.services.gateway.auth.asking import Asking, Away
from mnemolog.services.gateway.auth.introspection import Introspection
from tests.attack.conftest import until
from tests.auth.conftest import Known, turns
from tests.auth.issuer import Issuer
from tests.auth.server import CLIENT
from tests.e2e.conftest import Server

Serve = Callable[..., Server]
INSIGHT = "cups slip when wet"


@pytest.fixture
def variables(issuer: Issuer, tmp_path: Path) -> dict[str, str]:
    secret = tmp_path / "secret"
    secret.write_text(CLIENT[1] + "\n")
    return {
        "OAUTH_ISSUER": issuer.url,
        "OAUTH_INTROSPECTION_URL": f"{issuer.url}/introspect",
        "OAUTH_CLIENT_ID": CLIENT[0],
        "OAUTH_CLIENT_SECRET_FILE": str(secret),
    }


@pytest.mark.parametrize("opaque", [True, False])
def test_a_revoked_token_is_refused(
    serve: Serve, issuer: Issuer, variables: dict[str, str], opaque: bool
) -> None:
    server = serve("--auth", "oauth", env=variables)
    token = issuer.token(f"{server.url}/mcp", opaque=opaque)
    bearer = Known(server, token)
    assert bearer.learns(INSIGHT).status == 200
    issuer.revoke(token)
    until(lambda: bearer.learns(INSIGHT).status == 401)
    assert "not active" in bearer.learns(INSIGHT).json["error"]["message"]
    assert issuer.asked_for("jwks") == 0


def test_what_is_signed_is_verified_first(
    serve: Serve, issuer: Issuer, variables: dict[str, str]
) -> None:
    server = serve("--auth", "oauth", env={**variables, "OAUTH_JWKS_URL": f"{issuer.url}/jwks"})
    good = issuer.token(f"{server.url}/mcp")
    assert Known(server, good).learns(INSIGHT).status == 200
    asked = issuer.asked_for("introspect")
    head, claims, end = good.split(".")
    forged = f"{head}.{claims}.{end[:-8]}AAAAAAAA"
    assert Known(server, forged).learns(INSIGHT).status == 401
    assert issuer.asked_for("introspect") == asked
    assert Known(server, issuer.token(f"{server.url}/mcp", opaque=True)).learns("x").status == 200
    issuer.revoke(good)
    until(lambda: Known(server, good).learns(INSIGHT).status == 401)


WRONG: list[dict[str, Any]] = [
    {"audience": "https://elsewhere.example/mcp"},
    {"without": ["aud"]},
    {"iss": "https://elsewhere.example"},
    {"exp": 1},
    {"exp": "soon"},
    {"nbf": 9_999_999_999},
    {"tenant": "a/b"},
    {"without": ["tenant"]},
    {"token_type": "refresh_token"},
    {"token_type": "DPoP"},
    {"active": "true"},
    {"active": 1},
]


def test_what_the_server_says_is_held_to_the_same(
    serve: Serve, issuer: Issuer, variables: dict[str, str]
) -> None:
    server = serve("--auth", "oauth", env=variables)
    usual: dict[str, Any] = {"audience": f"{server.url}/mcp", "opaque": True}
    assert Known(server, issuer.token(**usual)).learns(INSIGHT).status == 200
    for wrong in WRONG:
        told = Known(server, issuer.token(**{**usual, **wrong})).learns(INSIGHT)
        assert (told.status, told.code) == (401, -32002), wrong


def test_with_the_server_away_it_says_so(
    serve: Serve, issuer: Issuer, variables: dict[str, str]
) -> None:
    server = serve("--auth", "oauth", env=variables)
    audience = f"{server.url}/mcp"
    known, other = (Known(server, issuer.token(audience)) for _ in range(2))
    assert known.learns(INSIGHT).status == 200
    issuer.stop()
    told = other.learns(INSIGHT)
    assert (told.status, told.code) == (503, -32000)
    assert told.headers["Retry-After"]
    issuer.start()
    again = Known(server, issuer.token(audience))
    until(lambda: again.learns(INSIGHT).status == 200)


def test_a_wrong_secret_lets_nobody_in(
    serve: Serve, issuer: Issuer, variables: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("something else")
    server = serve("--auth", "oauth", env=variables)
    assert Known(server, issuer.token(f"{server.url}/mcp")).learns(INSIGHT).status == 503


# --- by itself ------------------------------------------------------------------------------------


class Answers(Asking):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.answer: Any = {"active": True}
        self.away: Away | None = None
        self.wait: asyncio.Event | None = None

    async def post(self, url: str, form: Any, client: tuple[str, str]) -> Any:
        self.asked.append(form["token"])
        if self.wait is not None:
            await self.wait.wait()
        if self.away is not None:
            raise self.away
        return self.answer


class Spec:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.answers = Answers()
        self.found = Introspection(
            "http://x", ("a", "b"), self.answers, lambda: self.now_s, lambda: self.now_s
        )


def test_an_answer_is_used_for_a_moment_and_never_past_its_end() -> None:
    async def test() -> None:
        spec = Spec()
        await spec.found.claims("t")
        spec.now_s += introspection.KEPT_S - 0.1
        await spec.found.claims("t")
        assert len(spec.answers.asked) == 1
        spec.now_s += 0.2
        spec.answers.answer = {"active": True, "exp": spec.now_s + 2}
        await spec.found.claims("t")
        assert len(spec.answers.asked) == 2
        spec.now_s += 2.1
        spec.answers.answer = {"active": False}
        with pytest.raises(Unauthenticated):
            await spec.found.claims("t")
        assert len(spec.answers.asked) == 3

    asyncio.run(test())


def test_who_is_away_is_left_alone_for_a_moment_and_known_ones_go_on() -> None:
    async def test() -> None:
        spec = Spec()
        await spec.found.claims("known")
        spec.answers.away = Away("ConnectError", reached=False)
        for number in range(5):
            with pytest.raises(AuthUnavailable):
                await spec.found.claims(f"token {number}")
        assert spec.answers.asked == ["known", "token 0"]
        assert await spec.found.claims("known")
        spec.now_s += introspection.PAUSE_S
        spec.answers.away = Away("status 500")
        for number in range(2):
            with pytest.raises(AuthUnavailable):
                await spec.found.claims(f"token {number}")
        assert len(spec.answers.asked) == 4, "what one token meets is not what others do"

    asyncio.run(test())


def test_a_flood_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        spec = Spec()
        spec.answers.wait = asyncio.Event()
        most = introspection.MAX_UNDER_WAY
        tasks = [asyncio.create_task(spec.found.claims(f"{n % 200}")) for n in range(400)]
        await turns()
        spec.answers.wait.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(one, dict) for one in done) == 2 * most
        assert sum(isinstance(one, AuthUnavailable) for one in done) == 400 - 2 * most
        assert len(spec.answers.asked) == most
        spec.answers.wait = None
        for number in range(20):
            await spec.found.claims(f"more {number}")
        assert len(spec.found._kept) <= 10

    monkeypatch.setattr(introspection, "MAX_KEPT", 10)
    asyncio.run(test())


def test_moments() -> None:
    assert introspection.moment(1.5) == 1.5
    strange: Any
    for strange in (None, "1", [], 10**400):
        assert not introspection.moment(strange) > time.time()
        assert not introspection.moment(strange) <= time.time()
