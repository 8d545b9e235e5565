"""`mnemolog serve`: MCP over HTTP at POST /mcp, and what operators look at."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import mcp_types as types
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

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Refusal, Trace
from mnemolog.events.trace import read_trace
from mnemolog.infra.descriptors import raise_limit
from mnemolog.infra.memory import limit_arenas
from mnemolog.infra.served_tls import certificate
from mnemolog.services.api import Service, Unavailable
from mnemolog.services.catalogue import Catalogue, load
from mnemolog.services.gateway import direct, identity, logs, malformed, shape
from mnemolog.services.gateway.auth.admission import (
    Admission,
    Authenticator,
    Entry,
    caller_of,
    insufficient,
    needs_scope,
)
from mnemolog.services.gateway.auth.chosen import authenticator
from mnemolog.services.gateway.auth.needs import UNREADABLE, Kind, Needs, needs
from mnemolog.services.gateway.bodies import Body, Full, Room
from mnemolog.services.gateway.calls import AUTHORIZATION_FAILED, Calls
from mnemolog.services.gateway.clients import Client, Context
from mnemolog.services.gateway.connections import (
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    Door,
    Limited,
    no_room,
)
from mnemolog.services.gateway.ends import Ends
from mnemolog.services.gateway.health import HEALTHZ, LIVEZ, READYZ, Health
from mnemolog.services.gateway.hosts import Guard, Hosts
from mnemolog.services.gateway.house import House
from mnemolog.services.gateway.jsonrpc import error
from mnemolog.services.gateway.limits import Limits, read_limits
from mnemolog.services.gateway.mcp_server import build
from mnemolog.services.gateway.metrics import CONTENT_TYPE, Measured
from mnemolog.services.gateway.sizes import MAX_MESSAGE_BYTES, Raw
from mnemolog.services.gateway.sse import Events
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.gateway.watched import calls_told
from mnemolog.services.listed import Families
from mnemolog.services.node.traces import taken
from mnemolog.services.scopes import ADMIN, READ
from mnemolog.services.shares import Shares

if TYPE_CHECKING:
    from mnemolog.infra.settings import Settings

GRACE_S = 10
"""How long requests and calls under way may take to finish at shutdown, all together."""
IDLE_S = 5
"""How long a connection is kept open between two requests."""

CLIENT: Final = "mnemolog.client"
"""Where a request's scope has it."""
METRICS: Final = "/metrics"
ROUTES: Final = {"/mcp": None, "/events": READ, METRICS: ADMIN}
"""The scope that a route needs; None: that depends on what it is asked."""
PATHS: Final = ("/", HEALTHZ, READYZ, LIVEZ, *ROUTES)


