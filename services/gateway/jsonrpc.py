"""A JSON-RPC error as an HTTP answer of its own."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

SERVER_ERROR: Final = -32000
RATE_LIMIT_EXCEEDED: Final = -32001


def error(
    status: int,
    code: int,
    sentence: str,
    headers: dict[str, str] | None = None,
    id_: int | str | None = None,
    data: dict[str, Any] | None = None,
) -> Response:
    told = {"code": code, "message": sentence} | ({} if data is None else {"data": data})
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "error": told})
    return Response(body, status, headers, media_type="application/json")
