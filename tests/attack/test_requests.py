"""Requests that are none of ours: other methods, encodings, and headers without an end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.conftest import Attacked, answer, head, is_closed, until

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    server = Attacked(Path(tmp_path_factory.mktemp("requests")) / "data")
    yield server
    server.stop()


def told(server: Attacked, request: bytes) -> tuple[int, dict[str, str], bytes]:
    with server.connect() as client:
        client.sendall(request)
        return answer(client)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_messages_are_posted(served: Attacked, method: str, version: str) -> None:
    lines = ("Accept: text/event-stream", f"MCP-Protocol-Version: {version}")
    with served.connect() as client:
        client.sendall(head("/mcp", *lines, "Connection: close", method=method))
        first = client.makefile("rb").read().decode()
    assert first.startswith("HTTP/1.1 405 ")
    assert "allow: POST" in first


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity", "x"])
def test_what_is_packed_is_not_unpacked(served: Attacked, encoding: str) -> None:
    data = gzip.compress(b" " * 5_000_000 + PING)
    lines = (
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        f"Content-Encoding: {encoding}",
    )
    status, _, body = told(served, head("/mcp", *lines, method="POST") + data)
    assert (status, b"no Content-Encoding is taken" in body) == (415, True)


def test_what_is_said_not_to_be_packed_is_taken(served: Attacked) -> None:
    lines = (
        "Content-Type: application/json",
        f"Content-Length: {len(PING)}",
        "Content-Encoding: Identity",
    )
    status, _, body = told(served, head("/mcp", *lines, method="POST") + PING)
    assert (status, json.loads(body)["result"]) == (200, {})


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (head("/healthz?" + "x" * 40_000), 200),
        (head("/healthz?" + "x" * 50_000), 414),
        (head("/healthz", "X-Long: " + "x" * 40_000), 200),
        (head("/healthz", "X-Long: " + "x" * 70_000), 431),
        (head("/healthz", *(f"X-{n}: y" for n in range(90))), 200),
        (head("/healthz", *(f"X-{n}: y" for n in range(110))), 431),
        (head("/healthz", *(f"X-{n}: y" for n in range(20_000))), 431),
    ],
    ids=["address", "long address", "header", "long header", "headers", "more", "many"],
)
def test_a_header_has_an_end(served: Attacked, request_: bytes, status: int) -> None:
    got, headers, body = told(served, request_)
    assert got == status, body
    if status != 200:
        assert headers["connection"] == "close"
        assert "at most" in json.loads(body)["error"]


@pytest.mark.parametrize(
    ("start", "status"),
    [(b"GET /", 414), (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ", 431)],
    ids=["address", "header"],
)
def test_one_that_does_not_come_to_an_end_is_not_waited_for(
    served: Attacked, start: bytes, status: int
) -> None:
    with served.connect() as client:
        client.sendall(start)
        sent = 0
        while sent < 70_000:
            sent += client.send(b"x" * 1000)
        got, _, body = answer(client)
        assert got == status
        assert "is too l" in json.loads(body)["error"]
        until(lambda: is_closed(client))


def test_it_still_answers(served: Attacked) -> None:
    assert served.health()[0] == 200