class Mcp:
    """The endpoint: answers plain calls and what cannot be read or is not allowed, completes what
    plain clients leave out, and hands the rest to the SDK. `limited` is told the tools of calls
    that come too often."""

    def __init__(
        self,
        house: House,
        auth: Authenticator,
        limits: Limits | None,
        ending: asyncio.Event,
        limited: Callable[[str], None],
    ) -> None:
        self._house = house
        self._auth = auth
        self._limits = limits
        self._limited = limited
        self._room = Room()
        self.manager = StreamableHTTPSessionManager(
            build(_client_asking, house.offer, ending=ending),
            json_response=True,
            stateless=True,
            max_request_body_size=MAX_MESSAGE_BYTES,
        )
        self.streaming = StreamableHTTPSessionManager(
            self.manager.app, stateless=True, max_request_body_size=MAX_MESSAGE_BYTES
        )
        """For calls whose client wants to hear how far they are: the answer is a stream."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            wrong = Response("Send the message as it is: no Content-Encoding is taken", 415)
            await wrong(scope, receive, send)
            return
        # Before anything is read or recorded: a form on a web page cannot send this type.
        if request.method != "POST":
            await self._say(Response(status_code=405, headers={"Allow": "POST"}), request, send)
            return
        if not request.headers.get("content-type", "").lower().startswith("application/json"):
            wrong = Response("Content-Type must be application/json", 400)
            await self._say(wrong, request, send)
            return
        body = Body(self._room)
        try:
            caller, trace = caller_of(scope), _trace_of(request)
            scope[CLIENT] = self._house.client(caller, request.query_params, trace)
            await self._answer(request, await body.read(request), send)
        except Refused as refused:
            wrong = error(400, types.INVALID_PARAMS, refused.sentence)
            await self._say(wrong, request, send)
        except ClientDisconnect:
            return
        except Full:
            full = no_room("As many large messages as fit in memory are under way")
            await self._say(full, request, send)
        finally:
            body.close()

    async def _answer(self, request: Request, body: bytes | Raw, send: Send) -> None:
        """Looks at what came, then whether it may be, then carries it out."""
        client = _client_of(request.scope)
        found: Found
        if isinstance(body, Raw):
            found = malformed.too_large(body)
        else:
            version = request.headers.get("mcp-protocol-version")
            found = await shape.in_time(lambda body: _look(body, version), body)
        needed = _needed(client.offer, found)
        counted = await self._counted(request, needed.kind, send, found.id)
        if counted is None:
            if (call := _call_in(found)) is not None:
                self._limited(call[0])
            return
        send = _saying_busy(counted, client.calls)
        if needed.scope is not None and needed.scope not in client.calls.caller.scopes:
            await self._deny(client, request, found, needed.scope, send)
        elif isinstance(found, malformed.Malformed):
            await self._refuse(found, 413 if isinstance(body, Raw) else 400, request, send)
        elif isinstance(found, direct.PlainCall) and not self._streams(request, client, found):
            status, reply = await direct.answer(client, found, _agent(request))
            answer = Response(reply, status, media_type="application/json")
            await answer(request.scope, request.receive, send)
        else:
            assert isinstance(body, bytes)
            streams = self._streams(request, client, found)
            manager = self.streaming if streams else self.manager
            # Other answers are one JSON body, whatever the client says it accepts.
            MutableHeaders(scope=request.scope)["accept"] = "application/json, text/event-stream"
            again = _replay(body, request.receive)
            await manager.handle_request(request.scope, again, send)

    def _streams(self, request: Request, client: Client, found: Found) -> bool:
        """Whether the client is told on the way how far a call is: it asks for that and takes a
        stream, and the tool has something to tell."""
        call = _call_in(found)
        if call is None or not client.offer.reports(call[0]):
            return False
        wants = call[2] is not None and call[2].get("progressToken") is not None
        return wants and "text/event-stream" in request.headers.get("accept", "")

    async def _counted(
        self, request: Request, kind: Kind, send: Send, id_: int | str | None = None
    ) -> Send | None:
        """The way for the answer; None: the client asks too often, and was told."""
        if self._limits is None:
            return send
        caller, to = caller_of(request.scope), (request.scope, request.receive, send)
        return await self._limits.admit(caller.key, kind, to, id_)

    async def _say(self, answer: Response, request: Request, send: Send) -> None:
        """To what never became a message."""
        counted = await self._counted(request, "read", send)
        if counted is not None:
            await answer(request.scope, request.receive, counted)

    async def _deny(
        self, client: Client, request: Request, found: Found, scope: str, send: Send
    ) -> None:
        """A call is written down, with what its caller hears."""
        if (call := _call_in(found)) is not None:
            refusal = Refusal(needs_scope(scope), AUTHORIZATION_FAILED)
            tool, arguments, meta = call
            await client.calls.call(tool, arguments, meta, _agent(request), refused=refusal)
        answer = insufficient(self._auth, client.calls.caller, scope, found.id)
        await answer(request.scope, request.receive, send)

    async def _refuse(
        self, problem: malformed.Malformed, status: int, request: Request, send: Send
    ) -> None:
        calls = _client_of(request.scope).calls
        told = await malformed.refuse(calls, problem, _agent(request))
        await _json(told, status)(request.scope, request.receive, send)


class Other(NamedTuple):
    """A message for the SDK."""

    method: str
    params: dict[str, Any]
    id: int | str | None


Found = direct.PlainCall | malformed.Malformed | Other


def _look(body: bytes, version: str | None) -> Found:
    """A plain call, what is wrong with the message, or one for the SDK."""
    problem = shape.too_much(body)
    if problem is not None:
        return problem
    call = direct.read(body, version)
    if call is not None:
        return call
    try:
        message: Any = jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValueError:
        return malformed.unreadable(body)
    if malformed.is_dropped(message):
        return malformed.unreadable(body)
    # A response has no method; there is nothing that it could answer.
    id_ = getattr(message, "id", None)
    return Other(getattr(message, "method", ""), getattr(message, "params", None) or {}, id_)


def _needed(offer: Offer, found: Found) -> Needs:
    if isinstance(found, malformed.Malformed):
        return UNREADABLE
    if isinstance(found, direct.PlainCall):
        return needs(offer, found.method, found.params.name)
    return needs(offer, found.method, str(found.params.get("name", "")))


def _call_in(found: Found) -> tuple[str, Any, dict[str, Any] | None] | None:
    """Tool, arguments and `_meta` of a tool call."""
    if isinstance(found, direct.PlainCall):
        return found.params.name, found.params.arguments or {}, found.params.meta
    if isinstance(found, Other) and found.method == "tools/call":
        meta = found.params.get("_meta")
        given = meta if isinstance(meta, dict) else None
        return str(found.params.get("name", "")), found.params.get("arguments") or {}, given
    return None


def _client_asking(ctx: Context) -> Client:
    assert ctx.request is not None
    return _client_of(ctx.request.scope)


def _client_of(scope: Scope) -> Client:
    found: Client = scope[CLIENT]
    return found


def _trace_of(request: Request) -> Trace | None:
    """As the headers say it; a call's own `_meta` goes before."""
    given = request.headers.getlist("traceparent")
    if len(given) != 1:
        return None
    return read_trace(given[0], ",".join(request.headers.getlist("tracestate")))


