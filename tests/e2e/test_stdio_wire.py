"""The stdio transport on its own: lines, order, greetings, and ends, over real pipes.

The service behind it is a stand-in that records what it is asked: these tests are about the wire.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
from collections.abc import AsyncGenerator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mnemolog.services.api import Answer, Begun, Event, Follow, Progress, Request, Unavailable
from mnemolog.services.families import FAMILIES
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.gateway.calls import Calls, encode
from mnemolog.services.gateway.clients import Client
from mnemolog.services.gateway.connection import Connection
from mnemolog.services.gateway.identity import HANDSHAKE_VERSIONS
from mnemolog.services.gateway.mcp_server import build
from mnemolog.services.gateway.pipes import Lines, Output
from mnemolog.services.gateway.sizes import Raw
from mnemolog.services.gateway.stdio import greeting, serve
from mnemolog.services.gateway.tools import Offer
from tests.e2e.conftest import PATIENCE_S
from tests.families import CATALOGUE

Message = dict[str, Any]


class Recorder:
    """Answers every call with its number, once `gate` is open."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.finished = 0
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        self.asked.append(request)
        self.reached.set()
        number = len(self.asked)
        await self.gate.wait()
        self.finished += 1
        if request.tool == "gone":
            raise Unavailable("The store is closed; ask again later")
        if request.tool == "broken":
            raise RuntimeError("secret detail")
        if request.truncated is not None:
            reply = json.dumps({"error": request.truncated.reason}).encode()
            return Answer(reply=reply, refused=True)
        return Answer(reply=json.dumps({"number": number}).encode(), position="0:7")

    async def names(self, begun: Begun) -> list[str]:
        raise NotImplementedError

    async def figures(self) -> Message:
        return {}

    async def health(self) -> Message:
        return {}

    async def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        yield Event(kind="opened", position="start")


class Wire:
    """A client at the other end of two pipes."""

    def __init__(self, service: Recorder) -> None:
        self.service = service
        self._server_in, self._in = os.pipe()
        self._out, self._server_out = os.pipe()
        self.lines = Lines(self._out)
        self.input = Lines(self._server_in)
        self.calls = Calls(service, Caller(actor="tester"))

        self.opening = asyncio.Event()
        self.greeted_first = False

        async def open_calls() -> tuple[Calls, Offer]:
            self.greeted_first = bool(select.select([self._out], [], [], 0)[0])
            self.opening.set()
            return self.calls, Offer(CATALOGUE)

        self.serving = asyncio.create_task(
            serve(open_calls, self.input, Output(self._server_out), FAMILIES)
        )

    async def send(self, *messages: Message | bytes) -> None:
        lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages]
        await asyncio.to_thread(self._write, b"".join(line + b"\n" for line in lines))

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._in, data) :]

    async def receive(self) -> Message:
        line = await asyncio.wait_for(self.lines.next(), PATIENCE_S)
        assert isinstance(line, bytes), "the server hung up"
        message: Message = json.loads(line)
        return message

    async def hang_up(self) -> list[Message]:
        """Close the input; what else the server says before it ends."""
        os.close(self._in)
        await asyncio.wait_for(self.serving, PATIENCE_S)
        os.close(self._server_out)
        rest = []
        while isinstance(line := await self.lines.next(), bytes):
            rest.append(json.loads(line))
        os.close(self._out)
        os.close(self._server_in)
        return rest


def on_a_wire(test: Callable[[Wire], Awaitable[None]]) -> None:
    async def run() -> None:
        wire = Wire(Recorder())
        await wire.send(initialize(), {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (await wire.receive())["id"] == 0
        await test(wire)

    asyncio.run(run())


def initialize(version: str = "2025-06-18", number: int | str = 0) -> Message:
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "wire", "version": "2"},
    }
    return {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params}


