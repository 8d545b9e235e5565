"""What clients are told about the tools and the server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import mcp_types
import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mnemolog.services.families import FAMILIES
from mnemolog.services.gateway import identity
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.listed import named as listed
from tests.e2e.conftest import StdioClient, run
from tests.families import CATALOGUE

OFFER = Offer(CATALOGUE)
ROOT = Path(__file__).parents[2]
ROBOT = {
    "learn",
    "recall",
    "save_perception",
    "forget",
    "update",
    "start_session",
    "end_session",
}
GRAPH = {
    "create_entities",
    "create_relations",
    "add_observations",
    "delete_entities",
    "delete_observations",
    "delete_relations",
    "end_relation",
    "search_nodes",
    "open_nodes",
    "read_graph",
    "migrate",
    "search_semantic",
    "add_reflection",
    "search_reflections",
}
UPKEEP = {
    "analyze_entity_split",
    "propose_entity_split",
    "execute_entity_split",
    "find_split_candidates",
    "find_duplicate_observations",
    "consolidation_report",
}
EPISODES = {
    "create_episode",
    "add_episode_step",
    "complete_episode",
    "get_episode",
    "delete_episode",
    "get_episode_timeline",
    "bulk_episodes",
    "query_memory",
    "query_semantic_memory",
    "analyze_patterns",
    "search_patterns",
    "recommend_patterns",
    "advanced_pattern_analysis",
    "batch_query_episodes",
    "batch_pattern_analysis",
    "batch_compare_episodes",
    "add_episode_tags",
    "remove_episode_tags",
    "set_episode_tags",
    "get_episode_tags",
    "search_episodes_by_tags",
    "add_episode_relationship",
    "remove_episode_relationship",
    "get_episode_relationships",
    "find_related_episodes",
    "check_relationship_exists",
    "get_dependency_graph",
    "validate_no_cycles",
    "get_topological_order",
    "health_check",
    "get_metrics",
    "quality_metrics",
    "execute_agent_code",
    "configure_embeddings",
    "test_embeddings",
}
EVERY = ROBOT | GRAPH | UPKEEP | EPISODES


def test_every_tool_but_the_internal_ones_is_offered() -> None:
    names = {tool["name"] for tool in OFFER.definitions}
    assert names == {tool.name for tool in CATALOGUE.tools.values() if not tool.internal}
    assert names == EVERY
    assert not any(name.endswith("_tool") for name in names), "aliases are not listed"


@pytest.mark.parametrize("tool", OFFER.definitions, ids=lambda tool: tool["name"])
def test_definitions_are_valid_and_tidy(tool: dict[str, object]) -> None:
    mcp_types.Tool.model_validate(tool)
    schema = OFFER.schemas[str(tool["name"])]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    # What some clients cannot read.
    assert not {"$ref", "$defs", "null"} & set(re.findall(r'"(.*?)"', json.dumps(schema)))
    for name, about in schema["properties"].items():
        assert about.get("description"), f"{name} is not described"
    assert "\n" not in str(tool["description"])
    assert "  " not in str(tool)


def test_the_schema_says_what_the_service_checks() -> None:
    def takes(tool: str, /, **arguments: object) -> bool:
        validator = jsonschema.Draft202012Validator(OFFER.schemas[tool])
        return bool(validator.is_valid(arguments))

    assert takes("learn", insight="grip at 15N", context='{"a": 1}', collection="fleet 7 抓取")
    assert not takes("learn", insight="")
    assert not takes("learn", insight="a", mood="good")
    assert not takes("learn", insight="a", collection="a\x00b")
    assert not takes("learn", insight="a", collection="  ")
    assert takes("recall", query="cups", n=100, min_confidence=1.0, context_filter="{}")
    assert not takes("recall", query="cups", n=101)
    assert not takes("save_perception", description="wet!")
    assert not takes("forget", memory_id=0, reason="x")
    assert not takes("end_session", session_id="a", outcome_score=2)

    assert takes("create_entities", entities=[{"name": "Astro"}])
    assert not takes("create_entities", entities=[{"name": " "}])
    assert not takes("create_entities", entities=[{"name": "Astro"}] * 51)
    assert takes("add_observations", name="Astro", observations=["6.x"])
    assert takes("add_observations", observations=[{"entityName": "Astro", "contents": ["6.x"]}])
    assert not takes("add_observations", name="Astro", observations=["x" * 2001])
    assert takes("delete_observations", name="Astro", observations=["6.x"])
    assert takes("delete_observations", deletions=[{"entityName": "A", "observations": ["x"]}])
    assert not takes("create_relations", relations=[{"from": "A", "to": "B"}])
    assert takes("read_graph")
    assert not takes("search_nodes", query="x" * 501)
    assert takes("search_semantic", query="x", limit=100)
    assert not takes("search_semantic", query="x", limit=101)
    assert takes("add_reflection", target_type="global", content="x", mood="duda")
    assert not takes("add_reflection", target_type="memory", content="x")
    assert not takes("search_reflections", query=" ")

    task = {"task_description": "Fix the build", "domain": "ci", "task_type": "debugging"}
    assert takes("create_episode", **task, tags=["cargo"], complexity="simple")
    assert not takes("create_episode", **task, complexity="hard")
    assert not takes("create_episode", **{**task, "domain": " "})
    assert not takes("add_episode_step", episode_id="e", step_number=0, tool="t", action="a")
    assert not takes("complete_episode", episode_id="e", outcome_type="done")
    assert not takes("delete_episode", episode_id="e")
    assert not takes("bulk_episodes", episode_ids=["e"] * 101)
    assert takes("query_memory", query="x", domain="ci", sort="success")
    assert not takes("query_memory", query="x", domain="ci", sort="best")
    assert not takes("query_semantic_memory", query="x", similarity_threshold=1.5)


def test_annotations_tell_reads_from_writes() -> None:
    told = {tool["name"]: tool["annotations"] for tool in OFFER.definitions}
    assert told["recall"]["readOnlyHint"] is True
    assert told["forget"]["destructiveHint"] is True
    for name in GRAPH:
        reads = name.startswith("search_") or name in ("open_nodes", "read_graph")
        assert told[name]["readOnlyHint"] is reads
        assert told[name]["destructiveHint"] is name.startswith(("delete_", "end_"))
        assert told[name]["idempotentHint"] is (name != "add_reflection")
    for name in UPKEEP:
        assert told[name]["readOnlyHint"] is (name != "execute_entity_split")
    assert told["execute_entity_split"]["destructiveHint"] is True
    for name in EPISODES:
        takes_away = name.startswith(("delete_", "remove_", "set_"))
        writes = name.startswith(("create_", "add_", "complete_", "execute_", "configure_"))
        assert told[name]["readOnlyHint"] is not (takes_away or writes)
        assert told[name]["destructiveHint"] is takes_away
    assert told["learn"] == {
        "title": "Learn",
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": False,
    }


def test_the_instructions_name_the_tools_that_are_offered() -> None:
    for families in ({"robot"}, {"graph"}, {"robot", "graph"}, {"robot", "graph", "episodes"}):
        words = set(
            re.findall(r"[a-z]+(?:_[a-z]+)*", identity.instructions(listed(FAMILIES, families)))
        )
        offered = {tool["name"] for tool in Offer(CATALOGUE, frozenset(families)).definitions}
        named = words & {tool["name"] for tool in OFFER.definitions}
        assert named <= offered
        assert len(named) >= 6


def test_the_variable_of_another_server_is_pointed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_FILE_PATH", "memory.jsonl")
    told = run("stdio", "--data", str(tmp_path), given="")
    assert "MEMORY_FILE_PATH is not used. `mnemolog import FILE" in told.stderr


def test_constants_agree_with_their_sources() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == identity.VERSION
    assert identity.HANDSHAKE_VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS


def test_a_client_is_greeted_before_the_sdk_is_loaded() -> None:
    """What runs until then, and the tool definitions, must not import what is slow to load."""
    code = (
        "import sys, mnemolog.services.cli.main, mnemolog.services.cli.stdio\n"
        "import mnemolog.services.gateway.stdio\n"
        "slow = {'mcp', 'mcp_types', 'pydantic', 'rich', 'uvicorn', 'structlog', 'numpy'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "import mnemolog.services.gateway.tools\n"
        "assert 'mcp' not in sys.modules and 'pydantic' not in sys.modules\n"
        "import mnemolog.services.node.embedded.node\n"
        "assert not {'sklearn', 'scipy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_client_is_greeted_before_what_reads_calls_is_loaded() -> None:
    code = (
        "import sys, mnemolog.services.cli.main, mnemolog.services.cli.stdio\n"
        "import mnemolog.services.gateway.stdio\n"
        "print(*sys.modules)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    loaded = {name.removeprefix("mnemolog.") for name in done.stdout.split()}
    assert {"services.gateway.stdio", "infra.settings", "events.fields"} <= loaded
    later = {
        "events.arguments",
        "events.envelope",
        "events.ids",
        "infra.embedder.catalogue",
        "services.api",
        "services.catalogue",
        "services.gateway.calls",
        "services.gateway.malformed",
        "tomllib",
    }
    assert not later & loaded


def test_what_words_a_refusal_is_loaded_with_the_first_one() -> None:
    code = (
        "import sys\n"
        "from mnemolog.events.arguments import Refused, parse\n"
        "from mnemolog.events.robot import Learn\n"
        "words = {'mnemolog.events.problems', 'mnemolog.events.json_text'}\n"
        'parse(Learn, b\'{"insight": "a cup slips"}\')\n'
        "assert not words & set(sys.modules)\n"
        "try:\n"
        "    parse(Learn, b'{\"insight\": 1}')\n"
        "except Refused as refused:\n"
        "    assert refused.sentence.startswith('insight must be text'), refused.sentence\n"
        "assert words <= set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_only_the_families_asked_for_are_offered(tmp_path: Path) -> None:
    client = StdioClient(tmp_path / "data", "--toolsets", "graph", "--model", "none")
    try:
        told = client.initialize()["result"]["instructions"]
        assert told == identity.instructions(listed(FAMILIES, {"graph"}))
        assert "search_nodes" in told and "recall" not in told
        names = {tool["name"] for tool in client.ask("tools/list")["result"]["tools"]}
        assert "create_entities" in names and "learn" not in names
        refused = client.call("learn", {"insight": "grip at 15N"})
        assert refused["error"]["code"] == -32602
    finally:
        client.close()
    client = StdioClient(tmp_path / "data", "--toolsets", "robot", "--model", "none")
    try:
        client.initialize()
        for name in ("propose_entity_split", "propose_entity_split_tool"):
            refused = client.call(name, {"entity_name": "A"})
            assert refused["error"]["code"] == -32602
    finally:
        client.close()
    told = run("serve", "--toolsets", "robot,cooking", "--port", "0", "--data", str(tmp_path / "x"))
    assert told.returncode == 1
    assert "toolsets can be robot, graph, episodes" in told.stderr
