"""Tokens that are refused, each for its own reason, and those that are not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.auth.conftest import JSON, Known
from tests.auth.issuer import Issuer
from tests.e2e.conftest import Server, run

SECRET = "cups slip when wet"
OAUTH = ("--auth", "oauth", "--model", "none")
MINUTE_S = 60


class Given:
    """A server that knows one memory of the tenant `ours`, and who signs tokens for it."""

    def __init__(self, server: Server, issuer: Issuer) -> None:
        self.server, self.issuer = server, issuer
        self.audience = f"{server.url}/mcp"

    def token(self, **more: Any) -> str:
        return self.issuer.token(**{"audience": self.audience, **more})

    def known(self, **more: Any) -> Known:
        return Known(self.server, self.token(**more))


@pytest.fixture(scope="module")
def given(shared_issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Given]:
    env = {"OAUTH_ISSUER": shared_issuer.url}
    server = Server(tmp_path_factory.mktemp("tokens") / "data", *OAUTH, env=env)
    try:
        found = Given(server, shared_issuer)
        assert found.known().learns(SECRET).status == 200
        yield found
    finally:
        server.stop()


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def claims_of(token: str) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return found


def in_s(seconds: int) -> int:
    return int(time.time()) + seconds


def forged(given: Given) -> str:
    """All as it should be, signed by somebody else."""
    key = rsa.generate_private_key(65537, 2048)
    claims, header = claims_of(given.token()), {"kid": "first", "typ": "at+jwt"}
    return jwt.encode(claims, key, algorithm="RS256", headers=header)


def own_key(given: Given) -> str:
    """Brings along the key that it is signed with."""
    key = rsa.generate_private_key(65537, 2048)
    jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    header = {"kid": "first", "jwk": jwk, "jku": f"{given.issuer.url}/jwks"}
    return jwt.encode(claims_of(given.token()), key, algorithm="RS256", headers=header)


def unsigned(given: Given) -> str:
    header = {"alg": "none", "kid": "first", "typ": "JWT"}
    return f"{part(header)}.{part(claims_of(given.token()))}."


def by_public_key(given: Given) -> str:
    """Signed with what everybody knows, in the hope that it is taken for a shared secret."""
    public = jwt.PyJWK(given.issuer.keys()[0], "RS256").key
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{part({'alg': 'HS256', 'kid': 'first'})}.{part(claims_of(given.token()))}"
    digest = hmac.new(pem, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def changed(given: Given) -> str:
    """Its claims are others than those that were signed."""
    head, _, end = given.token().split(".")
    return f"{head}.{part(claims_of(given.token()) | {'sub': 'mallory'})}.{end}"


def stripped(given: Given) -> str:
    return given.token().rsplit(".", 1)[0] + "."


def with_(**more: Any) -> Callable[[Given], str]:
    return lambda given: given.token(**more)


REFUSED: dict[str, Callable[[Given], str]] = {
    "forged": forged,
    "signed with a key that it brings": own_key,
    "expired": lambda given: given.token(exp=in_s(-2 * MINUTE_S)),
    "not valid yet": lambda given: given.token(nbf=in_s(2 * MINUTE_S)),
    "issued in the future": lambda given: given.token(iat=in_s(2 * MINUTE_S)),
    "for another audience": with_(audience="https://elsewhere.example/mcp"),
    "for this server's root": lambda given: given.token(audience=given.server.url),
    "for nobody": with_(without=["aud"]),
    "from another issuer": with_(iss="https://elsewhere.example"),
    "from nobody": with_(without=["iss"]),
    "not signed": unsigned,
    "signed with the public key": by_public_key,
    "signed in another way than the key is for": with_(header={"alg": "PS256", "kid": "nobody's"}),
    "of a key that nobody knows": with_(header={"kid": "second"}),
    "of no key": with_(header={"kid": ""}),
    "changed": changed,
    "stripped of its signature": stripped,
    "without an end": with_(without=["exp"]),
    "with an end that is no time": with_(exp="tomorrow"),
    "with a far end": with_(exp=1e400),
    "without a tenant": with_(without=["tenant"]),
    "with an empty tenant": with_(tenant=""),
    "with a slash in its tenant": with_(tenant="ours/robot"),
    "with a line in its tenant": with_(tenant="ours\n"),
    "with a list of tenants": with_(tenant=["ours"]),
    "without a name": with_(without=["sub"]),
    "with a name to steer a terminal": with_(sub="\x1b[2J"),
    "with a long name": with_(sub="a" * 201),
    "with strange others": with_(actors=["bob", 7]),
    "bound to a key": with_(cnf={"jkt": "x"}),
    "of another kind": with_(header={"typ": "dpop+jwt"}),
    "with what has to be understood": with_(header={"crit": ["exp"], "exp": 1}),
    "nested": lambda given: base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.AA",
    "no token": lambda given: "nonsense",
    "five parts": lambda given: given.token() + ".AA.AA",
    "too long": with_(more="x" * 20_000),
}


@pytest.mark.parametrize("how", REFUSED)
def test_is_refused(given: Given, how: str) -> None:
    token = REFUSED[how](given)
    client = Known(given.server, token)
    for told in (client.asked("recall", {"query": "cups"}), client.told("/events?follow=false")):
        assert told.status == 401
        assert told.code == -32002
        asked = told.headers["WWW-Authenticate"]
        assert 'error="invalid_token"' in asked
        metadata = f"{given.server.url}/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{metadata}"' in asked
        shown = told.body.decode() + str(told.headers)
        assert SECRET not in shown
        for piece in token.split("."):
            assert len(piece) < 9 or piece not in shown


def test_what_is_right_is_let_in(given: Given) -> None:
    assert given.known().recalls("cups") == [SECRET]
    for more in (
        {"exp": in_s(-5)},
        {"nbf": in_s(5)},
        {"audience": ["https://elsewhere.example", given.audience]},
        {"header": {"typ": "JWT"}},
        {"without": ["scope"], "scp": ["memory:read"]},
        {"without": ["scope"], "scp": "memory:read openid"},
        {"without": ["sub"], "client_id": "service-1"},
    ):
        assert given.known(**more).recalls("cups") == [SECRET], more


def test_another_tenant_sees_nothing_of_ours(given: Given) -> None:
    other = given.known(tenant="theirs")
    assert other.recalls("cups") == []
    assert SECRET not in other.told("/events?follow=false&last=20").body.decode()


def test_two_headers_are_one_too_many(given: Given) -> None:
    good = given.token()
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    host, port = given.server.url.removeprefix("http://").split(":")
    for first, second in ((good, good), (good, "x"), ("x", good)):
        lines = [
            "POST /mcp HTTP/1.1",
            f"Host: {host}",
            f"Authorization: Bearer {first}",
            f"Authorization: Bearer {second}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        with socket.create_connection((host, int(port))) as client:
            client.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b'error="invalid_request"' in answer


def test_a_token_in_the_address_is_not_looked_at(given: Given) -> None:
    good = given.token()
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    assert Known(given.server).told(f"/mcp?access_token={good}", body, **JSON).status == 401
    assert Known(given.server).told(f"/events?access_token={good}").status == 401


def test_scopes_and_names_are_the_tokens(given: Given) -> None:
    reader = given.known(scope="memory:read openid")
    told = reader.learns(SECRET)
    assert (told.status, told.code) == (403, -32003)
    asked = told.headers["WWW-Authenticate"]
    assert 'error="insufficient_scope"' in asked
    assert 'scope="memory:read memory:write"' in asked
    assert "resource_metadata=" in asked
    assert given.known(without=["scope"]).asked("recall", {"query": "x"}).status == 403

    speaker = given.known(sub="fleet", actors=["bob"])
    learn = {"insight": "bob says that cups slip"}
    assert speaker.asked("learn", learn, {"actor": "bob"}).status == 200
    told = speaker.asked("learn", learn, {"actor": "alice"})
    assert (told.status, told.code) == (403, -32003)
    data = str(given.server.data)
    log = json.loads(run("audit", "log", "--json", "--data", data).stdout)
    assert {"bob", "fleet"} <= {
        one["who"].split(" via ")[0] for one in log if one["tool"] == "learn"
    }


def test_how_to_come_in_is_open_to_all(given: Given) -> None:
    about = {
        "resource": given.audience,
        "authorization_servers": [given.issuer.url],
        "scopes_supported": ["memory:read", "memory:write", "memory:admin"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Mnemolog",
    }
    for path in ("", "/mcp"):
        told = Known(given.server).told(f"/.well-known/oauth-protected-resource{path}")
        assert (told.status, told.json) == (200, about)
    told = Known(given.server).learns(SECRET)
    assert told.status == 401
    assert "error=" not in told.headers["WWW-Authenticate"]
    assert 'scope="memory:read memory:write"' in told.headers["WWW-Authenticate"]


def test_every_kind_of_key_that_is_taken(given: Given, issuer: Issuer, tmp_path: Path) -> None:
    issuer.rotate(("ES256", "curve"), ("EdDSA", "edwards"), ("PS256", "rsa"))
    server = Server(tmp_path / "data", *OAUTH, env={"OAUTH_ISSUER": issuer.url})
    try:
        own = Given(server, issuer)
        for algorithm in ("ES256", "EdDSA", "PS256"):
            assert own.known(header={"alg": algorithm}).learns(SECRET).status == 200, algorithm
    finally:
        server.stop()
