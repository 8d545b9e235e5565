"""Who is on the other side of a request, and what they are offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mcp.server.context import ServerRequestContext

from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.tools import Offer

Context = ServerRequestContext[Any, Any]


class Client(NamedTuple):
    """A client's way to the service, and the tools it is offered."""

    calls: Calls
    offer: Offer


Clients = Callable[[Context], Client]
"""Over stdio there is one; over HTTP every request has its own."""


def client_name(ctx: Context) -> str:
    """Who calls, as far as the protocol tells: the client's name and version, or the user agent."""
    params = ctx.session.client_params
    if params is not None:
        return f"{params.client_info.name}/{params.client_info.version}"
    headers = getattr(ctx.request, "headers", None)
    return headers.get("user-agent", "") if headers is not None else ""
