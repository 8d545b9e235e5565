"""Every error code that callers over HTTP were promised, from a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Message, Server
from tests.e2e.test_toolsets import MODERN, Asker, post

WORDS_ONLY = ("--model", "none")
EPISODE = {"task_description": "Renew the token", "domain": "web-api", "task_type": "testing"}
LESSON = {"insight": "cups slip when they are wet"}
NOBODY = "00000000-0000-4000-8000-000000000000"
JSON = {"Content-Type": "application/json"}
CONTEXT = {"task": "none", "input": {}}

Told = tuple[int, Message]
Ask = Callable[[Server], Told]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("codes") / "data", *WORDS_ONLY)
    yield server
    server.stop()


def raw(data: bytes, **headers: str) -> Ask:
    return lambda server: post(f"{server.url}/mcp", data, JSON | headers)


def asked(method: str, params: Message | None = None, version: str | None = None) -> Ask:
    return lambda server: Asker(server, version=version)(method, params)


def called(tool: str, **arguments: Any) -> Ask:
    return asked("tools/call", {"name": tool, "arguments": arguments})


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'

TABLE: list[tuple[str, int, int, Ask]] = [
    ("parse error", -32700, 400, raw(b'{"jsonrpc":"2.0",')),
    ("parse error: no UTF-8", -32700, 400, raw(b'"\xff"')),
    ("invalid request: a batch", -32600, 400, raw(b"[" + PING + b"]")),
    ("invalid request: no version", -32600, 400, raw(b'{"id":1,"method":"ping"}')),
    ("method not found", -32601, 200, asked("memories/list")),
    ("method not found, 2026-07-28", -32601, 404, asked("memories/list", version=MODERN)),
    ("invalid params: unknown tool", -32602, 200, called("remember")),
    ("invalid params: no name", -32602, 200, asked("tools/call", {"arguments": {}})),
    ("invalid params: no such prompt", -32602, 200, asked("prompts/get", {"name": "cook"})),
    ("invalid params: no such resource", -32602, 200, asked("resources/read", {"uri": "x://y"})),
    ("server error", -32000, 200, called("query_semantic_memory", query="tokens")),
    ("authentication failed", -32002, 401, raw(PING, Authorization="Basic abc")),
    ("resource not found", -32004, 200, called("get_episode", episode_id=NOBODY)),
    ("validation error", -32005, 200, called("create_episode", domain="web-api")),
    (
        "sandbox error",
        -32007,
        200,
        called("execute_agent_code", code="throw 1", context=CONTEXT),
    ),
    (
        "timeout error: code without an end",
        -32008,
        200,
        called("execute_agent_code", code="while (true);", context=CONTEXT),
    ),
]


@pytest.mark.parametrize(("code", "status", "ask"), [pytest.param(*o, id=n) for n, *o in TABLE])
def test_a_code(served: Server, code: int, status: int, ask: Ask) -> None:
    got, message = ask(served)
    assert (got, message["error"]["code"]) == (status, code), message
    assert message["jsonrpc"] == "2.0" and message["error"]["message"]
    assert "id" in message


def test_too_many_requests(tmp_path: Path) -> None:
    server = Server(
        tmp_path / "data", *WORDS_ONLY, env={"MNEMOLOG_RATE_LIMITS": "read=0.001/1 write=0.001/1"}
    )
    try:
        assert called("learn", **LESSON)(server)[0] == 200
        status, message = called("learn", **LESSON)(server)
        assert (status, message["error"]["code"]) == (429, -32001)
        assert message["error"]["data"].keys() == {"retry_after", "limit", "remaining", "reset"}
    finally:
        server.stop()


def test_a_store_that_is_away(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", *WORDS_ONLY)
    try:
        log = server.data / "log.db"
        aside = log.rename(tmp_path / "aside")
        assert called("create_episode", **EPISODE)(server)[1]["error"]["code"] == -32006
        assert called("learn", **LESSON)(server)[1]["error"]["code"] == -32603
        aside.rename(log)
    finally:
        server.stop()


def test_no_answer_in_time(tmp_path: Path) -> None:
    env = {"MNEMOLOG_CALL_TIMEOUT_S": "0.000001"}
    server = Server(tmp_path / "data", *WORDS_ONLY, env=env)
    try:
        assert called("create_episode", **EPISODE)(server)[1]["error"]["code"] == -32008
        assert called("learn", **LESSON)(server)[1]["error"]["code"] == -32603
    finally:
        server.stop()


def test_every_code_that_is_written_down_is_shown_here() -> None:
    """What insufficient permissions are told (-32003) is shown where callers have some."""
    shown = {code for _, code, *_ in TABLE} | {-32001, -32006, -32603}
    documented = {-32700, -32600, -32601, -32602, -32603, *range(-32008, -31999)}
    assert documented - shown == {-32003}
    assert json.dumps(sorted(shown - documented)) == "[]"
