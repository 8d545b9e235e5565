"""Rate limits on the wire: what every reply says, who is sent away, and that it costs nothing."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pytest
from mcp import Client, MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.e2e.conftest import PATIENCE_S, Message, Server, StdioClient, run, start

NEWEST = "2026-07-28"
EVERY = {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}
ON = {"MNEMOLOG_RATE_LIMITS": "on"}
LEARN: Message = {"name": "learn", "arguments": {"insight": "cups slip when wet"}}
RECALL: Message = {"name": "recall", "arguments": {"query": "cups"}}


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Message:
        found: Message = json.loads(self.body)
        return found


class Asking:
    """One connection to a server."""

    def __init__(self, server: Server) -> None:
        place = server.url.removeprefix("http://")
        self._connection = http.client.HTTPConnection(place, timeout=PATIENCE_S)

    def post(self, body: bytes, path: str = "/mcp", **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("POST", path, body, {"Content-Type": "application/json"} | named)
        return self._answered()

    def ask(self, method: str, params: Message | None = None, **headers: str) -> Reply:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
        return self.post(json.dumps(message).encode(), **headers)

    def get(self, path: str, method: str = "GET") -> Reply:
        self._connection.request(method, path)
        return self._answered()

    def close(self) -> None:
        self._connection.close()

    def _answered(self) -> Reply:
        got = self._connection.getresponse()
        return Reply(got.status, {n.lower(): v for n, v in got.getheaders()}, got.read())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server with limits, by default those that it has by default."""
    started: list[Server] = []

    def begin(*args: str, data: Path | None = None, **env: str) -> Server:
        given = ON | {f"MNEMOLOG_{name.upper()}": value for name, value in env.items()}
        place = data or tmp_path / f"data{len(started)}"
        started.append(Server(place, "--model", "none", *args, env=given))
        return started[-1]

    yield begin
    for one in started:
        one.stop()


@pytest.fixture
def asking() -> Iterator[Callable[[Server], Asking]]:
    opened: list[Asking] = []

    def connect(server: Server) -> Asking:
        opened.append(Asking(server))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def too_often(reply: Reply, limit: int, id_: int | None = 7) -> None:
    """The reply is 429, and says so in all its ways."""
    assert reply.status == 429, reply
    assert reply.headers.keys() >= EVERY | {"retry-after"}
    assert reply.headers["x-ratelimit-limit"] == str(limit)
    assert reply.headers["x-ratelimit-remaining"] == "0"
    assert int(reply.headers["retry-after"]) >= 1
    assert reply.message["id"] == id_
    error = reply.message["error"]
    assert (error["code"], error["message"]) == (-32001, "Rate limit exceeded")
    assert error["data"] == {
        "retry_after": int(reply.headers["retry-after"]),
        "limit": limit,
        "remaining": 0,
        "reset": int(reply.headers["x-ratelimit-reset"]),
    }


def flood(server: Server, request: bytes, connections: int = 8) -> tuple[list[Reply], float]:
    """The replies to a request that is sent on some connections over and over, without waiting for
    the replies, until one is sent away; and how long that took."""
    replies: list[Reply] = []
    enough = threading.Event()
    host, _, port = server.url.removeprefix("http://").partition(":")

    def send() -> None:
        address = (host, int(port))
        with (
            socket.create_connection(address, PATIENCE_S) as connection,
            connection.makefile("rb") as coming,
        ):
            while not enough.is_set():
                connection.sendall(request * 50)
                for _ in range(50):
                    replies.append(read(coming))
                    if replies[-1].status == 429:
                        enough.set()

    threads = [threading.Thread(target=send) for _ in range(connections)]
    began_s = time.monotonic()
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE_S)
    return replies, time.monotonic() - began_s


def read(coming: BinaryIO) -> Reply:
    status = int(coming.readline().split()[1])
    headers = {}
    while line := coming.readline().strip():
        name, _, value = line.decode().partition(": ")
        headers[name.lower()] = value
    return Reply(status, headers, coming.read(int(headers.get("content-length", 0))))


