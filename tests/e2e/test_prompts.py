"""Prompts for the moments of a task, and names that complete what somebody types."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp_types import PromptReference, ResourceTemplateReference

from mnemolog.infra.kafka.broker import Broker
from mnemolog.services.gateway.auth.needs import Needs, needs
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.scopes import READ
from tests.e2e.conftest import TRANSPORTS, Server, StdioClient, checked, reached
from tests.families import CATALOGUE

MOMENTS = ["before_task", "after_task", "review_learned"]
WORDS_ONLY = ("--model", "none")
CUP = {"name": "Cup", "entityType": "thing", "observations": []}
GIVEN = {"task": "stack 'wet' cups", "collection": "kitchen", "entity": "Cup", "domain": "web"}


def text_of(offer: Offer, name: str, given: dict[str, str]) -> str:
    (message,) = offer.prompts[name].messages(given)
    assert message["role"] == "user" and message["content"]["type"] == "text"
    return str(message["content"]["text"])


def test_what_is_offered_for_a_task() -> None:
    offer = Offer(CATALOGUE)
    assert list(offer.prompts) == MOMENTS
    for name in MOMENTS:
        shown = offer.prompts[name].definition
        assert [one["name"] for one in shown["arguments"]] == list(GIVEN)
        assert not any(one["required"] for one in shown["arguments"])
        assert "wet" in text_of(offer, name, GIVEN)
        assert "wet" not in text_of(offer, name, {})
    before = text_of(offer, "before_task", GIVEN)
    assert '"kitchen"' in before and '"Cup"' in before and '"web"' in before


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("families", [(), ("robot",), ("graph",), ("episodes",)])
def test_prompts_name_no_tool_that_is_not_offered(
    families: tuple[str, ...], read_only: bool
) -> None:
    offer = Offer(CATALOGUE, frozenset(families), read_only=read_only)
    assert list(offer.prompts) == [one for one in MOMENTS if not read_only or one != "after_task"]
    known = {name for name, tool in CATALOGUE.tools.items() if not tool.internal}
    for name in offer.prompts:
        named = known & set(re.findall(r"\w+", text_of(offer, name, {})))
        assert named and named <= offer.tools.keys()


def test_names_are_for_who_may_read() -> None:
    offer = Offer(CATALOGUE)
    assert needs(offer, "completion/complete") == Needs(READ, "read")
    for method in ("prompts/list", "prompts/get"):
        assert needs(offer, method) == Needs(None, "read")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_gets_them(transport: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async def test(way: Any) -> None:
        async with mcp.Client(way) as client:
            assert client.server_capabilities.prompts is not None
            assert client.server_capabilities.completions is not None
            prompts = (await client.list_prompts()).prompts
            assert [one.name for one in prompts] == MOMENTS
            got = await client.get_prompt("before_task", {"task": "stack cups"})
            (message,) = got.messages
            assert "stack cups" in message.content.text  # type: ignore[union-attr]
            for name, given, said in (
                ("cook", {}, "There is no prompt 'cook'; there are before_task, after_task"),
                ("before_task", {"x": "y"}, "The prompt before_task has no argument 'x'; its"),
                ("before_task", {"task": "x" * 10_001}, "task is too long: at most 10,000"),
            ):
                with pytest.raises(mcp.MCPError, match=said) as refused:
                    await client.get_prompt(name, given)
                assert refused.value.code == -32602
            await complete(client)

    def broker() -> Broker:
        found: Broker = request.getfixturevalue("broker")
        return found

    with reached(transport, tmp_path / "data", broker, *WORDS_ONLY) as way:
        asyncio.run(test(way))


async def complete(client: mcp.Client) -> None:
    """Names of collections, entities and domains, in prompts and in addresses."""
    call = checked(client)
    for collection in ("kitchen", "kiln", "garage", "garage/left"):
        await call("learn", insight="cups slip when wet", collection=collection)
    entities = [{**CUP, "name": f"Cup {n:03}"} for n in range(101)]
    for start in range(0, len(entities), 50):
        await call("create_entities", entities=entities[start : start + 50])
    for domain in ("web-api", "web-ui", "data", "web-api"):
        given = {"task_description": "Renew the token", "domain": domain, "task_type": "testing"}
        await call("create_episode", **given)

    async def found(ref: Any, argument: str, value: str) -> tuple[list[str], bool]:
        told = (await client.complete(ref, {"name": argument, "value": value})).completion
        assert told.total == (None if told.has_more else len(told.values))
        return told.values, bool(told.has_more)

    prompt = PromptReference(name="before_task")
    assert await found(prompt, "collection", "ki") == (["kiln", "kitchen"], False)
    assert await found(prompt, "collection", "garage") == (["garage", "garage/left"], False)
    assert await found(prompt, "domain", "") == (["data", "web-api", "web-ui"], False)
    assert await found(prompt, "domain", "web-a") == (["web-api"], False)
    assert await found(prompt, "entity", "Cup 05") == ([f"Cup 05{n}" for n in range(10)], False)
    assert await found(prompt, "task", "st") == ([], False)
    assert await found(prompt, "entity", "x" * 5000) == ([], False)
    many, more = await found(prompt, "entity", "Cup")
    assert (len(many), more) == (100, True)
    events = ResourceTemplateReference(uri="mnemolog://events/robot/{collection}")
    assert await found(events, "collection", "kil") == (["kiln"], False)
    entity = ResourceTemplateReference(uri="memory://entities/{entity}")
    assert await found(entity, "entity", "Cup 100") == (["Cup 100"], False)
    domain_ = ResourceTemplateReference(uri="memory://episodes/domains/{domain}")
    assert await found(domain_, "domain", "d") == (["data"], False)
    for ref, argument, said in (
        (PromptReference(name="cook"), "task", "There is no prompt 'cook'"),
        (prompt, "colour", "has no argument 'colour'; there are task, collection"),
        (ResourceTemplateReference(uri="memory://{x}"), "x", "There is no resource template"),
        (events, "entity", "has no argument 'entity'; there are collection"),
    ):
        with pytest.raises(mcp.MCPError, match=said) as refused:
            await client.complete(ref, {"name": argument, "value": ""})
        assert refused.value.code == -32602
    (read,) = (await client.read_resource("memory://entities/Cup%20007")).contents
    assert '"Cup 007"' in read.text  # type: ignore[union-attr]
    for wrong in (f"memory://episodes/domains/{'x' * 1000}", "memory://entities/a/b"):
        with pytest.raises(mcp.MCPError) as refused:
            await client.read_resource(wrong)
        assert refused.value.code == -32602
        assert refused.value.error.data == {"uri": wrong[:140]}
    (read,) = (await client.read_resource("memory://episodes/domains/data")).contents
    assert '"data"' in read.text and '"web-ui"' not in read.text  # type: ignore[union-attr]


def test_names_are_completed_through_another_process(
    tmp_path: Path, new_stdio: Callable[..., StdioClient]
) -> None:
    holder = Server(tmp_path / "data", *WORDS_ONLY, "--partitions", "3")
    try:
        names = [f"line-{n}" for n in range(9)]
        for name in names:
            holder.client().ok("learn", {"insight": "cups slip", "collection": name})
        guest = new_stdio(*WORDS_ONLY)
        guest.initialize()
        asked = {
            "ref": {"type": "ref/prompt", "name": "before_task"},
            "argument": {"name": "collection", "value": "line"},
        }
        told = guest.ask("completion/complete", asked)["result"]["completion"]
        assert told["values"] == names
    finally:
        holder.stop()


def test_names_are_a_tenants_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_stdio: Callable[..., StdioClient]
) -> None:
    mine = new_stdio(*WORDS_ONLY)
    mine.initialize()
    mine.ok("learn", {"insight": "cups slip", "collection": "kitchen"})
    mine.ok("create_entities", {"entities": [CUP]})
    monkeypatch.setenv("MNEMOLOG_TENANT", "other")
    theirs = new_stdio(*WORDS_ONLY)
    theirs.initialize()
    for argument, expected in (("collection", ["kitchen"]), ("entity", ["Cup"])):
        asked = {
            "ref": {"type": "ref/prompt", "name": "before_task"},
            "argument": {"name": argument, "value": ""},
        }
        for client, found in ((mine, expected), (theirs, [])):
            told = client.ask("completion/complete", asked)["result"]["completion"]
            assert told["values"] == found
