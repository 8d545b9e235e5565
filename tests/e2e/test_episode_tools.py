"""Every tool of the episodes family through the official client, embedded and on Kafka: the
documented examples, and one call at least of what has none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp import MCPError, StdioServerParameters

from tests.e2e.conftest import TRANSPORTS, reached
from tests.e2e.test_definitions import EPISODES

PATIENCE_S = 120.0
Reply = dict[str, Any]


class Client:
    """Calls tools, and knows which of them have answered."""

    def __init__(self, client: mcp.Client) -> None:
        self._client = client
        self.answered: set[str] = set()

    async def call(self, tool: str, /, **arguments: Any) -> Reply:
        result = await self._client.call_tool(tool, arguments)
        assert not result.is_error, result
        self.answered.add(tool)
        found: Reply = result.structured_content or {}
        return found

    async def text(self, tool: str, /, **arguments: Any) -> str:
        result = await self._client.call_tool(tool, arguments)
        self.answered.add(tool)
        return str(result.content[0].text)  # type: ignore[union-attr]

    async def refused(self, tool: str, /, **arguments: Any) -> tuple[int, Any]:
        with pytest.raises(MCPError) as raised:
            await self._client.call_tool(tool, arguments)
        return raised.value.code, raised.value.error.data


async def completed(client: Client, task: str, *tools: str, succeeds: bool = True) -> str:
    made = await client.call(
        "create_episode",
        task_description=task,
        domain="web-api",
        task_type="code_generation",
        language="rust",
        tags=["auth", "jwt"],
        complexity="moderate",
    )
    episode = str(made["episode_id"])
    for number, tool in enumerate(tools, start=1):
        await client.call(
            "add_episode_step",
            episode_id=episode,
            step_number=number,
            tool=tool,
            action=f"Check with the {tool}",
            result={"type": "success", "output": "ok"},
            latency_ms=150,
        )
    how: Reply = {"outcome_type": "success", "verdict": "Authentication implemented"}
    if not succeeds:
        how = {"outcome_type": "failure", "reason": "Database connection failed"}
    told = await client.call("complete_episode", episode_id=episode, **how)
    assert told["success"] is True and told["patterns_learned"] > 0
    return episode


async def episodes(client: Client) -> tuple[str, str]:
    one = await completed(client, "Implement JWT auth", "analyzer", "coder", "tester")
    other = await completed(client, "Deploy at once", "coder", "deployer", succeeds=False)
    whole = await client.call("get_episode", episode_id=one)
    assert whole["outcome"]["type"] == "success" and len(whole["steps"]) == 3
    timeline = await client.call("get_episode_timeline", episode_id=one)
    assert [step["tool"] for step in timeline["timeline"]] == ["analyzer", "coder", "tester"]
    assert (await client.call("bulk_episodes", episode_ids=[one, other]))["found_count"] == 2
    asked = {"query": "How to implement JWT authentication", "domain": "web-api"}
    found = await client.call("query_memory", **asked, task_type="code_generation", limit=5)
    assert found["episodes"][0]["id"] == one
    return one, other


async def patterns(client: Client, one: str, other: str) -> None:
    told = await client.call("analyze_patterns", task_type="code_generation", min_success_rate=0.8)
    assert told["statistics"]["total_patterns"] > 0
    asked: Reply = {
        "query": "check with the tester",
        "domain": "web-api",
        "tags": ["rest", "async"],
    }
    assert (await client.call("search_patterns", **asked, min_relevance=0.0))["patterns"]
    await client.call("recommend_patterns", task_description="Add JWT auth", domain="web-api")
    series = {"episode_duration": [100, 120, 110, 130, 125, 140, 135, 150, 145, 160]}
    config = {"forecast_horizon": 5, "anomaly_sensitivity": 0.6, "enable_causal_inference": True}
    analysed = await client.call(
        "advanced_pattern_analysis",
        time_series_data=series,
        analysis_type="comprehensive",
        config=config,
    )
    assert analysed["statistical_results"]["trends"][0]["direction"] == "increasing"
    assert len(analysed["predictive_results"]["forecasts"][0]["point_forecasts"]) == 5
    page = await client.call("batch_query_episodes", filter={"domain": "web-api"}, limit=1)
    assert page["found_count"] == 1 and page["statistics"]["count"] == 2
    learned = await client.call("batch_pattern_analysis", domain="web-api", min_episodes=1)
    assert learned["episodes_analyzed"] == 2 and learned["anti_patterns"]
    compared = await client.call("batch_compare_episodes", episode_ids=[one, other])
    assert compared["episodes_compared"] == 2


async def tags_and_relationships(client: Client, one: str, other: str) -> None:
    await client.call("add_episode_tags", episode_id=one, tags=["Security"])
    await client.call("remove_episode_tags", episode_id=one, tags=["jwt"])
    found = await client.call("get_episode_tags", episode_id=one)
    assert sorted(found["tags"]) == ["auth", "security"]
    await client.call("set_episode_tags", episode_id=other, tags=["rush"])
    assert (await client.call("search_episodes_by_tags", tags=["rush"]))["count"] == 1
    pair: Reply = {
        "from_episode_id": other,
        "to_episode_id": one,
        "relationship_type": "depends_on",
    }
    back = {**pair, "from_episode_id": one, "to_episode_id": other}
    made = await client.call("add_episode_relationship", **pair, reason="needs it", priority=3)
    code, data = await client.refused("add_episode_relationship", **back)
    assert code == -32005 and data["cycle_path"]
    assert (await client.call("check_relationship_exists", **pair))["exists"] is True
    assert (await client.call("validate_no_cycles", **back))["would_create_cycle"] is True
    related = await client.call("get_episode_relationships", episode_id=one)
    assert related["total_count"] == 1 and related["incoming"]
    await client.call("find_related_episodes", episode_id=one, include_metadata=True)
    graph = await client.call("get_dependency_graph", episode_id=one, depth=2)
    assert graph["edge_count"] == 1
    dot = await client.call("get_dependency_graph", episode_id=one, format="dot")
    assert dot["dot"].startswith("digraph")
    order = await client.call("get_topological_order", episode_ids=[other, one])
    assert [row["episode_id"] for row in order["order"]] == [one, other]
    await client.call("remove_episode_relationship", relationship_id=made["relationship_id"])


async def the_rest(client: Client, one: str) -> None:
    configured = await client.call("configure_embeddings", provider="local")
    assert configured["success"] is True
    assert (await client.call("test_embeddings"))["provider"] == "local"
    similar = await client.call(
        "query_semantic_memory", query="authentication with tokens", similarity_threshold=0.3
    )
    assert one in [row["id"] for row in similar["episodes"]]
    health = await client.call("health_check")
    assert health["status"] == "healthy" and health["components"]["storage"] == "healthy"
    metrics = await client.call("get_metrics")
    assert metrics["episodes"]["total"] == 2
    assert metrics["performance"]["tools"]["create_episode"]["calls"] == 2
    assert (await client.call("quality_metrics", time_range="24h"))["total_episodes"] == 2
    code = "function process(data) { return data.map(x => x * 2); } process(input);"
    context = {"task": "Double array values", "input": [1, 2, 3, 4, 5]}
    assert await client.text("execute_agent_code", code=code, context=context) == "[2,4,6,8,10]"
    number, data = await client.refused("execute_agent_code", code="throw 1", context=context)
    assert (number, data["kind"]) == (-32007, "error")
    loop = await client.refused("execute_agent_code", code="while (true);", context=context)
    assert loop[0] == -32008
    await client.call("delete_episode", episode_id=one, confirm=True)
    assert (await client.refused("get_episode", episode_id=one))[0] == -32004


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_tool_answers(transport: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async def test(where: str | StdioServerParameters) -> None:
        async with mcp.Client(where, read_timeout_seconds=PATIENCE_S) as connected:
            client = Client(connected)
            one, other = await episodes(client)
            await patterns(client, one, other)
            await tags_and_relationships(client, one, other)
            await the_rest(client, one)
            assert client.answered == EPISODES

    with reached(transport, tmp_path / "data", lambda: request.getfixturevalue("broker")) as where:
        asyncio.run(test(where))
