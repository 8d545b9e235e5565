"""A stream ends with the key or token that opened it."""

from __future__ import annotations

import socket
from collections.abc import Callable

from tests.attack.conftest import Attacked, answer, until
from tests.attack.test_hanging_up import listening
from tests.auth.conftest import Known, put, said
from tests.auth.issuer import Issuer
from tests.e2e.conftest import PATIENCE_S, Server


def stream(server: Server, token: str) -> socket.socket:
    """`GET /events`, once it has begun."""
    host, port = server.url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), PATIENCE_S)
    head = ("GET /events HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}")
    client.sendall("\r\n".join([*head, "", ""]).encode())
    got = b""
    while b"event: present" not in got:
        more = client.recv(65536)
        assert more, got
        got += more
    assert got.startswith(b"HTTP/1.1 200 ")
    return client


def rest(client: socket.socket) -> bytes:
    """All that comes until the answer is over."""
    got = b""
    while not got.endswith(b"0\r\n\r\n"):
        more = client.recv(65536)
        if not more:
            break
        got += more
    return got


def test_a_stream_ends_when_its_key_is_revoked(serve: Callable[..., Server]) -> None:
    server = serve("--auth", "keys")
    going, staying = put(server.data, "going"), put(server.data, "staying")
    with stream(server, going) as first, stream(server, staying) as second:
        assert said(server.data, "revoke", "going").returncode == 0
        assert rest(first).endswith(b"0\r\n\r\n"), "it ends as an answer should"
        assert Known(server, staying).learns("cups slip when wet").status == 200
        assert b"cups slip" in second.recv(65536)
    server.stop()
    assert "Traceback" not in server.errors.read_text()


def test_a_subscription_ends_with_its_key(serve: Callable[..., Attacked]) -> None:
    server = serve("--auth", "keys")
    key = put(server.data, "going")
    asked = listening(3).replace(b"\r\n", f"\r\nAuthorization: Bearer {key}\r\n".encode(), 1)
    watching = Known(server, put(server.data, "watching", scopes="admin"))

    def streams() -> str:
        shown = watching.told("/metrics").body.decode()
        return next(one for one in shown.splitlines() if one.startswith("mnemolog_event_streams "))

    with server.connect() as client:
        client.sendall(asked)
        assert answer(client)[0] == 200
        assert streams() == "mnemolog_event_streams 3.0"
        assert said(server.data, "revoke", "going").returncode == 0
        assert rest(client).endswith(b"0\r\n\r\n")
        until(lambda: streams() == "mnemolog_event_streams 0.0")
    server.stop()
    assert "Traceback" not in server.errors.read_text()


def test_a_stream_ends_with_its_token(serve: Callable[..., Server], issuer: Issuer) -> None:
    env = {
        "OAUTH_ISSUER": issuer.url,
        "OAUTH_INTROSPECTION_URL": f"{issuer.url}/introspect",
        "OAUTH_CLIENT_ID": "memory:1",
        "OAUTH_CLIENT_SECRET": "a secret/+ of ours",
    }
    server = serve("--auth", "oauth", env=env)
    token = issuer.token(f"{server.url}/mcp")
    with stream(server, token) as client:
        # Nobody is sent away because the authorization server is.
        issuer.stop()
        until(lambda: Known(server, token).learns("x").status == 503)
        issuer.start()
        issuer.revoke(token)
        assert rest(client).endswith(b"0\r\n\r\n")
    server.stop()
    assert "Traceback" not in server.errors.read_text()
