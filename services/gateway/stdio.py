"""`mnemolog stdio`: MCP over stdin and stdout.

Loading the MCP SDK takes about a second, opening a store some more; a client should not wait for
either to hear who is there. So the first `initialize` is answered at once, from constants. The same
message then goes to the SDK, whose own answer to it is dropped; everything after that is the SDK's.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mnemolog.infra.descriptors import raise_limit
from mnemolog.infra.memory import limit_arenas
from mnemolog.services.gateway import identity
from mnemolog.services.gateway.pipes import Lines, Output
from mnemolog.services.gateway.sizes import MAX_OTHER_BYTES, Raw
from mnemolog.services.listed import Families, named
from mnemolog.services.node.traces import taken

if TYPE_CHECKING:
    from mnemolog.infra.settings import Settings
    from mnemolog.services.gateway.calls import Calls
    from mnemolog.services.gateway.tools import Offer

HEAD_START_S = 0.01
"""Loading the rest waits this long for the first message. What loads takes the interpreter for
milliseconds at a time, several times while one line is read and answered; a client that writes as
soon as it has started the process has written long before this."""


class _ClientInfo(msgspec.Struct):
    name: str
    version: str


class _InitializeParams(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: dict[str, Any]
    client_info: _ClientInfo


class Initialize(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["initialize"]
    params: _InitializeParams


_initialize = msgspec.json.Decoder(Initialize)


def greeting(
    line: bytes, families: Families, *, read_only: bool = False
) -> tuple[int | str, bytes] | None:
    """The id and the answer for a well-formed `initialize`; None for any other message."""
    if len(line) > MAX_OTHER_BYTES:
        return None
    try:
        asked = _initialize.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    version = asked.params.protocol_version
    if version not in identity.HANDSHAKE_VERSIONS:
        version = identity.HANDSHAKE_VERSIONS[-1]
    result = {
        "protocolVersion": version,
        "capabilities": {
            "completions": {},
            "prompts": {"listChanged": False},
            "resources": {"subscribe": True, "listChanged": False},
            "tools": {"listChanged": False},
        },
        "serverInfo": {
            "name": identity.NAME,
            "title": identity.TITLE,
            "version": identity.VERSION,
        },
        "instructions": identity.instructions(families, read_only=read_only),
    }
    reply = {"jsonrpc": "2.0", "id": asked.id, "result": result}
    return asked.id, msgspec.json.encode(reply) + b"\n"


async def serve(
    open_calls: Callable[[], Awaitable[tuple[Calls, Offer]]],
    lines: Lines,
    output: Output,
    families: Families,
    *,
    read_only: bool = False,
) -> None:
    """Serve one client, who is offered `families`, until it is gone. `open_calls` is awaited once
    the client is greeted, or beside waiting for it."""
    meeting = asyncio.create_task(_meet(lines, output, families, read_only))
    await asyncio.wait([meeting], timeout=HEAD_START_S)
    preparing = asyncio.create_task(_prepare(open_calls))
    first, greeted = await meeting
    calls, offer = await preparing
    from mnemolog.services.gateway.clients import Client
    from mnemolog.services.gateway.connection import FINISH_S, Connection
    from mnemolog.services.gateway.mcp_server import build

    connection = Connection(calls, lines, output, first, greeted)
    client = Client(calls, offer)
    server = build(lambda _: client, offer, duplex=True)
    await server.run(connection, connection, server.create_initialization_options())
    await calls.finish(FINISH_S)


async def _meet(
    lines: Lines, output: Output, families: Families, read_only: bool
) -> tuple[bytes | Raw | None, int | str | None]:
    """The first message, and its id if it has been answered."""
    first = await lines.next()
    greeted = None
    if isinstance(first, bytes):
        greeted = greeting(first, families, read_only=read_only)
    if greeted is None:
        return first, None
    await output.write(greeted[1])
    return first, greeted[0]


async def _prepare(
    open_calls: Callable[[], Awaitable[tuple[Calls, Offer]]],
) -> tuple[Calls, Offer]:
    opened = await open_calls()
    await asyncio.to_thread(
        _load, "mnemolog.services.gateway.mcp_server", "mnemolog.services.gateway.connection"
    )
    return opened


def _load(*modules: str) -> None:
    # Thousands of classes are made and none thrown away: collecting meanwhile is a fifth of it.
    gc.disable()
    try:
        for module in modules:
            importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def run(settings: Settings, actor: str, families: Families) -> None:
    """`mnemolog stdio`: returns when the client is gone or the process is told to end."""
    limit_arenas()
    raise_limit()
    with taken(settings, identity.VERSION):
        asyncio.run(_run(settings, actor, families))


async def _run(settings: Settings, actor: str, families: Families) -> None:
    read_fd, write_fd = _claim()
    lines, output = Lines(read_fd), Output(write_fd)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lines.stop)
    service: Any = None

    async def open_calls() -> tuple[Calls, Offer]:
        nonlocal service
        await asyncio.to_thread(
            _load, "mnemolog.services.node.sharing.shared", "mnemolog.services.gateway.logs"
        )
        from mnemolog.services.api import own_files
        from mnemolog.services.catalogue import load
        from mnemolog.services.gateway import logs
        from mnemolog.services.gateway.caller import Caller
        from mnemolog.services.gateway.calls import Calls
        from mnemolog.services.gateway.tools import Offer
        from mnemolog.services.gateway.watched import Watched, calls_told
        from mnemolog.services.node.sharing.shared import SharedService

        logs.to_stderr(settings.log_format, settings.log_level)
        catalogue = await asyncio.to_thread(load, families)
        offer = Offer(catalogue, settings.families, read_only=settings.read_only)
        service = SharedService(settings, catalogue)
        await service.start()
        told = calls_told(wanted=settings.log_calls, level=settings.log_level)
        families_of = {name: catalogue.family_of[name].name for name in offer.tools}
        calls = Calls(
            Watched(service, families_of, told),
            Caller(tenant=settings.tenant, actor=actor),
            files=own_files(),
            reads=offer.reads,
        )
        return calls, offer

    try:
        offered = named(families, settings.families)
        await serve(open_calls, lines, output, offered, read_only=settings.read_only)
    finally:
        if service is not None:
            await service.close()


def _claim() -> tuple[int, int]:
    """Private copies of stdin and stdout. What anything else in this process reads or prints from
    here on is the null device and stderr, so that it cannot get into the protocol."""
    read_fd, write_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return read_fd, write_fd
