"""What a client is offered: the families that its address names, or only what reads."""

from __future__ import annotations

import asyncio
import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp
import pytest

from mnemolog.services.families import FAMILIES
from mnemolog.services.gateway import identity
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.listed import named
from tests.e2e.conftest import PATIENCE_S, Message, Server, StdioClient
from tests.families import CATALOGUE

MODERN = "2026-07-28"
WORDS_ONLY = ("--model", "none")
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "toolsets", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("toolsets") / "data", *WORDS_ONLY)
    yield server
    server.stop()


class Asker:
    """One POST a message to an address with a query, in a version of the protocol."""

    def __init__(self, server: Server, query: str = "", version: str | None = None) -> None:
        self.address = f"{server.url}/mcp{query}"
        self._version = version
        self._ids = itertools.count(1)

    def __call__(self, method: str, params: Message | None = None) -> tuple[int, Message]:
        given, headers = dict(params or {}), {"Content-Type": "application/json"}
        if self._version == MODERN:
            given["_meta"] = ENVELOPE | given.get("_meta", {})
            headers["Mcp-Method"] = method
            if "name" in given or "uri" in given:
                headers["Mcp-Name"] = str(given.get("name", given.get("uri")))
        if self._version is not None:
            headers["MCP-Protocol-Version"] = self._version
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": given}
        return post(self.address, json.dumps(message).encode(), headers)

    def result(self, method: str, params: Message | None = None) -> Any:
        status, message = self(method, params)
        assert status == 200 and "result" in message, message
        return message["result"]

    def error(self, method: str, params: Message | None = None) -> Any:
        return self(method, params)[1]["error"]


def post(address: str, data: bytes, headers: dict[str, str]) -> tuple[int, Message]:
    request = urllib.request.Request(address, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as told:
            return told.status, json.loads(told.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def tools_of(families: set[str], *, read_only: bool = False) -> set[str]:
    offer = Offer(CATALOGUE, frozenset(families), read_only=read_only)
    return {one["name"] for one in offer.definitions}


@pytest.mark.parametrize("version", [None, "2025-06-18", MODERN])
def test_an_address_names_its_families(served: Server, version: str | None) -> None:
    ask = Asker(served, "?toolsets=graph,%20episodes", version)
    listed = {one["name"] for one in ask.result("tools/list")["tools"]}
    assert listed == tools_of({"graph", "episodes"})
    assert "search_nodes" in listed and "learn" not in listed
    refused = ask.error("tools/call", {"name": "learn", "arguments": {"insight": "x"}})
    assert (refused["code"], refused["message"]) == (-32602, "Unknown tool 'learn'")
    found = ask.result("tools/call", {"name": "read_graph", "arguments": {}})
    assert found["isError"] is False
    uris = {one["uri"] for one in ask.result("resources/list")["resources"]}
    assert {"memory://knowledge-graph", "mnemolog://events/episodes"} <= uris
    templates = ask.result("resources/templates/list")["resourceTemplates"]
    assert not [one for one in templates if "robot" in one["uriTemplate"]]
    gone = ask.error("resources/read", {"uri": "mnemolog://events/robot/default"})
    assert gone["code"] == -32602 and "There is no resource" in gone["message"]
    assert ask.result("resources/read", {"uri": "memory://knowledge-graph"})["contents"]


@pytest.mark.parametrize("query", ["", "?toolsets=", "?toolsets=,"])
def test_an_address_that_names_none_has_all(served: Server, query: str) -> None:
    listed = {one["name"] for one in Asker(served, query).result("tools/list")["tools"]}
    assert listed == tools_of({"robot", "graph", "episodes"})


def test_what_is_told_of_them_is_told_of_these(served: Server) -> None:
    expected = identity.instructions(named(FAMILIES, {"graph"}))
    given = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "toolsets", "version": "1"},
    }
    greeted = Asker(served, "?toolsets=graph").result("initialize", given)
    assert greeted["instructions"] == expected
    found = Asker(served, "?toolsets=graph", MODERN).result("server/discover")
    assert found["instructions"] == expected
    assert found["capabilities"].keys() == greeted["capabilities"].keys()


