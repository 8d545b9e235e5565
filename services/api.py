"""What every way in (MCP over stdio, HTTP, the command line) says to the service, and gets back."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from events.envelope import Truncated


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool call as it came in.

    `arguments` is JSON text; when it was too large or not text, its first bytes, with `truncated`
    set. `call_id` names the call: the same id sent again (after a broken connection) is carried
    out once. `after` is a position from an earlier answer that the reader must have reached.
    """

    tool: str
    arguments: bytes
    call_id: str
    received_at_us: int
    tenant: str = "default"
    actor: str = ""
    client: str = ""
    idempotency_key: str | None = None
    after: str | None = None
    consistency: str | None = None
    truncated: Truncated | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`reply` is the JSON object for the caller; with `refused`, `{"error": sentence}`.

    `code` is a JSON-RPC error code where the refusal has to be one. `position` is where the log
    stood when this was answered, `partition:offset` of the decision.
    """

    reply: bytes
    refused: bool = False
    code: int | None = None
    position: str | None = None


class Unavailable(Exception):
    """The service could not answer; the sentence says whether the call may still be carried out,
    and how to ask again."""


class Service(Protocol):
    async def call(self, request: Request) -> Answer:
        """Carry out one call. Raises `Unavailable`; every other failure is in the answer."""
        ...

    async def health(self) -> dict[str, Any]:
        """What `/healthz` shows: `status` is `ok`, `starting` or `degraded`."""
        ...
