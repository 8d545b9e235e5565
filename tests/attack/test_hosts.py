"""Requests for somebody else's name, from somebody else's pages, or not clear where they end."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from mnemolog.services.api import Unavailable
from mnemolog.services.gateway.health import without_paths
from mnemolog.services.gateway.hosts import Hosts
from mnemolog.services.gateway.logs import printable
from tests.attack.conftest import Attacked, answer, head, is_closed, until

LOOPBACK = Hosts("LocalHost", "127.0.0.1", ["memory.example", "10.0.0.7:443"])
ANY = Hosts("0.0.0.0", "0.0.0.0", ["node1"])
ONE = Hosts("192.168.1.5", "192.168.1.5")


@pytest.mark.parametrize(
    ("hosts", "good", "bad"),
    [
        (
            LOOPBACK,
            "localhost LOCALHOST localhost. 127.0.0.1 127.0.0.2 ::1 memory.example 10.0.0.7",
            "evil.example 192.168.1.5 memory.example.evil localhost.evil 2130706433",
        ),
        (Hosts("::1", "::1"), "::1 localhost 127.0.0.1", "::2 evil.example"),
        (ANY, "0.0.0.0 localhost 127.0.0.1 192.168.1.5 ::1 fe80::1 node1", "evil.example node2"),
        (Hosts("::", "::"), "::1 localhost 192.168.1.5", "evil.example"),
        (ONE, "192.168.1.5", "localhost 127.0.0.1 192.168.1.6 evil.example"),
        (Hosts("box", "192.168.1.5"), "box BOX 192.168.1.5", "localhost evil.example"),
        (Hosts("::ffff:127.0.0.1", "::ffff:127.0.0.1"), "localhost 127.0.0.1", "evil.example"),
    ],
)
def test_under_which_names_it_may_be_asked(hosts: Hosts, good: str, bad: str) -> None:
    for name in good.split():
        assert hosts.accepts(name.lower().rstrip(".")), name
    for name in bad.split():
        assert not hosts.accepts(name), name
    assert not hosts.accepts(None)


@pytest.mark.parametrize(
    ("hosts", "origin", "host", "allowed"),
    [
        (LOOPBACK, "http://localhost:8080", "127.0.0.1", True),
        (LOOPBACK, "http://[::1]:8080", "localhost", True),
        (LOOPBACK, "https://memory.example", "memory.example", True),
        (LOOPBACK, "http://evil.example", "localhost", False),
        (LOOPBACK, "http://6.6.6.6", "localhost", False),
        (LOOPBACK, "null", "localhost", False),
        (LOOPBACK, "file://", "localhost", False),
        (LOOPBACK, "http://localhost@evil.example", "localhost", False),
        (LOOPBACK, "http://[", "localhost", False),
        (ANY, "http://192.168.1.5:3000", "192.168.1.5", True),
        (ANY, "http://6.6.6.6", "192.168.1.5", False),
        (ONE, "http://localhost", "192.168.1.5", False),
    ],
)
def test_from_which_pages(hosts: Hosts, origin: str, host: str, allowed: bool) -> None:
    assert hosts.accepts_origin(origin, host) is allowed


def test_a_wrong_setting_is_told() -> None:
    with pytest.raises(Unavailable, match="allowed_hosts takes names"):
        Hosts("127.0.0.1", "127.0.0.1", ["http://memory.example/"])


PATHS = ("/", "/healthz", "/readyz", "/livez", "/metrics", "/events?follow=false", "/nowhere")


def status_of(server: Attacked, request: bytes) -> tuple[int, str]:
    with server.connect() as client:
        client.sendall(request)
        status, _, body = answer(client)
    return status, body.decode()


@pytest.mark.parametrize("given", ["LOCALHOST", "localhost", "127.0.0.1"])
def test_every_path_of_a_local_server_is_guarded(
    attacked: Callable[..., Attacked], given: str
) -> None:
    server = attacked("--host", given)
    for path in PATHS:
        expected = 404 if path == "/nowhere" else 200
        assert status_of(server, head(path, host="Localhost:7"))[0] == expected
        assert status_of(server, head(path, "Origin: http://127.0.0.1:7"))[0] == expected
        assert status_of(server, head(path, "Origin: http://evil.example"))[0] == 403
        assert status_of(server, f"GET {path} HTTP/1.0\r\n\r\n".encode())[0] == 421
        status, body = status_of(server, head(path, host="evil.example"))
        assert status == 421
        assert "MNEMOLOG_ALLOWED_HOSTS" in json.loads(body)["error"]


def test_on_every_address_names_are_listed(attacked: Callable[..., Attacked]) -> None:
    server = attacked("--host", "0.0.0.0", "--insecure", "--allowed-hosts", "node1, memory.example")
    for name in ("127.0.0.1:3000", "localhost", "node1:3000", "Memory.Example", "[::1]:3000"):
        assert status_of(server, head("/healthz", host=name))[0] == 200, name
    for name in ("evil.example", "node2", "node1.evil.example", "a b"):
        assert status_of(server, head("/healthz", host=name))[0] in (400, 421), name


def test_no_directory_is_shown(attacked: Callable[..., Attacked]) -> None:
    server = attacked(env={"MNEMOLOG_MODELS": "/somewhere/models"})
    paths = ("/", "/healthz", "/readyz", "/metrics")
    shown = "".join(server.client().get(path)[1] for path in paths)
    assert str(server.data.parent) not in shown
    assert "/somewhere" not in shown
    said = {"reasons": ["no model in /var/lib/x, see http://a:1/b", "GET and/or 1/2"], "n": 1}
    assert without_paths(said) == {
        "reasons": ["no model in (a path), see http://a:1/b", "GET and/or 1/2"],
        "n": 1,
    }


def test_a_request_that_ends_in_two_places_is_none(attacked: Callable[..., Attacked]) -> None:
    server = attacked()
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    lines = ["Content-Type: application/json", "Transfer-Encoding: chunked"]
    hidden = head("/healthz")
    for more in ([f"Content-Length: {len(body)}"], ["Content-Length: 0"]):
        with server.connect() as client:
            client.sendall(head("/mcp", *lines, *more, method="POST"))
            client.sendall(b"%x\r\n%s\r\n0\r\n\r\n%s" % (len(body), body, hidden))
            status, _, told = answer(client)
            assert status == 400
            assert b"not both" in told
            until(lambda client=client: is_closed(client))  # type: ignore[misc]
    old = head("/mcp", *lines, method="POST").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert status_of(server, old + b"0\r\n\r\n")[0] == 400


def test_what_clients_send_does_not_reach_a_terminal(attacked: Callable[..., Attacked]) -> None:
    server = attacked()
    evil = "\x1b]0;evil\x07\x1b[2J"
    status_of(server, head("/mcp", host=evil))
    status_of(server, head("/mcp", f"Origin: http://{evil}"))
    status_of(server, head("/mcp", "Upgrade: " + evil, "Connection: upgrade"))
    server.client().call("learn" + evil, {evil: evil})
    with server.connect() as client:
        client.sendall(b"GET / HTTP/9.9\r\n" + evil.encode() + b"\r\n\r\n")
        assert answer(client)[0] == 400
    server.stop()
    said = server.errors.read_text()
    assert "\x1b" not in said and "\x07" not in said
    assert "Traceback" not in said
    assert printable("a\x1b[2J\tä\n") == "a\\x1b[2J\tä\n"
