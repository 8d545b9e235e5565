"""`mnemolog serve`: MCP over HTTP at POST /mcp, and what operators look at."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import jsonrpc_message_adapter
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from mnemolog.infra.descriptors import raise_limit
from mnemolog.infra.memory import limit_arenas
from mnemolog.services.api import Service, Unavailable, own_files
from mnemolog.services.catalogue import Catalogue, load
from mnemolog.services.gateway import direct, logs, malformed, shape
from mnemolog.services.gateway.bodies import Body, Full, Room
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.connections import Door, Limited, no_room
from mnemolog.services.gateway.hosts import Guard, Hosts
from mnemolog.services.gateway.mcp_server import build
from mnemolog.services.gateway.metrics import Measured
from mnemolog.services.gateway.sizes import MAX_MESSAGE_BYTES, Raw
from mnemolog.services.gateway.sse import Events
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.listed import Families

if TYPE_CHECKING:
    from mnemolog.infra.settings import Settings

GRACE_S = 10
"""How long requests under way may take to finish at shutdown."""
IDLE_S = 5
"""How long a connection is kept open between two requests."""

_PATH = re.compile(r"(?<![\w:/.])/(?:[^\s/'\",;:()]+/)*[^\s/'\",;:()]+/?")


class Mcp:
    """The endpoint: answers plain calls and what cannot be read, completes what plain clients leave
    out, and hands the rest to the SDK."""

    def __init__(
        self,
        calls: Calls,
        offer: Offer,
        ending: asyncio.Event,
    ) -> None:
        self._calls = calls
        self._offer = offer
        self._room = Room()
        self.manager = StreamableHTTPSessionManager(
            build(calls, offer, ending=ending),
            json_response=True,
            stateless=True,
            max_request_body_size=MAX_MESSAGE_BYTES,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        # Before anything is read or recorded: a form on a web page cannot send this type.
        if not request.headers.get("content-type", "").lower().startswith("application/json"):
            wrong = Response("Content-Type must be application/json", 400)
            await wrong(scope, receive, send)
            return
        body = Body(self._room)
        try:
            await self._answer(request, await body.read(request), send)
        except ClientDisconnect:
            return
        except Full:
            full = no_room("As many large messages as fit in memory are under way")
            await full(scope, receive, send)
        finally:
            body.close()

    async def _answer(self, request: Request, body: bytes | Raw, send: Send) -> None:
        if isinstance(body, Raw):
            await self._refuse(malformed.too_large(body), 413, request, send)
            return
        version = request.headers.get("mcp-protocol-version")
        found = await shape.in_time(lambda body: _look(body, version), body)
        if isinstance(found, direct.PlainCall):
            client = request.headers.get("user-agent", "")
            reply = await direct.answer(self._calls, self._offer, found, client)
            answer = Response(reply, media_type="application/json")
            await answer(request.scope, request.receive, send)
        elif found is not None:
            await self._refuse(found, 400, request, send)
        else:
            # The answer is always one JSON body, whatever the client says it accepts.
            MutableHeaders(scope=request.scope)["accept"] = "application/json, text/event-stream"
            again = _replay(body, request.receive)
            await self.manager.handle_request(request.scope, again, send)

    async def _refuse(
        self, problem: malformed.Malformed, status: int, request: Request, send: Send
    ) -> None:
        client = request.headers.get("user-agent", "")
        error = await malformed.refuse(self._calls, problem, client)
        await _json(error, status)(request.scope, request.receive, send)


def _look(body: bytes, version: str | None) -> direct.PlainCall | malformed.Malformed | None:
    """A plain call, or what is wrong with the message; None: it is for the SDK."""
    problem = shape.too_much(body)
    if problem is not None:
        return problem
    call = direct.read(body, version)
    if call is not None:
        return call
    try:
        message = jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValueError:
        return malformed.unreadable(body)
    return malformed.unreadable(body) if malformed.is_dropped(message) else None


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def build_app(
    service: Service,
    settings: Settings,
    catalogue: Catalogue,
    hosts: Hosts,
    lifespan_service: Any = None,
) -> Starlette:
    """The HTTP application. `lifespan_service` is closed when the application ends."""
    offer = Offer(catalogue, settings.families)
    measured = Measured(service, offer.names)
    calls = Calls(
        measured,
        tenant=settings.tenant,
        actor=settings.actor,
        files=own_files(settings.import_root),
        reads=offer.reads,
    )
    ending = asyncio.Event()
    mcp = Mcp(calls, offer, ending)
    events = Events(calls, ending)

    async def healthz(_: Request) -> Response:
        try:
            found = await service.health()
        except Unavailable as error:
            found = {"status": "unavailable", "reasons": [str(error)]}
        found.pop("data", None)
        return _json(without_paths(found), 200 if found.get("status") == "ok" else 503)

    async def metrics(_: Request) -> Response:
        return Response(
            await measured.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    async def home(_: Request) -> Response:
        return PlainTextResponse(
            "Mnemolog: memory for agents and robots. Speak MCP to POST /mcp; "
            "GET /events tells what changes; GET /healthz and GET /metrics tell how it is.\n"
        )

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with mcp.manager.run():
            yield
            await calls.finish(GRACE_S)
        if lifespan_service is not None:
            await lifespan_service.close()

    app = Starlette(
        routes=[
            Route("/mcp", mcp, methods=["POST"]),
            Route("/events", events, methods=["GET"]),
            Route("/healthz", healthz),
            Route("/metrics", metrics),
            Route("/", home),
        ],
        middleware=[Middleware(Guard, hosts=hosts)],
        lifespan=lifespan,
    )
    app.state.ending = ending
    return app


def without_paths(value: Any) -> Any:
    """What is shown to whoever reaches the port says nothing of the machine's directories."""
    if isinstance(value, dict):
        return {key: without_paths(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_paths(one) for one in value]
    return _PATH.sub("(a path)", value) if isinstance(value, str) else value


def _json(value: Any, status: int) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def run(settings: Settings, families: Families) -> None:
    """`mnemolog serve`: returns when told to end. Raises `Unavailable` when it cannot serve."""
    limit_arenas()
    descriptors = raise_limit()
    logs.to_stderr()
    listening = _listen(settings.host, settings.port)
    # The server ends by these signals in good order, then raises them again for whoever was there
    # before; nobody shall be.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    asyncio.run(_serve(settings, load(families), listening, descriptors))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol named, or the loop leaves Nagle's algorithm on: 40 ms an answer.
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        raise Unavailable(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. "
            "Give another port with --port"
        ) from None
    return listening


class _Server(uvicorn.Server):
    """Connections come in through `door`. Waits for requests under way when it ends; those that
    would never end by themselves are told first."""

    def __init__(self, config: uvicorn.Config, ending: asyncio.Event, door: Door) -> None:
        super().__init__(config)
        self._told = ending
        self._door = door

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._door.open(self.server_state.connections, self._connection)

    def _connection(self) -> Limited:
        return Limited(
            self._door,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._door.close()
        self._told.set()
        await super().shutdown(sockets)


async def _serve(
    settings: Settings, catalogue: Catalogue, listening: socket.socket, descriptors: int
) -> None:
    from mnemolog.services.node.sharing.shared import SharedService

    service = SharedService(settings, catalogue, exclusive=True)
    await service.start()
    hosts = Hosts(settings.host, listening.getsockname()[0], settings.hosts)
    app = build_app(service, settings, catalogue, hosts, service)
    config = uvicorn.Config(
        app,
        # Warnings are about what clients send: nothing to fill the log with.
        log_level="error",
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config, app.state.ending, Door(listening, descriptors))
    opening = asyncio.create_task(_announce(service, settings, listening))
    opening.add_done_callback(lambda task: _end_if_failed(task, server))
    await server.serve(sockets=[listening])
    if opening.done():
        await opening
    else:
        opening.cancel()


async def _announce(service: Any, settings: Settings, listening: socket.socket) -> None:
    await service.ready()
    # What is there from now on stays: looking for garbage in it takes a tenth of a second a time.
    gc.collect()
    gc.freeze()
    model = (await service.health()).get("model")
    host, port = listening.getsockname()[:2]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    words = f"mnemolog: serving http://{place}/mcp, data in {settings.data_dir}"
    if model:  # A projector has none: what it stores is embedded.
        words += f", model {model['name']} {model['status']}" if model["name"] else ", no model"
        if model.get("reason"):
            words += f": searching by words alone, bm25_only ({model['reason']})"
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def _end_if_failed(opening: asyncio.Task[None], server: uvicorn.Server) -> None:
    if not opening.cancelled() and opening.exception() is not None:
        server.should_exit = True
