"""`mnemolog serve`: MCP over HTTP at POST /mcp, and what operators look at."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from typing import TYPE_CHECKING, Any

import uvicorn

from mnemolog.infra.descriptors import raise_limit
from mnemolog.infra.memory import limit_arenas
from mnemolog.infra.served_tls import certificate
from mnemolog.services.api import Unavailable
from mnemolog.services.catalogue import Catalogue, load
from mnemolog.services.gateway import identity, logs
from mnemolog.services.gateway.app import build_app
from mnemolog.services.gateway.connections import (
    MAX_HEAD_BYTES,
    Door,
    Limited,
)
from mnemolog.services.gateway.ends import Ends
from mnemolog.services.gateway.hosts import Hosts
from mnemolog.services.listed import Families
from mnemolog.services.node.traces import taken

if TYPE_CHECKING:
    from mnemolog.infra.settings import Settings

IDLE_S = 5
"""How long a connection is kept open between two requests."""


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
        timeout_graceful_shutdown=app.state.ends.within_s,
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
