"""The official MCP client, over each transport and in each era, through the documented examples."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters

from mnemolog.services.families import FAMILIES
from mnemolog.services.gateway import identity
from tests.e2e.conftest import MNEMOLOG, PATIENCE_S, Server, environment
from tests.e2e.test_definitions import EVERY

CONTEXT = {
    "params": {"grip_force": {"value": 12.5, "unit": "N"}},
    "spatial": {"object_position": [1.3, 0.7, 0.42]},
    "robot": {"type": "UR5e"},
    "task": {"success": True},
    "env": {"sim_or_real": "real"},
}


@pytest.fixture(params=["stdio legacy", "stdio auto", "http legacy", "http auto"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str | StdioServerParameters, str]:
    transport, mode = request.param.split()
    if transport == "http":
        server: Server = request.getfixturevalue("server")
        return f"{server.url}/mcp", mode
    args = ["stdio", "--data", str(tmp_path / "data")]
    return StdioServerParameters(command=str(MNEMOLOG), args=args, env=environment()), mode


class Robot:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result
        reply: dict[str, Any] = result.structured_content
        assert json.loads(result.content[0].text) == reply  # type: ignore[union-attr]
        assert result.meta is not None
        assert result.meta["position"]
        return reply


@asynccontextmanager
async def connected(way: tuple[str | StdioServerParameters, str]) -> AsyncIterator[Client]:
    where, mode = way
    async with Client(where, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
        yield client


def test_the_documented_examples(
    way: tuple[str | StdioServerParameters, str], collection: str
) -> None:
    async def test() -> None:
        async with connected(way) as client:
            assert client.server_info is not None
            assert client.server_info.name == "mnemolog"
            assert client.server_info.version == identity.VERSION
            assert client.instructions == identity.instructions(FAMILIES)
            offered = {tool.name for tool in (await client.list_tools()).tools}
            assert offered == EVERY
            await example(Robot(client), collection)
            with pytest.raises(MCPError) as unknown:
                await client.call_tool("remember", {})
            assert unknown.value.code == -32602
            refused = await client.call_tool("learn", {"insight": "  "})
            assert refused.is_error
            assert "insight" in refused.structured_content["error"]

    asyncio.run(test())


async def example(robot: Robot, collection: str) -> None:
    """A day of a robot, with the calls and replies of the documentation."""
    started = await robot(
        "start_session", collection=collection, context='{"robot": {"type": "UR5e"}}'
    )
    session = started["session_id"]
    assert (started["collection"], started["active_memories_count"]) == (collection, 0)

    here: dict[str, Any] = {"collection": collection, "session_id": session}
    learned = await robot(
        "learn",
        insight="Found that grip_force=12.5N is optimal for cylindrical objects",
        context=json.dumps(CONTEXT),
        **here,
    )
    assert learned["status"] == "created"
    assert learned["auto_inferred"]["category"] == "observation"
    assert set(learned["auto_inferred"]) == {"category", "confidence", "tags", "scope_files"}
    again = await robot(
        "learn",
        insight="Found that grip_force=12.5N is optimal for cylindrical objects",
        **here,
    )
    assert again["status"] == "duplicate"
    assert again["existing_id"] == learned["memory_id"]
    chinese = await robot("learn", insight="抓取力不得超过 15N", **here)
    assert chinese["auto_inferred"]["category"] == "constraint"

    seen = await robot(
        "save_perception",
        description="Force curve while lifting a full cup",
        perception_type="tactile",
        data='{"force": [0.1, 4.2, 12.4]}',
        metadata='{"rate_hz": 100}',
        **here,
    )
    assert seen["perception_type"] == "tactile"
    assert seen["collection"] == collection
    assert seen["has_embedding"] is True, "no model: run `mnemolog models pull`"

    found = await robot(
        "recall",
        query="how hard to grip a cylinder",
        collection=collection,
        n=5,
        min_confidence=0.3,
        context_filter='{"task.success": true, "params.grip_force.value": {"$gte": 10}}',
        spatial_sort='{"field": "spatial.object_position", "target": [1.3, 0.7, 0.42], '
        '"max_distance": 0.1}',
    )
    assert [one["id"] for one in found["memories"]] == [learned["memory_id"]]
    assert found["total"] == 1
    assert found["mode"] == "hybrid"
    memory = found["memories"][0]
    for part in ("params", "spatial", "robot", "task"):
        assert memory[part] == CONTEXT[part]
    assert memory["session_id"] == session
    assert memory["_rrf_score"] == 1.0

    updated = await robot(
        "update",
        memory_id=learned["memory_id"],
        new_content="Found that grip_force=11.0N is optimal (recalibrated)",
    )
    assert updated["status"] == "updated"
    assert updated["old_content"].startswith("Found that grip_force=12.5N")
    assert updated["new_content"] == "Found that grip_force=11.0N is optimal (recalibrated)"
    forgotten = await robot(
        "forget", memory_id=seen["memory_id"], reason="Sensor calibration error"
    )
    assert forgotten["status"] == "forgotten"
    assert forgotten["reason"] == "Sensor calibration error"

    ended = await robot("end_session", session_id=session, outcome_score=0.9)
    assert ended["status"] == "ended"
    assert set(ended) == {
        "status",
        "session_id",
        "summary",
        "decayed_count",
        "consolidated",
        "related_memories",
    }


def test_a_key_makes_a_call_happen_once(
    way: tuple[str | StdioServerParameters, str], collection: str
) -> None:
    async def test() -> None:
        async with connected(way) as client:
            arguments = {"description": "the same reading", "collection": collection}
            key: Any = {"idempotency_key": f"key-{collection}"}
            first = await client.call_tool("save_perception", arguments, meta=key)
            second = await client.call_tool("save_perception", arguments, meta=key)
            assert first.structured_content == second.structured_content
            found = await client.call_tool(
                "recall", {"query": "same reading", "collection": collection}
            )
            assert found.structured_content["total"] == 1

    asyncio.run(test())
