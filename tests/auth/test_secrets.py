"""No key, token, secret or hash is anywhere but where it belongs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from mnemolog.services.gateway.auth import key_file
from tests.auth.conftest import Known, made, put, said
from tests.auth.issuer import Issuer
from tests.auth.server import CLIENT
from tests.e2e.conftest import Server, run

Serve = Callable[..., Server]


def everything(server: Server, keep: tuple[str, ...] = ()) -> bytes:
    """All that the service wrote: log, state, indexes, what it said."""
    files = [one for one in server.data.rglob("*") if one.is_file() and one.name not in keep]
    assert any(one.name == "log.db" for one in files)
    return server.errors.read_bytes() + b"".join(one.read_bytes() for one in files)


def shown(*clients: Known) -> bytes:
    """All that clients are told, right or wrong."""
    found = []
    for client in clients:
        for told in (
            client.learns("cups slip when wet"),
            client.asked("recall", {"query": "cups"}),
            client.asked("no such tool", {}),
            client.asked("learn", {"insight": "x"}, {"actor": "somebody else"}),
            client.told("/mcp", b"{", **{"Content-Type": "application/json"}),
            client.told("/events?follow=false&last=50"),
            client.told("/metrics"),
            client.told("/healthz"),
            client.told("/nowhere"),
        ):
            found += [str(told.headers).encode(), told.body]
    return b"".join(found)


def pieces(token: str) -> list[bytes]:
    """What would give it away: the parts of it that are not said by everybody's."""
    return [one.encode() for one in token.replace("_", ".").split(".") if len(one) > 15]


def test_no_key_and_no_hash_is_told(serve: Serve) -> None:
    server = serve("--auth", "keys")
    keys = [put(server.data, "robot-7", scopes="read write admin"), made(server.data, "robot-8")]
    said(server.data, "revoke", "robot-8")
    wrong = key_file.new_key()[0]
    told = shown(*(Known(server, key) for key in (*keys, wrong)))
    commands = [said(server.data, "list"), said(server.data, "list", "--json")]
    commands += [said(server.data, "revoke", "robot-8", "--json")]
    commands.append(run("audit", "log", "--json", "--last", "1000", "--data", str(server.data)))
    told += "".join(one.stdout + one.stderr for one in commands).encode()
    server.stop()
    written = everything(server, keep=("keys.json",))
    kept = (server.data / "keys.json").read_bytes()
    for key in (*keys, wrong):
        _, id_, secret = key.split("_")
        assert id_.encode() not in told and id_.encode() not in written
        assert secret.encode() not in kept
        for one in (secret, key_file.hashed(key), key_file.hashed(secret)):
            assert one.encode() not in told
            assert one.encode() not in written


def test_no_token_and_no_secret_is_told(serve: Serve, issuer: Issuer, tmp_path: Path) -> None:
    env = {
        "OAUTH_ISSUER": issuer.url,
        "OAUTH_JWKS_URL": f"{issuer.url}/jwks",
        "OAUTH_INTROSPECTION_URL": f"{issuer.url}/introspect",
        "OAUTH_CLIENT_ID": CLIENT[0],
        "OAUTH_CLIENT_SECRET": CLIENT[1],
    }
    server = serve("--auth", "oauth", env=env)
    audience, every = f"{server.url}/mcp", "memory:read memory:write memory:admin"
    tokens = [
        issuer.token(audience, scope=every),
        issuer.token(audience, scope="memory:read"),
        issuer.token(audience, opaque=True),
        issuer.token(audience, exp=1),
        issuer.token("https://elsewhere.example", scope=every),
        issuer.token(audience)[:-9] + "AAAAAAAAA",
    ]
    told = shown(*(Known(server, token) for token in tokens))
    assert b"cups slip when wet" in told, "there was something to be told"
    issuer.stop()
    later = list(tokens[:3])
    told += shown(*(Known(server, token) for token in later))
    server.stop()
    written = everything(server)
    assert b"cannot be introspected" in written, "the log tells what happened"
    common = {issuer_part(token) for token in tokens}
    for token in tokens:
        for one in pieces(token):
            if one in common:
                continue
            assert one not in told
            assert one not in written
    assert CLIENT[1].encode() not in told + written


def issuer_part(token: str) -> bytes:
    """The head, which says how it is signed and is the same in all."""
    return token.split(".")[0].encode() if token.count(".") == 2 else b""


def test_settings_that_are_shown_hold_no_secret() -> None:
    from mnemolog.services.gateway.auth.trusted import trusted

    env = {
        "OAUTH_ISSUER": "https://as.example",
        "OAUTH_INTROSPECTION_URL": "https://as.example/introspect",
        "OAUTH_CLIENT_ID": "memory",
        "OAUTH_CLIENT_SECRET": "not to be told",
    }
    found = trusted(env, resource="https://memory.example/mcp", tenant="default")
    assert "not to be told" not in repr(found)
    assert json.dumps(found.issuer) == '"https://as.example"'