def call(number: int | str, tool: str = "learn", **arguments: Any) -> Message:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.parametrize("version", [*HANDSHAKE_VERSIONS, "2026-07-28", "1999-01-01"])
def test_the_greeting_is_what_the_sdk_would_say(version: str) -> None:
    asked = json.dumps(initialize(version)).encode()
    greeted = greeting(asked, FAMILIES)
    assert greeted is not None

    async def from_sdk() -> Message:
        ours, theirs = os.pipe()
        empty, end = os.pipe()
        os.close(end)
        calls = Calls(Recorder())
        connection = Connection(calls, Lines(empty), Output(theirs), first=asked)
        client = Client(calls, Offer(CATALOGUE))
        server = build(lambda _: client, client.offer, duplex=True)
        await server.run(connection, connection, server.create_initialization_options())
        line = await Lines(ours).next()
        for fd in (ours, theirs, empty):
            os.close(fd)
        assert isinstance(line, bytes)
        message: Message = json.loads(line)
        return message

    assert json.loads(greeted[1]) == asyncio.run(from_sdk())


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}',
        b'{"jsonrpc":"2.0","method":"initialize"}',
        b"{",
        b"\xff",
    ],
)
def test_only_a_well_formed_initialize_is_greeted(line: bytes) -> None:
    assert greeting(line, FAMILIES) is None


def test_initialize_is_answered_once_and_calls_carry_who_and_where() -> None:
    async def test(wire: Wire) -> None:
        await wire.send(call("a", insight="x"))
        answer = await wire.receive()
        assert answer["id"] == "a"
        assert answer["result"]["structuredContent"] == {"number": 1}
        assert answer["result"]["_meta"]["position"] == "0:7"
        assert await wire.hang_up() == []
        asked = wire.service.asked[0]
        assert (asked.tool, asked.arguments) == ("learn", b'{"insight":"x"}')
        assert (asked.actor, asked.client) == ("tester", "wire/2")
        assert asked.received_at_us > 0
        assert len(asked.call_id) == 32

    on_a_wire(test)


def test_who_has_written_already_is_greeted_before_the_store_is_opened() -> None:
    async def run() -> None:
        wire = Wire(Recorder())
        wire._write(json.dumps(initialize()).encode() + b"\n")
        await asyncio.wait_for(wire.opening.wait(), PATIENCE_S)
        assert wire.greeted_first
        await wire.hang_up()

    asyncio.run(run())


def test_the_store_is_opened_while_nobody_has_written_yet() -> None:
    async def run() -> None:
        wire = Wire(Recorder())
        await asyncio.wait_for(wire.opening.wait(), PATIENCE_S)
        assert not wire.greeted_first
        await wire.send(initialize())
        assert (await wire.receive())["id"] == 0
        assert await wire.hang_up() == []

    asyncio.run(run())


def test_meta_reaches_the_service() -> None:
    async def test(wire: Wire) -> None:
        asked = call(1, insight="x")
        meta = {"idempotency_key": "k", "actor": "ann", "after": "0:3", "consistency": "strong"}
        asked["params"]["_meta"] = {**meta, "progressToken": 5}
        await wire.send(asked)
        assert (await wire.receive())["id"] == 1
        found = wire.service.asked[0]
        assert {name: getattr(found, name) for name in meta} == meta
        await wire.hang_up()

    on_a_wire(test)


def test_what_was_asked_before_the_end_is_answered_before_the_end() -> None:
    async def test(wire: Wire) -> None:
        wire.service.gate.clear()
        await wire.send(*(call(i) for i in range(1, 41)), b"not json")
        asyncio.get_running_loop().call_later(0.2, wire.service.gate.set)
        rest = await wire.hang_up()
        assert {one["id"] for one in rest} == {*range(1, 41), None}
        assert wire.service.finished == 41

    on_a_wire(test)


def test_more_requests_than_may_be_under_way_are_all_answered() -> None:
    async def test(wire: Wire) -> None:
        sending = asyncio.create_task(wire.send(*(call(i) for i in range(1, 1001))))
        assert {(await wire.receive())["id"] for _ in range(1000)} == set(range(1, 1001))
        await sending
        await wire.hang_up()

    on_a_wire(test)


