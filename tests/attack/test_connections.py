"""Connections that ask for nothing, never finish, or are too many: the others do not notice."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.attack.conftest import Attacked, answer, head, is_closed, post, until

QUICK = {"connections.HEADER_S": 1, "connections.BODY_S": 1, "connections.STALLED_S": 1}
SLOW = {"connections.HEADER_S": 600, "connections.BODY_S": 600, "http.IDLE_S": 600}
"""So that what is closed was closed for another reason."""
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}


def works(server: Attacked) -> None:
    """A new collection takes files of its own, which need descriptors."""
    client = server.client()
    client.ok("learn", {"insight": "cups slip when wet", "collection": f"c{id(client)}"})
    assert server.health()[0] == 200
    assert server.process.poll() is None


@pytest.fixture
def kept() -> Iterator[ExitStack]:
    """Connections that are closed at the end."""
    with ExitStack() as stack:
        yield stack


def connected(kept: ExitStack, server: Attacked, sent: bytes = b"") -> socket.socket:
    client = kept.enter_context(server.connect())
    client.sendall(sent)
    return client


def large(text: str) -> bytes:
    return json.dumps(
        {**CALL, "params": {"name": "learn", "arguments": {"insight": text}}}
    ).encode()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: loc",
        head("/healthz") + b"GET /heal",
        post(1000) + b"{",
        head("/mcp", "Content-Type: application/json", "Transfer-Encoding: chunked", method="POST")
        + b"5\r\n",
    ],
    ids=["nothing", "half a header", "half of a second one", "half a body", "half a chunk"],
)
def test_what_does_not_go_on_is_closed(
    attacked: Callable[..., Attacked], kept: ExitStack, sent: bytes
) -> None:
    server = attacked(limits=QUICK)
    clients = [connected(kept, server, sent) for _ in range(5)]
    until(lambda: all(is_closed(one) for one in clients))
    works(server)


def test_a_trickle_is_no_progress(attacked: Callable[..., Attacked], kept: ExitStack) -> None:
    server = attacked(limits=QUICK)
    header = connected(kept, server, b"GET /healthz HTTP/1.1\r\n")
    body = connected(kept, server, post(100_000))

    def trickled() -> bool:
        for client, byte in ((header, b"x"), (body, b" ")):
            try:
                client.sendall(byte)
            except ConnectionError:
                continue
        return is_closed(header) and is_closed(body)

    until(trickled)


def test_who_takes_nothing_is_closed(attacked: Callable[..., Attacked], kept: ExitStack) -> None:
    server = attacked(limits=QUICK)
    client = server.client()
    for number in range(8):
        observations = [f"{number} {one} " + "x" * 1900 for one in range(100)]
        entity = {"name": f"n{number}", "entityType": "t", "observations": observations}
        client.ok("create_entities", {"entities": [entity]})
    names = {"name": "open_nodes", "arguments": {"names": [f"n{one}" for one in range(8)]}}
    asking = json.dumps({**CALL, "params": names}).encode()
    stuck = kept.enter_context(socket.socket())
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.connect(server.address)
    stuck.sendall((post(len(asking)) + asking) * 8)
    poll = select.poll()
    poll.register(stuck, 0)  # Nothing is read; that it was cut off is told nevertheless.
    until(lambda: bool(poll.poll(0)))
    works(server)


def test_idle_connections_make_room(attacked: Callable[..., Attacked], kept: ExitStack) -> None:
    """The longest idle first, so that a client which asks now and then keeps its connection."""
    server = attacked(limits=SLOW, descriptors=128)
    regular = connected(kept, server)
    clients = [connected(kept, server) for _ in range(16)]
    for _ in range(20):
        clients += [
            connected(kept, server, b"" if len(clients) % 2 else b"GET /") for _ in range(16)
        ]
        regular.sendall(head("/healthz"))
        assert answer(regular)[0] == 200
    works(server)
    assert sum(map(is_closed, clients)) > 200
    assert not is_closed(regular)
    assert server.errors.stat().st_size < 10_000


def test_health_is_told_when_all_are_busy(
    attacked: Callable[..., Attacked], kept: ExitStack
) -> None:
    server = attacked(limits=SLOW, descriptors=128)
    streams = [connected(kept, server, head("/events")) for _ in range(56)]
    for one in streams:
        assert answer(one)[0] == 200
    for _ in range(100):
        with server.connect() as client:
            client.sendall(head("/events"))
            status, headers, body = answer(client)
            assert (status, headers["retry-after"]) == (503, "1")
            assert "try again" in json.loads(body)["error"]
    assert server.health() == (200, server.health()[1])
    assert server.client().get("/readyz")[0] == 200
    assert server.client().get("/livez") == (200, '{"status":"alive"}')
    assert not any(map(is_closed, streams[1:]))
    streams.pop().close()
    until(lambda: server.client().get("/metrics")[0] == 200)
    works(server)
    assert server.errors.stat().st_size < 10_000


def test_unfinished_bodies_are_bounded_together(
    attacked: Callable[..., Attacked], kept: ExitStack
) -> None:
    server = attacked(limits={**SLOW, "bodies.HURRY_S": 600})
    body = large("x" * 4_000_000)
    before = server.memory_mb()
    clients = [connected(kept, server) for _ in range(60)]
    for client in clients:
        with suppress(ConnectionError):
            client.sendall(post(len(body)) + body[:-1])
    until(lambda: sum(map(is_closed, clients)) >= 44)  # 16 of them fit.
    assert sum(map(is_closed, clients)) == 44
    assert server.memory_mb() - before < 150
    works(server)
    status, told = server.client().post(body, {"Content-Type": "application/json"})
    assert status == 503
    assert b"large messages" in told
    kept.close()
    until(lambda: "too large" in server.client().refused("learn", {"insight": "x" * 4_000_000}))


@pytest.mark.parametrize("trickle", [False, True], ids=["hanging", "trickling"])
def test_who_takes_too_long_over_a_body_makes_room_for_others(
    attacked: Callable[..., Attacked], kept: ExitStack, trickle: bool
) -> None:
    server = attacked(limits={**SLOW, "bodies.HURRY_S": 0.2})
    body = large("x" * 4_000_000)
    before = server.memory_mb()
    hanging = [connected(kept, server, post(len(body))) for _ in range(60)]
    for client in hanging:
        with suppress(ConnectionError):
            client.sendall(body[:-1000])
    until(lambda: sum(map(is_closed, hanging)) >= 44)

    def served() -> bool:
        """At once, or when those that hang have been at it for long enough."""
        if trickle:
            for client in hanging:
                with suppress(ConnectionError):
                    client.sendall(b"x")
        asked = {"Content-Type": "application/json"}
        return server.client().post(large("x" * 1_000_000), asked)[0] == 200

    until(served)
    for _ in range(30):
        assert served()
    assert not all(map(is_closed, hanging)), "only as many as have to go"
    assert server.memory_mb() - before < 150
    works(server)


def test_an_invalid_request_is_nothing_to_write_about(attacked: Callable[..., Attacked]) -> None:
    server = attacked()
    chunked = head(
        "/mcp", "Content-Type: application/json", "Transfer-Encoding: chunked", method="POST"
    )
    streaming = head("/events", "Transfer-Encoding: chunked")
    for sent in (b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", chunked + b"zz\r\n"):
        with server.connect() as client:
            client.sendall(sent)
            until(lambda client=client: is_closed(client))  # type: ignore[misc]
    with server.connect() as client:
        client.sendall(streaming)
        assert answer(client)[0] == 200
        client.sendall(b"zz\r\n")
        until(lambda: is_closed(client))
    until(lambda: server.streams() == 0)
    works(server)
    server.stop()
    assert len(server.errors.read_text().splitlines()) == 1
