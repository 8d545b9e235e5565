"""Who is on the other side of a request."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext

Context = ServerRequestContext[Any, Any]


def client_name(ctx: Context) -> str:
    """Who calls, as far as the protocol tells: the client's name and version, or the user agent."""
    params = ctx.session.client_params
    if params is not None:
        return f"{params.client_info.name}/{params.client_info.version}"
    headers = getattr(ctx.request, "headers", None)
    return headers.get("user-agent", "") if headers is not None else ""
