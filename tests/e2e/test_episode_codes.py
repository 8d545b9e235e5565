"""What a call about episodes ends with that could not be carried out: the codes that its callers
were promised; of the other families the usual one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import mcp
import pytest
from mcp import MCPError, StdioServerParameters

from tests.e2e.conftest import MNEMOLOG, environment

EPISODE = {"task_description": "Renew the token", "domain": "web-api", "task_type": "testing"}
LESSON = {"insight": "cups slip when they are wet"}


def with_client(data: Path, test: Callable[[mcp.Client], Awaitable[None]], **settings: str) -> None:
    given = ["stdio", "--data", str(data)]
    env = {**environment(), "MNEMOLOG_MODEL": "none", **settings}
    where = StdioServerParameters(command=str(MNEMOLOG), args=given, env=env)

    async def connected() -> None:
        async with mcp.Client(where, read_timeout_seconds=120) as client:
            await test(client)

    asyncio.run(connected())


async def code_of(client: mcp.Client, tool: str, arguments: dict[str, str]) -> int:
    with pytest.raises(MCPError) as raised:
        await client.call_tool(tool, arguments)
    return int(raised.value.code)


def test_a_store_that_is_away(tmp_path: Path) -> None:
    async def test(client: mcp.Client) -> None:
        assert not (await client.call_tool("create_episode", EPISODE)).is_error
        log = tmp_path / "data" / "log.db"
        aside = log.rename(tmp_path / "aside")
        assert await code_of(client, "create_episode", EPISODE) == -32006
        assert await code_of(client, "learn", LESSON) == -32603
        aside.rename(log)
        assert not (await client.call_tool("create_episode", EPISODE)).is_error

    with_client(tmp_path / "data", test)


def test_no_answer_in_time(tmp_path: Path) -> None:
    async def test(client: mcp.Client) -> None:
        assert await code_of(client, "create_episode", EPISODE) == -32008
        assert await code_of(client, "learn", LESSON) == -32603

    with_client(tmp_path / "data", test, MNEMOLOG_CALL_TIMEOUT_S="0.000001")