def test_a_cancelled_call_is_carried_out_and_does_not_hold_up_the_end() -> None:
    async def test(wire: Wire) -> None:
        wire.service.gate.clear()
        await wire.send(call(1))
        await wire.service.reached.wait()
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        await wire.send({"jsonrpc": "2.0", **cancel}, {"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert (await wire.receive())["id"] == 2
        wire.service.gate.set()
        assert await wire.hang_up() == []
        assert wire.service.finished == 1

    on_a_wire(test)


def test_failures_tell_no_internals() -> None:
    async def test(wire: Wire) -> None:
        await wire.send(call(1, "gone"))
        gone = (await wire.receive())["error"]
        assert gone == {"code": -32603, "message": "The store is closed; ask again later"}
        await wire.send(call(2, "broken"))
        broken = (await wire.receive())["error"]
        assert broken == {"code": -32603, "message": "The call failed inside the service"}
        await wire.send(b"{", call(3))
        assert {(await wire.receive())["id"] for _ in range(2)} == {None, 3}
        await wire.hang_up()

    on_a_wire(test)


def test_unreadable_lines_are_recorded_with_their_digest() -> None:
    async def test(wire: Wire) -> None:
        line = b'{"insight": "\xff' + b"x" * 5000
        await wire.send(line)
        assert (await wire.receive())["error"]["code"] == -32700
        found = wire.service.asked[0]
        assert found.tool == ""
        assert found.arguments == line[:1000]
        assert found.truncated is not None
        assert (found.truncated.size, found.truncated.sha256) == (len(line), sha256(line).digest())
        await wire.hang_up()

    on_a_wire(test)


def test_a_slow_reader_gets_every_reply_whole() -> None:
    """Much more than a pipe holds, written while nobody reads: the server goes on serving."""

    async def test(wire: Wire) -> None:
        listed = {"jsonrpc": "2.0", "method": "tools/list"}
        await wire.send(*({**listed, "id": i} for i in range(1, 101)), call(101))
        await wire.service.reached.wait()
        found = [await wire.receive() for _ in range(101)]
        assert {one["id"] for one in found} == set(range(1, 102))
        await wire.hang_up()

    on_a_wire(test)


def read_all(data: bytes, max_bytes: int = 1000) -> list[bytes | Raw]:
    async def read() -> list[bytes | Raw]:
        ours, theirs = os.pipe()
        writing = asyncio.create_task(asyncio.to_thread(write, theirs))
        lines = Lines(ours, max_bytes)
        found = []
        while (line := await lines.next()) is not None:
            found.append(line)
        await writing
        os.close(ours)
        return found

    def write(fd: int) -> None:
        place = 0
        while place < len(data):
            place += os.write(fd, data[place:])
        os.close(fd)

    return asyncio.run(read())


def test_lines_are_split_and_blank_ones_skipped() -> None:
    assert read_all(b"a\n\n  \r\nb\r\nlast") == [b"a", b"b\r", b"last"]


def test_a_line_over_the_limit_is_kept_by_its_ends_and_digest() -> None:
    long = b"<" + b"x" * 300_000 + b">"
    found = read_all(b"before\n" + long + b"\nafter\n")
    assert found[0] == b"before"
    assert found[2] == b"after"
    assert isinstance(found[1], Raw)
    assert found[1] == Raw(long[:1000], long[-1000:], len(long), sha256(long).digest())


def test_a_file_on_disk_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\nb\n")

    async def read() -> list[bytes | Raw | None]:
        with file.open("rb") as opened:
            lines = Lines(opened.fileno())
            return [await lines.next() for _ in range(3)]

    assert asyncio.run(read()) == [b"a", b"b", None]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"a": [1, {"b": float("nan")}]}, "NaN"),
        ({"a": float("-inf")}, "Infinity"),
        ({"a": "\ud800"}, "surrogate"),
        ({"a": "x" * 1_048_577}, "too large: 1,048,585 bytes"),
    ],
)
def test_arguments_that_cannot_be_kept_whole(arguments: Message, words: str) -> None:
    data, truncated = encode(arguments)
    assert truncated is not None
    assert words in truncated.reason
    assert len(data) <= 1000
    assert truncated.size > 0


def test_a_null_is_no_nan() -> None:
    assert encode({"a": None, "b": 1.5}) == (b'{"a":null,"b":1.5}', None)