def sent(method: str, body: bytes = b"") -> bytes:
    lines = [f"{method} /mcp HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def on_the_log(server: Server) -> int:
    _, shown = server.client().get("/healthz")
    return int(json.loads(shown)["partitions"][0]["calls"])


def test_the_limit_of_writes_that_is_documented(served: Callable[..., Server]) -> None:
    server = served()
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": LEARN}
    replies, took_s = flood(server, sent("POST", json.dumps(message).encode()))
    granted = held(replies, 200, rate=20, burst=30, took_s=took_s)
    # What came too often is nowhere.
    assert on_the_log(server) == granted
    too_often(next(one for one in replies if one.status == 429), 20)


def test_the_limit_of_reads_that_is_documented(served: Callable[..., Server]) -> None:
    """By what is answered quickest: on a slow machine nothing else comes too often."""
    replies, took_s = flood(served(), sent("GET"))
    held(replies, 405, rate=100, burst=150, took_s=took_s)
    too_often(next(one for one in replies if one.status == 429), 100, None)


def held(replies: list[Reply], status: int, rate: int, burst: int, took_s: float) -> int:
    """How many were granted: no fewer than the burst, no more than that and what grew since."""
    granted = [one for one in replies if one.status == status]
    assert len(granted) + sum(one.status == 429 for one in replies) == len(replies)
    assert burst <= len(granted) <= burst + rate * took_s + 1
    for one in granted:
        assert one.headers.keys() >= EVERY
        assert one.headers["x-ratelimit-limit"] == str(rate)
        assert 0 <= int(one.headers["x-ratelimit-remaining"]) < burst
    return len(granted)


def test_who_waits_as_told_is_let_in(
    served: Callable[..., Server], asking: Callable[[Server], Asking]
) -> None:
    server = served(rate_limits="write=1/1")
    client = asking(server)
    while (reply := client.ask("tools/call", LEARN)).status == 200:
        pass
    too_often(reply, 1)
    # A read is another matter, and so is health.
    assert client.ask("tools/call", RECALL).status == 200
    assert client.get("/healthz").status == 200
    time.sleep(int(reply.headers["retry-after"]))  # What the test is about: the wait it was told.
    assert client.ask("tools/call", LEARN).status == 200


def newest(method: str, params: Message) -> tuple[Message, dict[str, str]]:
    meta = {PROTOCOL_VERSION_META_KEY: NEWEST, CLIENT_CAPABILITIES_META_KEY: {}}
    headers = {"MCP_Protocol_Version": NEWEST, "Mcp_Method": method}
    if "name" in params:
        headers["Mcp_Name"] = params["name"]
    return {**params, "_meta": meta}, headers


def test_every_reply_says_how_much_is_left(
    served: Callable[..., Server], asking: Callable[[Server], Asking]
) -> None:
    client = asking(served())
    params, headers = newest("tools/call", RECALL)
    initialize = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "e2e", "version": "1"},
    }
    replies = {
        "a plain call": (200, client.ask("tools/call", RECALL)),
        "a plain call that is refused": (200, client.ask("tools/call", {"name": "nothing"})),
        "initialize": (200, client.ask("initialize", initialize)),
        "the SDK's": (200, client.ask("tools/list", MCP_Protocol_Version="2025-06-18")),
        "the newest": (200, client.ask("tools/call", params, **headers)),
        "an unknown method": (None, client.ask("no/such", MCP_Protocol_Version="2025-06-18")),
        "no JSON": (400, client.post(b"{")),
        "no message": (400, client.post(b"[]")),
        "too large": (413, client.post(b'"' + b"x" * 5_000_000 + b'"')),
        "another type": (400, client.post(b"{}", Content_Type="text/plain")),
        "another toolset": (400, client.post(b"{}", "/mcp?toolsets=nothing")),
        "another method": (405, client.get("/mcp")),
        "events": (200, client.get("/events?follow=false")),
        "wrong events": (400, client.get("/events?since=ever")),
        "metrics": (200, client.get("/metrics")),
    }
    for name, (status, reply) in replies.items():
        assert status in (None, reply.status), (name, reply)
        assert reply.headers.keys() >= EVERY, (name, reply)
    assert not client.get("/healthz").headers.keys() & EVERY


def test_every_way_is_limited(
    served: Callable[..., Server], asking: Callable[[Server], Asking]
) -> None:
    client = asking(served(rate_limits="read=0.001/1 write=0.001/1"))
    assert client.ask("ping", MCP_Protocol_Version="2025-06-18").status == 200
    assert client.ask("tools/call", LEARN).status == 200
    limit = pytest.approx(0.001)
    params, headers = newest("tools/list", {})
    for reply in (
        client.ask("tools/call", LEARN),
        client.ask("tools/call", RECALL),
        client.ask("tools/list", MCP_Protocol_Version="2025-06-18"),
        client.ask("tools/list", params, **headers),
        client.post(b"{"),
        client.post(b"{}", Content_Type="text/plain"),
        client.get("/mcp"),
        client.get("/events"),
        client.get("/metrics"),
    ):
        assert reply.status == 429, reply
        assert reply.message["error"]["code"] == -32001
        assert reply.message["error"]["data"]["limit"] == limit
        assert 900 < int(reply.headers["retry-after"]) <= 1000


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_real_client_is_told(served: Callable[..., Server], mode: str) -> None:
    server = served(rate_limits="read=100/150 write=0.01/2")

    async def learn() -> Any:
        async with Client(
            f"{server.url}/mcp", mode=mode, read_timeout_seconds=PATIENCE_S
        ) as client:
            for _ in range(2):
                assert not (await client.call_tool("learn", LEARN["arguments"])).is_error
            with pytest.raises(MCPError) as refused:
                await client.call_tool("learn", LEARN["arguments"])
            # The connection is still good for something.
            assert not (await client.call_tool("recall", RECALL["arguments"])).is_error
            return refused.value.error

    error = asyncio.run(learn())
    assert error.code == -32001
    assert error.data["remaining"] == 0
    assert error.data["retry_after"] > 0