def _agent(request: Request) -> str:
    """What the client calls itself. `X-Client-ID` is a label among others, and tells nobody who it
    is."""
    label, agent = request.headers.get("x-client-id"), request.headers.get("user-agent", "")
    return f"{label[:80]} {agent}" if label else agent


def _saying_busy(send: Send, calls: Calls) -> Send:
    """However a call that there was no room for is answered, the answer is 503."""

    async def saying(message: Message) -> None:
        if message["type"] == "http.response.start" and calls.busy is not None:
            message["status"] = 503
            MutableHeaders(scope=message)["Retry-After"] = str(calls.busy.retry_after_s)
        await send(message)

    return saying


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
    bound: tuple[str, int],
    lifespan_service: Any = None,
    reasons: Callable[[], list[str]] = list,
    room: int = MAX_CONNECTIONS,
) -> Starlette:
    """The HTTP application, listening on `bound`. `lifespan_service` is closed when it ends;
    `reasons` are the gateway's own, told with the service's health; `room` is how many requests may
    be under way."""
    auth = authenticator(settings, bound)
    limits = read_limits(settings.rate_limits, settings.client_limits)
    entry = Entry(auth, limited=limits is not None)
    shares = None if settings.auth == "none" else Shares(room)
    offer = Offer(catalogue, settings.families, read_only=settings.read_only)
    families = {name: catalogue.family_of[name].name for name in offer.tools}
    told = calls_told(wanted=settings.log_calls, level=settings.log_level)
    measured = Measured(service, families, limits, told)
    calls = Calls(measured, reads=offer.reads)
    house = House(calls, offer, settings.import_root, shared=settings.auth == "none")
    ending = asyncio.Event()
    mcp = Mcp(house, auth, limits, ending, measured.limited)
    events = Events(house, ending)
    health = Health(service, entry, ending, reasons)

    async def metrics(_: Request) -> Response:
        return Response(await measured.exposition(), media_type=CONTENT_TYPE)

    async def home(_: Request) -> Response:
        return PlainTextResponse(
            "Mnemolog: memory for agents and robots. Speak MCP to POST /mcp; "
            "GET /events tells what changes; GET /healthz, /readyz, /livez and /metrics tell how "
            "it is.\n"
        )

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with mcp.manager.run(), mcp.streaming.run():
            yield
            await calls.finish(app.state.ends.left_s)
        await auth.close()
        if lifespan_service is not None:
            await lifespan_service.close()

    app = Starlette(
        routes=[
            Route("/mcp", mcp),
            Route("/events", events, methods=["GET"]),
            Route(HEALTHZ, health.healthz),
            Route(READYZ, health.readyz),
            Route(LIVEZ, health.livez),
            Route(METRICS, metrics),
            Route("/", home),
            *auth.routes,
        ],
        middleware=[
            Middleware(measured.responses, paths=PATHS),
            Middleware(Guard, hosts=hosts),
            Middleware(Admission, entry=entry, needs=ROUTES, limits=limits, shares=shares),
        ],
        lifespan=lifespan,
    )
    app.state.ends = Ends(ending, calls, offer.tools, GRACE_S)
    app.state.measured = measured
    return app


