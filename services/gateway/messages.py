"""What a POST brings: a plain call, a message for the SDK, or something that is neither."""

from __future__ import annotations

from typing import Any, NamedTuple

from mcp_types import jsonrpc_message_adapter

from mnemolog.services.gateway import direct, malformed, shape
from mnemolog.services.gateway.auth.needs import UNREADABLE, Needs, needs
from mnemolog.services.gateway.tools import Offer


class Other(NamedTuple):
    """A message for the SDK."""

    method: str
    params: dict[str, Any]
    id: int | str | None


Found = direct.PlainCall | malformed.Malformed | Other


def look(body: bytes, version: str | None) -> Found:
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


def needs_of(offer: Offer, found: Found) -> Needs:
    if isinstance(found, malformed.Malformed):
        return UNREADABLE
    if isinstance(found, direct.PlainCall):
        return needs(offer, found.method, found.params.name)
    return needs(offer, found.method, str(found.params.get("name", "")))


def call_in(found: Found) -> tuple[str, Any, dict[str, Any] | None] | None:
    """Tool, arguments and `_meta` of a tool call."""
    if isinstance(found, direct.PlainCall):
        return found.params.name, found.params.arguments or {}, found.params.meta
    if isinstance(found, Other) and found.method == "tools/call":
        meta = found.params.get("_meta")
        given = meta if isinstance(meta, dict) else None
        return str(found.params.get("name", "")), found.params.get("arguments") or {}, given
    return None
