"""Clients that ask for something that lasts, and are gone; and for what can never be."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from mnemolog.services.api import Answer, Progress, Request
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.connections import Door, Limited
from tests.attack.conftest import Attacked, answer, head, until
from tests.e2e.conftest import PATIENCE_S, Client, HttpClient

NEWEST = "2026-07-28"
QUESTION = {"query": "wet cups"}


def listening(count: int) -> bytes:
    """A request to be told of `count` spaces' changes."""
    uris = [f"mnemolog://events/robot/c{number}" for number in range(count)]
    meta = {PROTOCOL_VERSION_META_KEY: NEWEST, CLIENT_CAPABILITIES_META_KEY: {}}
    params = {"notifications": {"resourceSubscriptions": uris}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    body = json.dumps(message).encode()
    lines = (
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"MCP-Protocol-Version: {NEWEST}",
        "Mcp-Method: subscriptions/listen",
    )
    return head("/mcp", *lines, method="POST") + body


def test_subscriptions_end_with_their_client(attacked: Callable[..., Attacked]) -> None:
    server = attacked()
    for _ in range(5):
        with server.connect() as client:
            client.sendall(listening(60))
            assert answer(client)[0] == 200
            assert server.streams() >= 60
    until(lambda: server.streams() == 0)
    for _ in range(20):  # Gone while they are being opened.
        with server.connect() as client:
            client.sendall(listening(60))
    until(lambda: server.streams() == 0)
    with server.connect() as client:
        client.sendall(head("/events"))
        assert answer(client)[0] == 200
    until(lambda: server.streams() == 0)
    server.stop()
    assert "Traceback" not in server.errors.read_text()


@pytest.mark.parametrize("way", ["server", "stdio", "kafka_server"])
def test_a_position_that_nobody_can_have_seen(way: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(way)
    client: Client = found if isinstance(found, Client) else found.client()
    collection = f"test-{os.urandom(6).hex()}"
    answered = client.call("learn", {"insight": "cups slip when wet", "collection": collection})
    position = answered["result"]["_meta"]["position"]
    for tool, arguments in (("recall", QUESTION), ("learn", {"insight": "wet"})):
        given = {**arguments, "collection": collection}
        client.ok(tool, given, {"after": position})
        partition = position.partition(":")[0]
        sentence = client.refused(tool, given, {"after": f"{partition}:999999999"})
        assert f"after is {partition}:999999999, and partition {partition} of the log" in sentence
    if isinstance(client, HttpClient):
        status, told = client.get(f"/events?after={partition}:999999999")
        assert status == 400
        assert "of the log has" in told


class Waiting:
    """A service whose answers do not come before they may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.begun = asyncio.Semaphore(0)
        self.over = asyncio.Semaphore(0)
        self.ended: list[str] = []

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        self.begun.release()
        try:
            await self.may.wait()
            self.ended.append(request.tool)
        except asyncio.CancelledError:
            self.ended.append(f"{request.tool} given up")
            raise
        finally:
            self.over.release()
        return Answer(reply=b"{}")


def test_a_read_is_given_up_and_a_write_goes_on() -> None:
    async def test() -> None:
        service: Any = Waiting()
        calls = Calls(service, reads=frozenset(["recall"]))
        asking = [asyncio.create_task(calls.call(tool, {})) for tool in ("recall", "learn")]
        for _ in asking:
            await service.begun.acquire()
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await service.over.acquire()
        assert service.ended == ["recall given up"]
        service.may.set()
        await calls.finish(60)
        assert service.ended == ["recall given up", "learn"]

    asyncio.run(test())


def test_who_hangs_up_is_no_longer_worked_for() -> None:
    """A request that waits is cancelled when its connection is gone."""

    async def test() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        config = uvicorn.Config(app, lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        listening_on = socket.socket()
        listening_on.bind(("127.0.0.1", 0))
        door = Door(listening_on, 1024)
        door.open(
            state.connections,
            lambda: Limited(door, config=config, server_state=state, app_state={}),
        )
        _, writer = await asyncio.open_connection(*listening_on.getsockname())
        writer.write(head("/"))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        assert door.busy == 1
        writer.close()
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        await asyncio.wait_for(asyncio.gather(*state.tasks), PATIENCE_S)
        assert door.busy == 0
        assert not state.connections
        door.close()
        listening_on.close()

    asyncio.run(test())
