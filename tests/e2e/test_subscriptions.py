"""MCP resources and subscriptions through the official client, over each transport and era."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters

from mnemolog.services.api import Event
from mnemolog.services.gateway import resources
from tests.e2e.conftest import MNEMOLOG, PATIENCE_S, Server, StdioClient, environment

WORDS_ONLY = ("--model", "none")
EVENTS = "mnemolog://events"
GRAPH = "memory://knowledge-graph"
EPISODES = "memory://episodes"

Updates = asyncio.Queue[str]


def stdio_on(data: Path) -> StdioServerParameters:
    args = ["stdio", "--data", str(data), *WORDS_ONLY]
    return StdioServerParameters(command=str(MNEMOLOG), args=args, env=environment())


@asynccontextmanager
async def connected(where: Any, mode: str) -> AsyncIterator[tuple[Client, Updates]]:
    """A client, and the resources it is told of."""
    updates: Updates = asyncio.Queue()

    async def note(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updates.put_nowait(message.params.uri)

    async with Client(
        where, mode=mode, read_timeout_seconds=PATIENCE_S, message_handler=note
    ) as client:
        yield client, updates


async def learn(client: Client, collection: str, number: int) -> str:
    said = f"trial {number}: {os.urandom(8).hex()}"
    result = await client.call_tool("learn", {"insight": said, "collection": collection})
    assert not result.is_error, result
    return said


async def read(client: Client, uri: str) -> dict[str, Any]:
    result = await client.read_resource(uri)
    (contents,) = result.contents
    assert isinstance(contents, types.TextResourceContents)
    assert (contents.uri, contents.mime_type) == (uri, "application/json")
    found: dict[str, Any] = json.loads(contents.text)
    return found


async def told(updates: Updates) -> str:
    return await asyncio.wait_for(updates.get(), PATIENCE_S)


async def subscribe(client: Client, uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await client.subscribe_resource(uri)


async def unsubscribe(client: Client, uri: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await client.unsubscribe_resource(uri)


@pytest.fixture(params=["stdio legacy", "stdio auto", "http legacy", "http auto"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, str]:
    transport, mode = request.param.split()
    if transport == "http":
        server: Server = request.getfixturevalue("server")
        return f"{server.url}/mcp", mode
    return stdio_on(tmp_path / "data"), mode


def test_resources(way: tuple[Any, str], collection: str) -> None:
    async def test() -> None:
        async with connected(*way) as (client, _):
            listed = (await client.list_resources()).resources
            assert [one.uri for one in listed] == [
                EVENTS,
                f"{EVENTS}/graph",
                GRAPH,
                f"{EVENTS}/episodes",
                EPISODES,
            ]
            page = await read(client, EPISODES)
            asked = await client.call_tool("batch_query_episodes", {})
            assert page == asked.structured_content
            whole = await read(client, GRAPH)
            assert whole == (await client.call_tool("read_graph", {})).structured_content
            templates = (await client.list_resource_templates()).resource_templates
            assert [one.uri_template for one in templates] == [
                f"{EVENTS}/robot/{{collection}}",
                "memory://entities/{entity}",
                "memory://episodes/domains/{domain}",
            ]
            uri = f"{EVENTS}/robot/{collection}"
            assert (await read(client, uri))["events"] == []
            said = [await learn(client, collection, number) for number in range(3)]
            found = await read(client, uri)
            assert [one["facts"][0]["content"] for one in found["events"]] == said
            assert found["space"] == f"robot/{collection}"
            assert found["position"] == found["events"][-1]["position"]
            everything = await read(client, EVENTS)
            assert everything["events"][-1] == found["events"][-1]
            for wrong in (f"{EVENTS}/foo", f"{EVENTS}/graph/x", f"{EVENTS}/robot/", "file:///etc"):
                with pytest.raises(MCPError) as refused:
                    await client.read_resource(wrong)
                assert refused.value.code == types.INVALID_PARAMS

    asyncio.run(test())


def test_a_name_that_needs_encoding(tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(stdio_on(tmp_path / "data"), "legacy") as (client, updates):
            uri = f"{EVENTS}/robot/Greifer%20%231%2Fl%C3%A4ngs"
            await subscribe(client, uri)
            said = await learn(client, "Greifer #1/längs", 1)
            assert await told(updates) == uri
            found = await read(client, uri)
            assert [one["facts"][0]["content"] for one in found["events"]] == [said]

    asyncio.run(test())


def test_subscribing_over_stdio(tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(stdio_on(tmp_path / "data"), "legacy") as (client, updates):
            resources = client.server_capabilities.resources
            assert resources is not None
            assert resources.subscribe is True
            one, two = f"{EVENTS}/robot/one", f"{EVENTS}/robot/two"
            await subscribe(client, one)
            await subscribe(client, one)
            await learn(client, "two", 1)
            said = await learn(client, "one", 2)
            assert await told(updates) == one
            assert (await read(client, one))["events"][-1]["facts"][0]["content"] == said
            await unsubscribe(client, one)
            await subscribe(client, two)
            await learn(client, "one", 3)
            await learn(client, "two", 4)
            assert await told(updates) == two
            with pytest.raises(MCPError, match="There is no resource"):
                await subscribe(client, f"{EVENTS}/foo")
            await unsubscribe(client, two)
            await subscribe(client, GRAPH)
            await learn(client, "two", 5)
            await client.call_tool("create_entities", {"entities": [{"name": "Cup"}]})
            assert await told(updates) == GRAPH
            assert (await read(client, GRAPH))["entities"][0]["name"] == "Cup"

    asyncio.run(test())


class Changing:
    """Calls whose events are what the test puts there."""

    def __init__(self) -> None:
        self.coming: asyncio.Queue[Event] = asyncio.Queue()

    async def events(self, space: str | None, after: str | None = None) -> AsyncIterator[Event]:
        yield Event(kind="opened", position="start")
        while True:
            yield await self.coming.get()
            self.coming.task_done()


def test_changes_that_come_close_together_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause has no end here, or none at all: no time passes but by the test's own doing."""

    async def test() -> None:
        changing, told = Changing(), 0
        change = Event(kind="decided", position="0:0")
        first = asyncio.Event()

        async def tell() -> None:
            nonlocal told
            told += 1
            first.set()

        async def happens(event: Event, times: int) -> None:
            for _ in range(times):
                changing.coming.put_nowait(event)
            # The last one was taken when the next is asked for; then all that can run has run.
            await asyncio.wait_for(changing.coming.join(), PATIENCE_S)
            for _ in range(100):
                await asyncio.sleep(0)

        watch = resources.Watch(cast(Any, changing), "robot/a", tell)
        await watch.open()
        try:
            monkeypatch.setattr(resources, "PAUSE_S", 3600)
            await happens(Event(kind="present", position="0:0"), 3)
            assert told == 0, "only changes are told"
            changing.coming.put_nowait(change)
            await asyncio.wait_for(first.wait(), PATIENCE_S)
            await happens(change, 30)
            assert told == 1
        finally:
            await watch.close()

        monkeypatch.setattr(resources, "PAUSE_S", 0)
        watch = resources.Watch(cast(Any, changing), "robot/a", tell)
        await watch.open()
        try:
            for count in range(2, 5):
                await happens(change, 1)
                assert told == count, "after the pause the next change is told"
        finally:
            await watch.close()

    asyncio.run(test())


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_listening(transport: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    async def test() -> None:
        where: Any = stdio_on(tmp_path / "data")
        if transport == "http":
            where = f"{request.getfixturevalue('server').url}/mcp"
        mine = f"listening-{os.urandom(4).hex()}"
        uri = f"{EVENTS}/robot/{mine}"
        async with connected(where, "auto") as (client, _):
            resources = client.server_capabilities.resources
            assert resources is not None
            assert resources.subscribe is True
            wanted = [uri, f"{EVENTS}/foo"]
            async with client.listen(resource_subscriptions=wanted) as subscription:
                assert subscription.honored.resource_subscriptions == [uri]
                for number in range(3):
                    said = await learn(client, mine, number)
                    async with asyncio.timeout(PATIENCE_S):
                        async for event in subscription:
                            assert event.uri == uri  # type: ignore[union-attr]
                            break
                    found = await read(client, uri)
                    assert found["events"][-1]["facts"][0]["content"] == said

    asyncio.run(test())


def test_what_http_cannot_do_is_not_offered(server: Server) -> None:
    """A request of the versions before 2026-07-28 leaves no way to tell the client anything."""

    async def test() -> None:
        async with connected(f"{server.url}/mcp", "legacy") as (client, _):
            resources = client.server_capabilities.resources
            assert resources is not None
            assert resources.subscribe is False
            with pytest.raises(MCPError) as unknown:
                await subscribe(client, EVENTS)
            assert unknown.value.code == types.METHOD_NOT_FOUND

    asyncio.run(test())


def test_a_server_that_ends_closes_what_listens(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", *WORDS_ONLY)

    async def test() -> None:
        async with (
            connected(f"{server.url}/mcp", "auto") as (client, _),
            client.listen(resource_subscriptions=[EVENTS]) as subscription,
        ):
            server.process.terminate()
            async with asyncio.timeout(PATIENCE_S):
                assert [event async for event in subscription] == []

    try:
        asyncio.run(test())
    finally:
        assert server.stop() == 0
    assert "timeout graceful shutdown" not in server.errors.read_text()


def test_a_client_that_listens_can_hang_up(tmp_path: Path) -> None:
    """The process ends at once: nobody waits for the answer that comes at the end."""

    async def test() -> None:
        async with connected(stdio_on(tmp_path / "data"), "auto") as (client, _):
            listening = client.listen(resource_subscriptions=[EVENTS])
            await listening.__aenter__()

    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


def test_a_guest_is_told_whoever_holds_the_store(
    tmp_path: Path, new_stdio: Callable[..., StdioClient]
) -> None:
    """One process holds the store, the client's works through it. When the holder is killed,
    following goes on with the next one, from where it was."""
    holder = new_stdio(*WORDS_ONLY)
    holder.initialize()
    holder.ok("learn", {"insight": "the holder was here first", "collection": "a"})
    uri = f"{EVENTS}/robot/a"

    async def test() -> None:
        async with connected(stdio_on(tmp_path / "data"), "legacy") as (client, updates):
            await subscribe(client, uri)
            await asyncio.to_thread(holder.ok, "learn", {"insight": "one", "collection": "a"})
            assert await told(updates) == uri
            assert len((await read(client, uri))["events"]) == 2
            third = new_stdio(*WORDS_ONLY)
            third.initialize()
            holder.process.kill()
            said = {"insight": "two hundred, said by another", "collection": "a"}
            await asyncio.to_thread(third.ok, "learn", said)
            assert await told(updates) == uri
            found = await read(client, uri)
            assert found["events"][-1]["facts"][0]["content"] == said["insight"]
            await unsubscribe(client, uri)
            assert len((await read(client, uri))["events"]) == 3

    asyncio.run(test())
