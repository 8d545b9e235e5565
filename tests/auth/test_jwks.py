"""The authorization server's keys: rotated, away, hanging, and asked for no more than needed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mnemolog.services.gateway.auth import jwks
from mnemolog.services.gateway.auth.admission import AuthUnavailable, Unauthenticated
from mnemolog.services.gateway.auth.asking import Away
from mnemolog.services.gateway.auth.jwks import Jwks, PublicKey, places
from tests.attack.conftest import until
from tests.auth.conftest import Known, turns
from tests.auth.issuer import Issuer
from tests.e2e.conftest import Server

Serve = Callable[..., Server]
INSIGHT = "cups slip when wet"


def served(serve: Serve, issuer: Issuer, **env: str) -> tuple[Server, Callable[..., Known]]:
    server = serve("--auth", "oauth", env={"OAUTH_ISSUER": issuer.url, **env})

    def known(**more: Any) -> Known:
        return Known(server, issuer.token(f"{server.url}/mcp", **more))

    return server, known


def test_a_new_key_is_taken_up_while_it_serves(serve: Serve, issuer: Issuer) -> None:
    _, known = served(serve, issuer, OAUTH_JWKS_URL=f"{issuer.url}/jwks")
    first = known()
    assert first.learns(INSIGHT).status == 200
    issuer.rotate(("RS256", "second"))
    second = known()
    until_in(second)
    assert issuer.asked_for("about") == 0, "where the keys are was said"
    assert first.learns(INSIGHT).status == 401, "its key is gone"


def until_in(client: Known) -> None:
    """Keys are asked for once in some seconds, and a token may come in between."""
    until(lambda: client.learns(INSIGHT).status == 200)


def test_with_the_server_away_known_keys_go_on_and_unknown_are_refused(
    serve: Serve, issuer: Issuer
) -> None:
    server, known = served(serve, issuer)
    good, strange = known(), known(header={"kid": "second"})
    assert good.learns(INSIGHT).status == 200
    issuer.stop()
    for _ in range(20):
        assert good.learns(INSIGHT).status == 200
        assert strange.learns(INSIGHT).status in (401, 503)
    issuer.start()
    issuer.rotate(("RS256", "third"))
    until_in(known())
    assert server.process.poll() is None


def test_a_server_that_is_away_from_the_beginning(serve: Serve, issuer: Issuer) -> None:
    server = serve("--auth", "oauth", env={"OAUTH_ISSUER": issuer.url})
    token = issuer.token(f"{server.url}/mcp")
    issuer.stop()
    for _ in range(3):
        told = Known(server, token).learns(INSIGHT)
        assert told.status == 503
        assert told.headers["Retry-After"]
    assert Known(server).learns(INSIGHT).status == 401
    assert Known(server).told("/healthz").status == 200
    issuer.start()
    until_in(Known(server, issuer.token(f"{server.url}/mcp")))


# --- by itself ------------------------------------------------------------------------------------

KEY = ec.generate_private_key(ec.SECP256R1())


def jwk(kid: str, **more: Any) -> dict[str, Any]:
    made = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key()))
    return {**made, "kid": kid, **more}


class Source:
    """Gives the sets it is told to, and counts."""

    def __init__(self, *kids: str) -> None:
        self.kids: tuple[str, ...] | None = kids
        self.asked = 0
        self.wait: asyncio.Event | None = None
        self.now_s = 1000.0

    async def __call__(self) -> Any:
        self.asked += 1
        if self.wait is not None:
            await self.wait.wait()
        if self.kids is None:
            raise Away("ConnectError", reached=False)
        return {"keys": [jwk(kid) for kid in self.kids]}

    def jwks(self) -> Jwks:
        return Jwks(self, lambda: self.now_s)


def spec(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_many_who_wait_ask_once() -> None:
    async def test() -> None:
        source = Source("a")
        source.wait = asyncio.Event()
        found = source.jwks()
        waiting = [asyncio.create_task(found.key("a", "ES256")) for _ in range(50)]
        await turns()
        waiting[0].cancel()
        source.wait.set()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert source.asked == 1
        assert isinstance(done[0], asyncio.CancelledError)
        assert all(isinstance(one, jwt.PyJWK) for one in done[1:])

    spec(test)


def test_unknown_keys_are_asked_for_once_in_a_while() -> None:
    async def test() -> None:
        source = Source("a")
        found = source.jwks()
        for number in range(20):
            with pytest.raises(Unauthenticated):
                await found.key(f"made up {number}", "ES256")
        assert source.asked == 1
        source.kids = ("a", "b")
        source.now_s += jwks.PAUSE_S
        assert await found.key("b", "ES256")
        assert source.asked == 2

    spec(test)


def test_keys_are_used_while_new_ones_are_asked_for() -> None:
    async def test() -> None:
        source = Source("a")
        found = source.jwks()
        await found.key("a", "ES256")
        source.now_s += jwks.FRESH_S + 1
        source.wait = asyncio.Event()
        assert await found.key("a", "ES256"), "nobody waits"
        await turns()
        source.kids = ("b",)
        source.wait.set()
        await turns()
        with pytest.raises(Unauthenticated):
            await found.key("a", "ES256")

    spec(test)


def test_of_a_server_that_is_away_keys_are_used_for_a_day() -> None:
    async def test() -> None:
        source = Source("a")
        found = source.jwks()
        await found.key("a", "ES256")
        source.kids = None
        source.now_s += jwks.STALE_S - 1
        assert await found.key("a", "ES256")
        await turns()
        source.wait = asyncio.Event()
        source.now_s += jwks.PAUSE_S
        with pytest.raises(AuthUnavailable):
            await found.key("b", "ES256")
        with pytest.raises(AuthUnavailable):
            await found.key("a", "ES256")
        await turns()
        assert source.asked == 3, "who was away is asked again, and not waited for"
        await found.close()

    spec(test)


@pytest.mark.parametrize("answer", [None, [], {"keys": None}, {}, {"keys": {"kid": "a"}}, "keys"])
def test_what_is_no_set_is_none(answer: Any) -> None:
    with pytest.raises(Away):
        jwks.keys_in(answer)


def test_of_a_set_what_can_be_used_is() -> None:
    odd = [7, None, {}, {"kid": 7}, {"kid": "x"}, {"kid": "y", "kty": "EC", "crv": "P-256"}]
    found = jwks.keys_in({"keys": [*odd, jwk("a")] + [jwk(str(n)) for n in range(200)]})
    assert found["a"][0].of("ES256") is not None
    assert found["x"][0].of("ES256") is None
    assert found["y"][0].of("ES256") is None
    assert len(found) < 105


@pytest.mark.parametrize(
    "wrong",
    [
        {"kty": "oct", "k": "c2VjcmV0"},
        {"alg": "ES384"},
        {"use": "enc"},
        {"key_ops": ["encrypt"]},
        {"key_ops": "verify"},
        {"crv": "P-384"},
        {"crv": "secp256k1"},
    ],
)
def test_a_key_is_used_for_what_it_is_for(wrong: dict[str, Any]) -> None:
    assert PublicKey(jwk("a")).of("ES256") is not None
    assert PublicKey(jwk("a", **wrong)).of("ES256") is None
    for algorithm in ("ES384", "ES512", "RS256", "PS256", "EdDSA"):
        assert PublicKey(jwk("a")).of(algorithm) is None


def test_a_short_key_is_none() -> None:
    for bits, fits in ((1024, False), (2048, True)):
        key = rsa.generate_private_key(65537, bits).public_key()
        made = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key)), "kid": "a"}
        assert (PublicKey(made).of("RS256") is not None) is fits


def test_where_a_server_describes_itself() -> None:
    assert places("https://as.example") == [
        "https://as.example/.well-known/oauth-authorization-server",
        "https://as.example/.well-known/openid-configuration",
    ]
    assert places("https://as.example/realms/lab/") == [
        "https://as.example/.well-known/oauth-authorization-server/realms/lab",
        "https://as.example/.well-known/openid-configuration/realms/lab",
        "https://as.example/realms/lab/.well-known/openid-configuration",
    ]