def _json(value: Any, status: int) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def run(settings: Settings, families: Families) -> None:
    """`mnemolog serve`: returns when told to end. Raises `Unavailable` when it cannot serve."""
    limit_arenas()
    descriptors = raise_limit()
    logs.to_stderr(settings.log_format, settings.log_level)
    listening = _listen(settings.host, settings.port)
    # The server ends by these signals in good order, then raises them again for whoever was there
    # before; nobody shall be.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with taken(settings, identity.VERSION):
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


def _check_open(settings: Settings, hosts: Hosts) -> None:
    """Everybody's memory is not put on a network by accident."""
    if settings.auth != "none" or hosts.local:
        return
    if not settings.insecure:
        raise Unavailable(
            f"On {settings.host} others than this machine's users can reach the memory, and nobody "
            "would be asked who they are. Give --auth keys (`mnemolog keys add` makes one) or "
            "--auth oauth, or --insecure if whoever reaches the port may do everything"
        )
    logs.say(
        f"whoever reaches {settings.host}:{settings.port} may read and change everything "
        "(--insecure); --auth keys or --auth oauth asks them who they are",
        "warning",
    )


class _Server(uvicorn.Server):
    """Connections come in through `door`. Waits for requests under way when it ends; those that
    would never end by themselves are told first."""

    def __init__(self, config: uvicorn.Config, ends: Ends, door: Door) -> None:
        super().__init__(config)
        self._ends = ends
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
        over = self._ends.begin()
        await super().shutdown(sockets)
        over.cancel()


async def _serve(
    settings: Settings, catalogue: Catalogue, listening: socket.socket, descriptors: int
) -> None:
    from mnemolog.services.node.sharing.shared import SharedService

    tls = certificate(settings)
    service = SharedService(settings, catalogue, exclusive=True)
    bound = listening.getsockname()[:2]
    hosts = Hosts(settings.host, bound[0], settings.hosts)
    _check_open(settings, hosts)
    # Before the store is opened: settings may be wrong.
    door = Door(listening, descriptors, tls)
    own = list if tls is None else tls.reasons
    app = build_app(service, settings, catalogue, hosts, bound, service, own, door.most)
    app.state.measured.watch(door)
    await service.start()
    config = uvicorn.Config(
        app,
        # Warnings are about what clients send: nothing to fill the log with.
        log_level="error",
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config, app.state.ends, door)
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
    scheme = "https" if settings.tls_cert else "http"
    words = f"serving {scheme}://{place}/mcp, data in {settings.data_dir}"
    if model:  # A projector has none: what it stores is embedded.
        words += f", model {model['name']} {model['status']}" if model["name"] else ", no model"
        if model.get("reason"):
            words += f": searching by words alone, bm25_only ({model['reason']})"
    logs.say(words)


def _end_if_failed(opening: asyncio.Task[None], server: uvicorn.Server) -> None:
    if not opening.cancelled() and opening.exception() is not None:
        server.should_exit = True
