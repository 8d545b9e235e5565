"""`mnemolog serve`: MCP over HTTP at POST /mcp, and what operators look at."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import signal
import socket
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp_types import jsonrpc_message_adapter
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from mnemolog.infra.memory import limit_arenas
from mnemolog.services.api import Service, Unavailable, own_files
from mnemolog.services.catalogue import Catalogue, load
from mnemolog.services.gateway import direct, logs, malformed
from mnemolog.services.gateway.calls import KEPT_BYTES, Calls, Raw
from mnemolog.services.gateway.malformed import MAX_MESSAGE_BYTES
from mnemolog.services.gateway.mcp_server import build
from mnemolog.services.gateway.metrics import Measured
from mnemolog.services.gateway.sse import Events
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.listed import Families

if TYPE_CHECKING:
    from mnemolog.infra.settings import Settings

MAX_DISCARDED_BYTES = 4 * MAX_MESSAGE_BYTES
"""A body over `MAX_MESSAGE_BYTES` is read up to here for its digest, then cut off."""
MAX_CONNECTIONS = 512
GRACE_S = 10
"""How long requests under way may take to finish at shutdown."""


class Mcp:
    """The endpoint: answers plain calls and what cannot be read, completes what plain clients leave
    out, and hands the rest to the SDK."""

    def __init__(
        self,
        calls: Calls,
        offer: Offer,
        security: TransportSecuritySettings | None,
        ending: asyncio.Event,
    ) -> None:
        self._calls = calls
        self._offer = offer
        self._security = TransportSecurityMiddleware(security)
        self.manager = StreamableHTTPSessionManager(
            build(calls, offer, ending=ending),
            json_response=True,
            stateless=True,
            security_settings=security,
            max_request_body_size=MAX_MESSAGE_BYTES,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        # Before anything is read or recorded: a web page must not write to a local memory.
        wrong = await self._security.validate_request(request, is_post=True)
        if wrong is not None:
            await wrong(scope, receive, send)
            return
        try:
            body = await _read(request)
        except ClientDisconnect:
            return
        if isinstance(body, Raw):
            await self._refuse(malformed.too_large(body), 413, request, send)
            return
        call = direct.read(body, request.headers.get("mcp-protocol-version"))
        if call is not None:
            client = request.headers.get("user-agent", "")
            reply = await direct.answer(self._calls, self._offer, call, client)
            await Response(reply, media_type="application/json")(scope, receive, send)
            return
        problem = _unreadable(body)
        if problem is not None:
            await self._refuse(problem, 400, request, send)
            return
        # The answer is always one JSON body, whatever the client says it accepts.
        MutableHeaders(scope=scope)["accept"] = "application/json, text/event-stream"
        await self.manager.handle_request(scope, _replay(body, receive), send)

    async def _refuse(
        self, problem: malformed.Malformed, status: int, request: Request, send: Send
    ) -> None:
        client = request.headers.get("user-agent", "")
        error = await malformed.refuse(self._calls, problem, client)
        await _json(error, status)(request.scope, request.receive, send)


async def _read(request: Request) -> bytes | Raw:
    body = bytearray()
    stream = request.stream()
    async for chunk in stream:
        body += chunk
        if len(body) > MAX_MESSAGE_BYTES:
            break
    else:
        return bytes(body)
    digest, size, tail = hashlib.sha256(body), len(body), bytes(body[-KEPT_BYTES:])
    async for chunk in stream:
        digest.update(chunk)
        size += len(chunk)
        tail = (tail + chunk)[-KEPT_BYTES:]
        if size > MAX_DISCARDED_BYTES:
            break
    return Raw(bytes(body[:KEPT_BYTES]), tail, size, digest.digest())


def _unreadable(body: bytes) -> malformed.Malformed | None:
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
    service: Service, settings: Settings, catalogue: Catalogue, lifespan_service: Any = None
) -> Starlette:
    """The HTTP application. `lifespan_service` is closed when the application ends."""
    offer = Offer(catalogue, settings.families)
    measured = Measured(service, offer.names)
    calls = Calls(
        measured,
        tenant=settings.tenant,
        actor=settings.actor,
        files=own_files(settings.import_root),
    )
    ending = asyncio.Event()
    mcp = Mcp(calls, offer, security_settings(settings.host), ending)
    events = Events(calls, security_settings(settings.host), ending)

    async def healthz(_: Request) -> Response:
        try:
            found = await service.health()
        except Unavailable as error:
            found = {"status": "unavailable", "reasons": [str(error)]}
        return _json(found, 200 if found.get("status") == "ok" else 503)

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
        lifespan=lifespan,
    )
    app.state.ending = ending
    return app


def security_settings(host: str) -> TransportSecuritySettings | None:
    """On a loopback address only local names may be asked for, so that a web page whose name was
    pointed at this machine gets nothing."""
    if not _is_loopback(host):
        return None
    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{name}:*" for name in names],
        allowed_origins=[f"http://{name}:*" for name in names],
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _json(value: Any, status: int) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def run(settings: Settings, families: Families) -> None:
    """`mnemolog serve`: returns when told to end. Raises `Unavailable` when it cannot serve."""
    limit_arenas()
    logs.to_stderr()
    listening = _listen(settings.host, settings.port)
    # The server ends by these signals in good order, then raises them again for whoever was there
    # before; nobody shall be.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    asyncio.run(_serve(settings, load(families), listening))


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
    """Waits for requests under way when it ends; those that would never end by themselves are told
    first."""

    def __init__(self, config: uvicorn.Config, ending: asyncio.Event) -> None:
        super().__init__(config)
        self._told = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._told.set()
        await super().shutdown(sockets)


async def _serve(settings: Settings, catalogue: Catalogue, listening: socket.socket) -> None:
    from mnemolog.services.node.sharing.shared import SharedService

    service = SharedService(settings, catalogue, exclusive=True)
    await service.start()
    app = build_app(service, settings, catalogue, service)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config, app.state.ending)
    opening = asyncio.create_task(_announce(service, settings, listening))
    opening.add_done_callback(lambda task: _end_if_failed(task, server))
    await server.serve(sockets=[listening])
    if opening.done():
        await opening
    else:
        opening.cancel()


async def _announce(service: Any, settings: Settings, listening: socket.socket) -> None:
    await service.ready()
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
