"""The routes of the HTTP server, and what stands before them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from mnemolog.services.api import Service
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.gateway.auth.admission import (
    Admission,
    Entry,
)
from mnemolog.services.gateway.auth.chosen import authenticator
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.connections import (
    MAX_CONNECTIONS,
)
from mnemolog.services.gateway.endpoint import Mcp
from mnemolog.services.gateway.ends import Ends
from mnemolog.services.gateway.health import HEALTHZ, LIVEZ, READYZ, Health
from mnemolog.services.gateway.hosts import Guard, Hosts
from mnemolog.services.gateway.house import House
from mnemolog.services.gateway.limits import read_limits
from mnemolog.services.gateway.metrics import CONTENT_TYPE, Measured
from mnemolog.services.gateway.sse import Events
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.gateway.watched import calls_told
from mnemolog.services.scopes import ADMIN, READ
from mnemolog.services.shares import Shares

if TYPE_CHECKING:
    from mnemolog.infra.settings import Settings

METRICS: Final = "/metrics"
ROUTES: Final = {"/mcp": None, "/events": READ, METRICS: ADMIN}
"""The scope that a route needs; None: that depends on what it is asked."""
PATHS: Final = ("/", HEALTHZ, READYZ, LIVEZ, *ROUTES)


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
    app.state.ends = Ends(ending, calls, offer.tools)
    app.state.measured = measured
    return app