def test_the_official_client_with_such_an_address(served: Server) -> None:
    async def test() -> None:
        async with mcp.Client(f"{served.url}/mcp?toolsets=episodes") as client:
            assert client.instructions == identity.instructions(named(FAMILIES, {"episodes"}))
            names = {one.name for one in (await client.list_tools()).tools}
            assert names == tools_of({"episodes"})
            with pytest.raises(mcp.MCPError, match="Unknown tool 'recall'"):
                await client.call_tool("recall", {"query": "x"})

    asyncio.run(test())


@pytest.mark.parametrize("version", [None, MODERN])
@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_a_family_that_there_is_not(served: Server, version: str | None, method: str) -> None:
    ask = Asker(served, "?toolsets=graph,cooking", version)
    status, message = ask(method, {"name": "read_graph", "arguments": {}})
    assert status == 400
    assert message["error"]["code"] == -32602
    assert message["error"]["message"] == (
        "toolsets can be robot, graph, episodes, separated by commas; not cooking"
    )
    _, long = Asker(served, f"?toolsets={'x' * 5000}", version)(method)
    assert len(long["error"]["message"]) < 300


def test_a_server_with_few_families_does_not_give_more(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--toolsets", "robot,graph", *WORDS_ONLY)
    try:
        status, message = Asker(server, "?toolsets=episodes")("tools/list")
        assert status == 400
        assert "toolsets can be robot, graph, separated" in message["error"]["message"]
        listed = Asker(server, "?toolsets=graph").result("tools/list")["tools"]
        assert {one["name"] for one in listed} == tools_of({"graph"})
    finally:
        server.stop()


# --- read-only -----------------------------------------------------------------------------------


def test_a_service_that_can_only_be_read(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", *WORDS_ONLY)
    try:
        server.client().ok("learn", {"insight": "cups slip when wet"})
    finally:
        server.stop()
    server = Server(tmp_path / "data", "--read-only", *WORDS_ONLY)
    try:
        for version in (None, "2025-11-25", MODERN):
            ask = Asker(server, version=version)
            listed = ask.result("tools/list")["tools"]
            assert {one["name"] for one in listed} == tools_of(set(), read_only=True)
            assert all(one["annotations"]["readOnlyHint"] for one in listed)
            refused = ask.error("tools/call", {"name": "learn", "arguments": {"insight": "x"}})
            assert refused["code"] == -32602
            assert refused["message"] == (
                "Unknown tool 'learn': this service is read-only, and offers only what reads"
            )
            found = ask.result("tools/call", {"name": "recall", "arguments": {"query": "cups"}})
            assert found["structuredContent"]["total"] == 1
            assert ask.result("resources/read", {"uri": "mnemolog://events/robot/default"})
            names = {one["name"] for one in ask.result("prompts/list")["prompts"]}
            assert names == {"before_task", "review_learned"}
        narrow = Asker(server, "?toolsets=robot")
        assert {one["name"] for one in narrow.result("tools/list")["tools"]} == {"recall"}
        other = narrow.error("tools/call", {"name": "add_reflection", "arguments": {}})
        assert other["message"] == "Unknown tool 'add_reflection'"
        told = Asker(server, version=MODERN).result("server/discover")["instructions"]
        assert "can be read, and not changed" in told
        status, body = server.client().get("/events?space=robot/default&after=start&follow=false")
        assert status == 200 and body.count("event: decided") == 1
    finally:
        server.stop()


def test_read_only_over_stdio(tmp_path: Path) -> None:
    client = StdioClient(tmp_path / "data", "--read-only", "--toolsets", "graph", *WORDS_ONLY)
    try:
        told = client.initialize()["result"]["instructions"]
        assert told == identity.instructions(named(FAMILIES, {"graph"}), read_only=True)
        names = {tool["name"] for tool in client.ask("tools/list")["result"]["tools"]}
        assert names == tools_of({"graph"}, read_only=True)
        assert "read-only" in client.refused("create_entities", {"entities": []})
        assert client.ok("read_graph", {})["entities"] == []
    finally:
        client.close()
