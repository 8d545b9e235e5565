"""A plain `tools/call` over HTTP, answered without a session.

For every POST the SDK opens a session with streams and tasks of its own, which takes longer than
deciding most calls. A well-formed `tools/call` of a protocol version with a handshake needs none of
that: it is one message with one answer. Everything else goes the SDK's way, and so does whatever
does not read as exactly this.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from mcp.shared.exceptions import MCPError

from mnemolog.services.gateway import identity
from mnemolog.services.gateway.calls import AUTHORIZATION_FAILED
from mnemolog.services.gateway.clients import Client
from mnemolog.services.gateway.mcp_server import carry_out, plain_result


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class PlainCall(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _Params


_plain_call = msgspec.json.Decoder(PlainCall)


def read(body: bytes, version: str | None) -> PlainCall | None:
    """The call in `body`, sent under the protocol's `version`; None for anything else."""
    if version is not None and version not in identity.HANDSHAKE_VERSIONS:
        return None
    try:
        return _plain_call.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


async def answer(client: Client, call: PlainCall, name: str) -> tuple[int, bytes]:
    """Carry the call out; the HTTP status and the JSON-RPC response. `name` is the client's."""
    found: dict[str, Any] = {"jsonrpc": "2.0", "id": call.id}
    params, status = call.params, 200
    try:
        done = await carry_out(client, params.name, params.arguments, params.meta, name)
        found["result"] = plain_result(done)
    except MCPError as error:
        status = 403 if error.error.code == AUTHORIZATION_FAILED else 200
        found["error"] = error.error.model_dump(exclude_none=True)
    return status, msgspec.json.encode(found)
