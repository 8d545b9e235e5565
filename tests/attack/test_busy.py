"""When there is more to do than fits: 503 at once, whichever way it came, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.attack.conftest import Attacked, answer, head, post
from tests.e2e.conftest import PATIENCE_S

NEWEST = "2026-07-28"
FULL = {"node.embedded.worker.MAX_WAITING": 0, "node.answering.MAX_WAITING": 0}
"""So that there never is any room."""
LEARN = {"name": "learn", "arguments": {"insight": "cups slip when wet"}}
RECALL = {"name": "recall", "arguments": {"query": "cups"}}


def asked(server: Attacked, params: dict[str, Any], *lines: str) -> tuple[int, dict[str, str], Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return sent(server, json.dumps(message).encode(), *lines)


def sent(server: Attacked, body: bytes, *lines: str) -> tuple[int, dict[str, str], Any]:
    with server.connect() as client:
        given = post(len(body)).replace(b"\r\n\r\n", b"\r\n")
        client.sendall(given + "".join(f"{line}\r\n" for line in (*lines, "")).encode() + body)
        status, headers, told = answer(client)
        return status, headers, json.loads(told)


def test_who_finds_no_room_is_told_when_to_come_again(attacked: Callable[..., Attacked]) -> None:
    server = attacked(limits=FULL)
    meta = {PROTOCOL_VERSION_META_KEY: NEWEST, CLIENT_CAPABILITIES_META_KEY: {}}
    for params, what in ((LEARN, "calls"), (RECALL, "reads")):
        newest = (
            f"MCP-Protocol-Version: {NEWEST}",
            "Mcp-Method: tools/call",
            f"Mcp-Name: {params['name']}",
        )
        for status, headers, told in (
            asked(server, params),
            asked(server, {**params, "_meta": {"progressToken": 1}}, "Mcp-Session-Id: x"),
            asked(server, {**params, "_meta": meta}, *newest),
        ):
            assert (status, headers.get("retry-after")) == (503, "1"), told
            assert told["error"]["message"].startswith(f"Too many {what} are waiting (0)")
            assert told["error"]["data"] == {"retry_after": 1}
    # What cannot be read is to be recorded, too.
    status, headers, told = sent(server, b"{")
    assert (status, headers["retry-after"]) == (503, "1"), told
    # That others ask much is no fault of the node's.
    assert server.health()[0] == 200
    assert server.health()[1]["partitions"][0]["calls"] == 0


def test_streams_that_find_no_room(attacked: Callable[..., Attacked]) -> None:
    server = attacked(env={"MNEMOLOG_EVENTS_STREAMS": "1"})
    with server.connect() as one, server.connect() as other:
        one.sendall(head("/events"))
        assert answer(one)[0] == 200
        other.sendall(head("/events"))
        status, headers, told = answer(other)
    assert (status, headers["retry-after"]) == (503, "1")
    assert b"1 streams are open" in told


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_real_client_is_told(attacked: Callable[..., Attacked], mode: str) -> None:
    server = attacked(limits=FULL)

    async def learn() -> MCPError:
        url = f"{server.url}/mcp"
        async with Client(url, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("learn", LEARN["arguments"])  # type: ignore[arg-type]
            assert await client.list_tools()
            return refused.value

    error = asyncio.run(learn()).error
    assert error.message.startswith("Too many calls are waiting")
    assert error.data == {"retry_after": 1}
