"""Episodes through the official client and the plain ones: the documented examples, and how what
is wrong is answered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp import MCPError, StdioServerParameters

from mnemolog.services.families import FAMILIES
from mnemolog.services.gateway import identity
from mnemolog.services.listed import named as listed
from tests.e2e.conftest import (
    PATIENCE_S,
    Client,
    Message,
    Server,
    StdioClient,
    checked,
    reached,
)
from tests.e2e.test_definitions import EPISODES

Call = Callable[..., Awaitable[Message]]
WORDS_ONLY = ("--model", "none")
NOBODY = "550e8400-e29b-41d4-a716-446655440001"
TASK = {
    "task_description": "Implement user authentication",
    "domain": "web-api",
    "task_type": "code_generation",
}


@pytest.fixture(params=["stdio", "http"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A plain client of a service of this test's own, which offers episodes alone."""
    alone = ("--toolsets", "episodes", *WORDS_ONLY)
    if request.param == "stdio":
        stdio = StdioClient(tmp_path / "data", *alone)
        stdio.initialize()
        yield stdio
        stdio.close()
        return
    server = Server(tmp_path / "data", *alone)
    yield server.client()
    server.stop()


def no_broker() -> Any:
    raise AssertionError("no broker is needed here")


# --- the documented examples ---------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_documented_examples(transport: str, mode: Any, tmp_path: Path) -> None:
    async def test(where: str | StdioServerParameters) -> None:
        async with mcp.Client(where, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
            await example(checked(client))
            with pytest.raises(MCPError) as unknown:
                await client.call_tool("get_episode", {"episode_id": NOBODY})
            assert unknown.value.code == -32004
            assert unknown.value.error.data == {"resource": "episode", "id": NOBODY}
            with pytest.raises(MCPError) as missing:
                await client.call_tool("query_memory", {"query": "How to implement it"})
            assert missing.value.code == -32005
            assert missing.value.error.data == {
                "field": "domain",
                "issue": "Field is required",
                "value": None,
            }

    with reached(transport, tmp_path / "data", no_broker, *WORDS_ONLY) as where:
        asyncio.run(test(where))


async def example(call: Call) -> None:
    begun = await call(
        "create_episode",
        **TASK,
        language="rust",
        tags=["auth", "jwt"],
        complexity="moderate",
    )
    own = begun["episode_id"]
    assert begun["status"] == "active"
    assert begun["created_at"].endswith("Z")
    added = await call(
        "add_episode_step",
        episode_id=own,
        step_number=1,
        tool="analyzer",
        action="Analyze authentication requirements",
        result={"type": "success", "output": "Requirements analyzed successfully"},
        latency_ms=150,
    )
    assert added == {
        "success": True,
        "episode_id": own,
        "step_number": 1,
        "message": "Step 1 added",
    }
    done = await call(
        "complete_episode",
        episode_id=own,
        outcome_type="success",
        verdict="Authentication implemented successfully",
        artifacts=["auth.rs", "middleware.rs"],
    )
    assert (done["success"], done["outcome_type"]) == (True, "success")
    assert done["patterns_learned"] >= 1

    failed = (await call("create_episode", **{**TASK, "task_description": "Add OAuth"}))[
        "episode_id"
    ]
    ended = await call(
        "complete_episode",
        episode_id=failed,
        outcome_type="failure",
        reason="Database connection failed",
        error_details="Connection timeout after 30s",
    )
    assert ended["outcome_type"] == "failure"

    whole = await call("get_episode", episode_id=own)
    assert {
        "id": own,
        "context": "Implement user authentication",
        "domain": "web-api",
        "task_type": "code_generation",
        "status": "completed",
        "reward_score": done["reward_score"],
    }.items() <= whole.items()
    assert whole["outcome"]["verdict"] == "Authentication implemented successfully"
    assert [one["step_number"] for one in whole["steps"]] == [1]
    assert len(whole["patterns"]) == done["patterns_learned"]
    assert {"successes", "improvements", "insights", "generated_at"} == set(whole["reflection"])

    told = await call("get_episode_timeline", episode_id=own)
    assert [(one["step_number"], one["result_type"]) for one in told["timeline"]] == [
        (1, "success")
    ]
    assert told["outcome"]["type"] == "success"
    several = await call("bulk_episodes", episode_ids=[failed, own, NOBODY])
    assert [one["id"] for one in several["episodes"]] == [failed, own]
    assert several["not_found"] == [NOBODY]

    found = await call(
        "query_memory",
        query="How to implement JWT authentication",
        domain="web-api",
        task_type="code_generation",
        limit=5,
    )
    assert [one["id"] for one in found["episodes"]] == [own, failed]
    assert found["total"] == 2
    first = found["episodes"][0]
    assert first["context"] == "Implement user authentication"
    assert {"reward_score", "duration_ms", "steps"} <= set(first)
    assert found["patterns"] and found["insights"]["success_rate"] == 0.5

    gone = await call("delete_episode", episode_id=failed, confirm=True)
    assert gone == {"success": True, "episode_id": failed, "message": "Episode deleted"}
    assert (await call("bulk_episodes", episode_ids=[failed]))["found_count"] == 0


def test_meaning_finds_what_is_said_in_other_words(server: Server) -> None:
    client = server.client()
    place = f"domain-{os.urandom(6).hex()}"
    for task in ("Let users sign in with a password", "Draw a chart of monthly rainfall"):
        client.ok("create_episode", {**TASK, "task_description": task, "domain": place})
    wanted = {"query": "login and authentication", "domain": place, "similarity_threshold": 0.0}
    found = client.ok("query_semantic_memory", wanted)
    assert found["model"] and found["total"] == 2
    assert found["episodes"][0]["task_description"] == "Let users sign in with a password"
    near = [one["similarity"] for one in found["episodes"]]
    assert 1 >= near[0] > near[1] > 0
    both = client.ok("query_memory", {"query": "login", "domain": place, "limit": 1})
    assert both["mode"] == "hybrid"
    assert both["episodes"][0]["task_description"] == "Let users sign in with a password"


# --- what is refused -----------------------------------------------------------------------------


def error(client: Client, tool: str, /, **arguments: Any) -> Message:
    message = client.call(tool, arguments)
    assert "error" in message, message
    found: Message = message["error"]
    return found


def test_what_is_wrong_is_an_error_with_its_code_and_data(client: Client) -> None:
    own = client.ok("create_episode", TASK)["episode_id"]
    for tool in ("get_episode", "get_episode_timeline"):
        assert error(client, tool, episode_id=NOBODY) == {
            "code": -32004,
            "message": f"Resource not found: there is no episode '{NOBODY}'",
            "data": {"resource": "episode", "id": NOBODY},
        }
    assert error(client, "delete_episode", episode_id=NOBODY, confirm=True)["code"] == -32004
    missing = error(client, "create_episode", task_description="x", task_type="testing")
    assert missing["code"] == -32005
    assert missing["data"] == {"field": "domain", "issue": "Field is required", "value": None}
    hard = error(client, "create_episode", **TASK, complexity="hard")
    assert (hard["code"], hard["data"]["field"], hard["data"]["value"]) == (
        -32005,
        "complexity",
        "hard",
    )
    client.ok("add_episode_step", step_of(own, 1))
    again = error(client, "add_episode_step", **step_of(own, 1))
    assert (again["code"], again["data"]["field"], again["data"]["value"]) == (
        -32005,
        "step_number",
        1,
    )
    unconfirmed = error(client, "delete_episode", episode_id=own, confirm=False)
    assert (unconfirmed["code"], unconfirmed["data"]["value"]) == (-32005, False)
    without = error(client, "query_semantic_memory", query="auth")
    assert without["code"] == -32000
    assert "query_memory" in without["data"]["details"]
    assert client.ok("get_episode", {"episode_id": own})["step_count"] == 1


def step_of(episode: str, number: int) -> Message:
    return {"episode_id": episode, "step_number": number, "tool": "editor", "action": "Write"}


# --- alone, and once -----------------------------------------------------------------------------


def test_the_family_is_offered_alone(client: Client) -> None:
    names = {tool["name"] for tool in client.ask("tools/list")["result"]["tools"]}
    assert names == EPISODES
    assert client.call("learn", {"insight": "grip at 15N"})["error"]["code"] == -32602
    told = identity.instructions(listed(FAMILIES, {"episodes"}))
    assert "create_episode" in told and "search_nodes" not in told


def test_a_key_makes_a_call_happen_once(client: Client) -> None:
    first = client.ok("create_episode", TASK, {"idempotency_key": "begin"})
    assert client.ok("create_episode", TASK, {"idempotency_key": "begin"}) == first
    own = first["episode_id"]
    for _ in range(2):
        client.ok("add_episode_step", step_of(own, 1), {"idempotency_key": "step"})
    done = {"episode_id": own, "outcome_type": "success", "verdict": "It works"}
    ended = client.ok("complete_episode", done, {"idempotency_key": "end"})
    assert client.ok("complete_episode", done, {"idempotency_key": "end"}) == ended
    assert client.ok("query_memory", {"query": "x", "domain": "web-api"})["total"] == 1
    assert client.ok("get_episode", {"episode_id": own})["step_count"] == 1
