"""Whatever a client sends, there is an answer that says what was wrong, and the service goes on.

Every tool gets arguments that its schema allows, arguments that nearly fit, and anything else; the
HTTP surface gets requests that hardly are some. The same cases each time; `FUZZ_CASES` makes more,
and the long variant takes others each time.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mnemolog.services.gateway.tools import Offer
from tests.attack.conftest import Attacked
from tests.attack.shapes import ANYTHING, fitting, nearly
from tests.e2e.conftest import PATIENCE_S
from tests.families import CATALOGUE

CASES = int(os.environ.get("FUZZ_CASES", "40"))
MANY = 400
GROWTH_MB = 300
OFFER = Offer(CATALOGUE)
TOOLS = sorted(OFFER.schemas)
INSIDE = ("Traceback", "site-packages", ".py", "sqlite3", "msgspec", "pydantic", "Internal error")
"""Words that only the inside of the service has."""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    server = Attacked(tmp_path_factory.mktemp("fuzz") / "data")
    before = server.memory_mb()
    try:
        yield server
        assert server.health()[0] == 200
        assert server.memory_mb() < before + GROWTH_MB
        assert "Traceback" not in server.errors.read_text()
    finally:
        server.stop()


class Wire:
    """One connection that is kept, and opened again when it is closed."""

    def __init__(self, server: Attacked) -> None:
        self._address = server.address
        self._connection = http.client.HTTPConnection(*self._address, timeout=PATIENCE_S)

    def post(self, message: Any) -> tuple[int, bytes]:
        body = json.dumps(message).encode()
        headers = {"Content-Type": "application/json"}
        try:
            self._connection.request("POST", "/mcp", body, headers)
            answer = self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self._connection.close()
            self._connection.request("POST", "/mcp", body, headers)
            answer = self._connection.getresponse()
        return answer.status, answer.read()


def arguments_of(tool: str) -> st.SearchStrategy[Any]:
    schema = OFFER.schemas[tool]
    return fitting(schema) | nearly(schema) | ANYTHING


def check(status: int, body: bytes, asked: Any) -> None:
    text = body.decode()
    assert status in (200, 400, 413), (asked, status, text)
    message = json.loads(text)
    error = message.get("error") or {}
    assert error.get("code") not in (-32603,), (asked, text)
    # What was sent may be said again; what is inside may not.
    sent = json.dumps(asked)
    said = json.dumps(error) if error else json.dumps(message["result"]["structuredContent"])
    assert not [word for word in INSIDE if word in said and word not in sent], (asked, text)


def fuzz(server: Attacked, tool: str, cases: int, *, same: bool) -> None:
    wire = Wire(server)

    @settings(max_examples=cases, derandomize=same, database=None, phases=[Phase.generate])
    @given(arguments=arguments_of(tool))
    def ask(arguments: Any) -> None:
        params = {"name": tool, "arguments": arguments}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        check(*wire.post(asked), asked)

    ask()


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_takes_whatever_it_is_given(fuzzed: Attacked, tool: str) -> None:
    fuzz(fuzzed, tool, CASES, same=True)


@pytest.mark.faults
@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_takes_much_more(fuzzed: Attacked, tool: str) -> None:
    fuzz(fuzzed, tool, MANY, same=False)


METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "X"])
PATHS = st.sampled_from(["/", "/mcp", "/events", "/healthz", "/metrics", "/mcp?toolsets=graph"])
TOKEN = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)
VALUE = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=60)
KNOWN = st.sampled_from(
    [
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream"),
        ("Content-Encoding", "gzip"),
        ("Transfer-Encoding", "chunked"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Last-Event-ID", "0:1"),
        ("Authorization", "Bearer x"),
        ("Expect", "100-continue"),
        ("Connection", "upgrade"),
        ("Upgrade", "websocket"),
    ]
)
BODY = st.binary(max_size=200) | ANYTHING.map(lambda value: json.dumps(value).encode())
REQUEST = st.tuples(
    METHODS,
    PATHS | st.text(max_size=20).map(lambda text: "/" + text),
    st.lists(KNOWN | st.tuples(TOKEN, VALUE), max_size=6),
    BODY,
)


def http_fuzz(server: Attacked, cases: int, *, same: bool) -> None:
    @settings(max_examples=cases, derandomize=same, database=None, phases=[Phase.generate])
    @given(request=REQUEST, raw=st.none() | st.binary(min_size=1, max_size=100))
    def ask(request: tuple[str, str, list[tuple[str, str]], bytes], raw: bytes | None) -> None:
        method, path, headers, body = request
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers]
        sent = "\r\n".join([*lines, "", ""]).encode("utf-8") + body if raw is None else raw
        with socket.create_connection(server.address, PATIENCE_S) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            got = client.recv(65536)
        if got:
            status = int(got.split(b" ", 2)[1])
            assert status < 500 or status == 501, (sent, got)
            assert b"Traceback" not in got

    ask()


def test_the_http_surface_takes_whatever_it_is_given(fuzzed: Attacked) -> None:
    http_fuzz(fuzzed, 25 * CASES, same=True)


@pytest.mark.faults
def test_the_http_surface_takes_much_more(fuzzed: Attacked) -> None:
    http_fuzz(fuzzed, 25 * MANY, same=False)


def test_the_tools_that_are_fuzzed_are_all_there_are(tmp_path: Path) -> None:
    offered = {tool.name for tool in CATALOGUE.tools.values() if not tool.internal}
    assert set(TOOLS) == offered
