"""What `serve` refuses to begin with, and what it makes of the environment."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mnemolog.infra.settings import load
from mnemolog.services.api import Unavailable
from mnemolog.services.gateway.auth.trusted import client_secret, reached_at, trusted
from tests.auth.conftest import Known
from tests.e2e.conftest import Server, run

EVERY_ADDRESS = ("--host", "0.0.0.0", "--model", "none")
ISSUER = {"OAUTH_ISSUER": "https://as.example"}
HERE = "https://memory.example/mcp"


def test_a_network_is_not_served_without_asking_who_is_there(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"), "--port", "0")
    for host in ("0.0.0.0", "::") if socket.has_dualstack_ipv6() else ("0.0.0.0",):
        done = run("serve", *data, "--host", host, "--model", "none")
        assert done.returncode == 1
        assert "--auth keys" in done.stderr and "--insecure" in done.stderr
        assert "serving" not in done.stderr


def test_with_insecure_it_is_and_says_so(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", *EVERY_ADDRESS, "--insecure")
    try:
        assert "may read and change everything" in server.errors.read_text()
    finally:
        server.stop()


def test_with_keys_a_network_is_served(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", *EVERY_ADDRESS, "--auth", "keys")
    try:
        assert "may read and change everything" not in server.errors.read_text()
        assert Known(server).learns("x").status == 401
    finally:
        server.stop()


def test_oauth_without_an_issuer_does_not_begin(tmp_path: Path) -> None:
    done = run(
        "serve", "--data", str(tmp_path), "--port", "0", "--model", "none", "--auth", "oauth"
    )
    assert done.returncode == 1
    assert "OAUTH_ISSUER" in done.stderr


def test_the_variable_switches_oauth_on_where_nothing_else_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load().auth == "none"
    monkeypatch.setenv("OAUTH_ENABLED", "true")
    assert load().auth == "oauth"
    assert load({"auth": "keys"}).auth == "keys"
    monkeypatch.setenv("MNEMOLOG_AUTH", "none")
    assert load().auth == "none"
    monkeypatch.delenv("MNEMOLOG_AUTH")
    monkeypatch.setenv("OAUTH_ENABLED", "false")
    assert load().auth == "none"


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({}, "OAUTH_ISSUER"),
        ({"OAUTH_ISSUER": "http://as.example"}, "OAUTH_ISSUER has to be an https"),
        ({"OAUTH_ISSUER": "as.example"}, "OAUTH_ISSUER has to be an https"),
        ({"OAUTH_ISSUER": "https://me:secret@as.example"}, "OAUTH_ISSUER has to be an https"),
        ({"OAUTH_ISSUER": "https://as.example:port"}, "OAUTH_ISSUER has to be an https"),
        ({**ISSUER, "OAUTH_JWKS_URL": "http://as.example/jwks"}, "OAUTH_JWKS_URL has to be"),
        ({**ISSUER, "OAUTH_JWKS_URL": "file:///etc/passwd"}, "OAUTH_JWKS_URL has to be"),
        ({**ISSUER, "OAUTH_TOKEN_URL": "nonsense"}, "OAUTH_TOKEN_URL has to be"),
        ({**ISSUER, "OAUTH_INTROSPECTION_URL": "https://a.b/c"}, "needs OAUTH_CLIENT_ID"),
        ({**ISSUER, "OAUTH_RESOURCE": "memory"}, "OAUTH_RESOURCE has to be"),
    ],
)
def test_what_is_wrong_is_told(env: dict[str, str], sentence: str) -> None:
    with pytest.raises(Unavailable, match=sentence) as refused:
        trusted(env, resource=HERE, tenant="default")
    assert "secret@" not in str(refused.value)


def test_what_is_said_nothing_about() -> None:
    found = trusted(ISSUER, resource=HERE, tenant="mine")
    assert found.audiences == {HERE}
    assert (found.tenant_claim, found.tenant) == ("tenant", "mine")
    assert (
        trusted({**ISSUER, "OAUTH_TENANT_CLAIM": ""}, resource=HERE, tenant="x").tenant_claim == ""
    )
    several = trusted({**ISSUER, "OAUTH_AUDIENCE": "a, b"}, resource=HERE, tenant="x")
    assert several.audiences == {"a", "b"}
    with pytest.raises(Unavailable, match="OAUTH_RESOURCE"):
        trusted(ISSUER, resource=None, tenant="x")
    local = {"OAUTH_ISSUER": "http://127.0.0.1:9000", "OAUTH_JWKS_URL": "http://localhost:9/j"}
    assert trusted(local, resource=HERE, tenant="x").jwks_url == "http://localhost:9/j"


def test_what_this_server_is_reached_as() -> None:
    assert reached_at([], "127.0.0.1", 3000) == "http://127.0.0.1:3000/mcp"
    assert reached_at([], "::1", 3000) == "http://[::1]:3000/mcp"
    assert reached_at(["memory.example", "node1"], "0.0.0.0", 3000) == HERE
    assert reached_at([], "0.0.0.0", 3000) is None


def test_a_secret_can_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s\n")
    assert client_secret({"OAUTH_CLIENT_SECRET_FILE": str(tmp_path / "secret")}) == "s"
    assert client_secret({"OAUTH_CLIENT_SECRET": "t"}) == "t"
    with pytest.raises(Unavailable, match="cannot be read"):
        client_secret({"OAUTH_CLIENT_SECRET_FILE": str(tmp_path / "nowhere")})