def test_limits_of_one_client(
    served: Callable[..., Server], asking: Callable[[Server], Asking]
) -> None:
    """Over IPv4 loopback everybody without a name is this address."""
    client = asking(
        served(rate_limits="write=1000/1000", client_limits="127.0.0.1 write=0.01/1, x read=1/1")
    )
    assert client.ask("tools/call", LEARN).status == 200
    assert client.ask("tools/call", LEARN).status == 429
    assert client.ask("tools/call", RECALL).headers["x-ratelimit-limit"] == "100"


def test_limits_can_be_switched_off(
    served: Callable[..., Server], asking: Callable[[Server], Asking]
) -> None:
    client = asking(served(rate_limits="off", client_limits="127.0.0.1 read=0.01/1"))
    for _ in range(5):
        reply = client.ask("tools/call", RECALL)
        assert reply.status == 200
        assert not reply.headers.keys() & EVERY


def test_who_starts_the_service_is_not_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOLOG_RATE_LIMITS", "read=0.001/1 write=0.001/1")
    client = StdioClient(tmp_path / "data", "--model", "none")
    try:
        client.initialize()
        for _ in range(5):
            client.ok("learn", LEARN["arguments"])
    finally:
        client.close()


@pytest.mark.parametrize(
    "env", [{"rate_limits": "fast"}, {"client_limits": "robot-7"}], ids=lambda one: str(one)
)
def test_wrong_limits_are_told_at_the_start(tmp_path: Path, env: dict[str, str]) -> None:
    data = tmp_path / "data"
    given = ON | {f"MNEMOLOG_{name.upper()}": value for name, value in env.items()}
    errors = tmp_path / "errors"
    with errors.open("wb") as told:
        process = start("serve", "--data", str(data), "--port", "0", env=given, stderr=told)
        assert process.wait(PATIENCE_S) == 1
    (line,) = errors.read_text().splitlines()
    assert line.startswith("Error: rate_limits can be on, off, or rates")
    assert repr(next(iter(env.values()))) in line or "not ''" in line
    assert not (data / "log.db").exists()


def test_a_wrong_authorization_is_not_looked_at_for_ever(
    served: Callable[..., Server], asking: Callable[[Server], Asking]
) -> None:
    client = asking(served())
    refused = [client.ask("ping", Authorization="Basic xyz") for _ in range(20)]
    assert {one.status for one in refused} <= {401, 429}
    assert all(one.headers.keys() >= EVERY for one in refused)
    while (reply := client.ask("ping", Authorization="Basic xyz")).status == 401:
        assert reply.message["error"]["code"] == -32002
    too_often(reply, 1, None)


def test_the_command_line_is_not_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOLOG_RATE_LIMITS", "write=0.001/1")
    data = str(tmp_path / "data")
    for _ in range(2):
        done = run("--data", data, "call", "learn", json.dumps(LEARN["arguments"]))
        assert done.returncode == 0, done.stderr


def key(data: Path, name: str, tenant: str) -> str:
    scopes = "memory:read,memory:write"
    done = run(
        "--data", str(data), "keys", "add", name, "--tenant", tenant, "--scopes", scopes, "--json"
    )
    assert done.returncode == 0, done.stderr
    return f"Bearer {json.loads(done.stdout)['key']}"


def test_those_who_are_known_are_limited_by_name_and_others_by_address(
    tmp_path: Path, served: Callable[..., Server], asking: Callable[[Server], Asking]
) -> None:
    data = tmp_path / "keys"
    one, other = key(data, "robot-7", "lab"), key(data, "robot-8", "lab")
    client = asking(
        served(
            "--auth",
            "keys",
            data=data,
            rate_limits="read=100/150 write=0.01/1",
            client_limits="lab/robot-8 write=0.01/3",
        )
    )
    granted = {one: 1, other: 3}
    for who, most in granted.items():
        replies = [client.ask("tools/call", LEARN, Authorization=who) for _ in range(most + 1)]
        assert [reply.status for reply in replies] == [200] * most + [429]
    # A flood of wrong keys from their address: those who are known go on.
    while (
        reply := client.ask("tools/call", RECALL, Authorization="Bearer mnk_no_no")
    ).status != 429:
        assert reply.status == 401
        assert reply.headers.keys() >= EVERY | {"www-authenticate"}
    assert client.ask("tools/call", RECALL, Authorization=one).status == 200
    assert client.ask("tools/call", RECALL).status == 429
    assert client.get("/healthz").status == 200
