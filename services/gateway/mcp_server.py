"""The MCP server: tool definitions out, calls in, answers in MCP's shape."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
import msgspec
import structlog
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.methods import CacheableMethod
from pydantic import ValidationError

from mnemolog.events.arguments import Refused
from mnemolog.services.api import Answer, Busy, Progress, Unavailable
from mnemolog.services.gateway import identity
from mnemolog.services.gateway.clients import Client, Clients, Context, client_name
from mnemolog.services.gateway.completion import Completion
from mnemolog.services.gateway.resources import Resources
from mnemolog.services.gateway.sizes import raw
from mnemolog.services.gateway.tools import Offer

LISTS_MS: Final = 60_000
"""How long a client may go by a list: they change when the service is started anew."""
_LISTS: Final[tuple[CacheableMethod, ...]] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
)

_log = structlog.get_logger("mnemolog.gateway")


def build(
    clients: Clients, offer: Offer, *, ending: asyncio.Event | None = None, duplex: bool = False
) -> Server[Any]:
    """An MCP server for any transport of the SDK. `clients` tells who asks, and what they are
    offered; a tool that is not in it is unknown. `offer` is what there is for anybody. `ending` is
    set when requests that last are to end; `duplex` tells that there is a connection to send
    notifications on at any time."""
    resources = Resources(clients, ending or asyncio.Event())

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        definitions = clients(ctx).offer.definitions
        return types.ListToolsResult(tools=[listed[one["name"]] for one in definitions])

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> HandlerResult:
        telling = Telling.of(ctx)
        answer = await carry_out(
            clients(ctx),
            params.name,
            params.arguments,
            ctx.meta,
            client_name(ctx),
            None if telling is None else telling.tell,
        )
        if telling is not None:
            await telling.finish()
        return result(answer)

    async def list_prompts(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        prompts = clients(ctx).offer.prompts.values()
        return types.ListPromptsResult(
            prompts=[types.Prompt.model_validate(one.definition) for one in prompts]
        )

    async def get_prompt(
        ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        prompts = clients(ctx).offer.prompts
        prompt = prompts.get(params.name)
        if prompt is None:
            there = f"there are {', '.join(prompts)}" if prompts else "there is none"
            sentence = f"There is no prompt {params.name[:80]!r}; {there}"
            raise MCPError(types.INVALID_PARAMS, sentence)
        try:
            messages = prompt.messages(params.arguments or {})
        except Refused as refused:
            raise MCPError(types.INVALID_PARAMS, refused.sentence) from None
        return types.GetPromptResult(
            description=prompt.moment.description,
            messages=[types.PromptMessage.model_validate(one) for one in messages],
        )

    async def introduce(ctx: Context, call_next: CallNext) -> HandlerResult:
        """A client hears of the families that it is offered."""
        found = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(found, dict):
            told = clients(ctx).offer
            words = identity.instructions(told.families, read_only=told.read_only)
            return {**found, **_capabilities(found), "instructions": words}
        return found

    async def record_misshapen(ctx: Context, call_next: CallNext) -> HandlerResult:
        """A tools/call whose params have the wrong shape never reaches `call_tool`: record it."""
        try:
            return await call_next(ctx)
        except ValidationError:
            if ctx.method != "tools/call":
                raise
            reason = (
                "A tool call needs params with name (text) and arguments (an object), and, "
                "where given, _meta (an object)"
            )
            name = (ctx.params or {}).get("name")
            given = raw(msgspec.json.encode(repr(ctx.params)))
            tool = name if isinstance(name, str) else ""
            try:
                await clients(ctx).calls.refuse(reason, given, tool, client_name(ctx))
            except Unavailable as error:
                raise MCPError(types.INTERNAL_ERROR, str(error)) from None
            raise MCPError(types.INVALID_PARAMS, reason) from None

    listed = {one["name"]: types.Tool.model_validate(one) for one in offer.definitions}
    server: Server[Any] = Server(
        identity.NAME,
        version=identity.VERSION,
        title=identity.TITLE,
        instructions=identity.instructions(offer.families, read_only=offer.read_only),
        cache_hints=dict.fromkeys(_LISTS, CacheHint(ttl_ms=LISTS_MS)),
        lifespan=resources.lifespan,
        on_list_tools=list_tools,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_subscribe_resource=resources.subscribe if duplex else None,
        on_unsubscribe_resource=resources.unsubscribe if duplex else None,
        on_subscriptions_listen=resources.listen,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=Completion(clients).complete,
        get_tool_input_schema=offer.schemas.get,
    )
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.middleware += [introduce, record_misshapen]
    return server


def _capabilities(found: dict[str, Any]) -> dict[str, Any]:
    """The SDK takes it that who tells of some changes tells of all. Lists do not change."""
    declared = {
        name: {**one, "listChanged": False} if "listChanged" in one else one
        for name, one in found.get("capabilities", {}).items()
    }
    return {"capabilities": declared}


async def carry_out(
    client: Client,
    name: str,
    arguments: dict[str, Any] | None,
    meta: Mapping[str, Any] | None,
    client_name: str,
    progress: Progress | None = None,
) -> Answer:
    """One call, however it came; raises `MCPError` where the answer is a JSON-RPC error."""
    calls, offer = client
    try:
        refused = offer.withholds(name)
        answer = await calls.call(name, arguments or {}, meta, client_name, progress, refused)
    except MCPError:
        raise
    except Unavailable as error:
        data = {"retry_after": error.retry_after_s} if isinstance(error, Busy) else None
        raise MCPError(offer.code_of(name, error), str(error), data) from None
    except Exception:
        _log.exception("a call failed", tool=name[:64])
        raise MCPError(types.INTERNAL_ERROR, "The call failed inside the service") from None
    if answer.code is not None:
        reply = msgspec.json.decode(answer.reply)
        details = {key: value for key, value in reply.items() if key != "error"}
        raise MCPError(answer.code, str(reply.get("error", "Refused")), details or None)
    return answer


def result(answer: Answer) -> dict[str, Any]:
    """The `tools/call` result, as the SDK takes it."""
    found = plain_result(answer)
    found["structuredContent"] = msgspec.json.decode(answer.reply)
    # Of the newest protocol version; the SDK leaves it out for the others.
    found["resultType"] = "complete"
    return found


def plain_result(answer: Answer) -> dict[str, Any]:
    """The `tools/call` result of the protocol versions with a handshake, for msgspec to encode."""
    found: dict[str, Any] = {
        "content": [{"type": "text", "text": (answer.text or answer.reply).decode()}],
        "structuredContent": msgspec.Raw(answer.reply),
        "isError": answer.refused,
    }
    if answer.position is not None:
        found["_meta"] = {"position": answer.position}
    return found


class Telling:
    """Tells the client how far a long call is."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._latest: tuple[int, int] | None = None
        self._sending: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, ctx: Context) -> Telling | None:
        """None when the client did not ask for that."""
        asked = ctx.meta and ctx.meta.get("progress_token") is not None
        return cls(ctx) if asked else None

    def tell(self, done: int, total: int) -> None:
        self._latest = (done, total)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def finish(self) -> None:
        """What was told last goes before the answer: nothing comes after that."""
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        with contextlib.suppress(Exception):  # The client is gone; the call goes on.
            while self._latest is not None:  # A slow client hears of the last one only.
                now, self._latest = self._latest, None
                await self._ctx.session.report_progress(*now)
