"""`POST /mcp`: what came is looked at, then whether it may be, then it is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import mcp_types as types
import msgspec
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from mnemolog.events.arguments import Refused
from mnemolog.events.envelope import Refusal, Trace
from mnemolog.events.trace import read_trace
from mnemolog.services.gateway import direct, malformed, shape
from mnemolog.services.gateway.auth.admission import (
    Authenticator,
    caller_of,
    insufficient,
    needs_scope,
)
from mnemolog.services.gateway.auth.needs import Kind
from mnemolog.services.gateway.bodies import Body, Full, Room
from mnemolog.services.gateway.calls import AUTHORIZATION_FAILED, Calls
from mnemolog.services.gateway.clients import Client, Context
from mnemolog.services.gateway.connections import (
    no_room,
)
from mnemolog.services.gateway.house import House
from mnemolog.services.gateway.jsonrpc import error
from mnemolog.services.gateway.limits import Limits
from mnemolog.services.gateway.mcp_server import build
from mnemolog.services.gateway.messages import Found, call_in, look, needs_of
from mnemolog.services.gateway.sizes import MAX_MESSAGE_BYTES, Raw

CLIENT: Final = "mnemolog.client"
"""Where a request's scope has it."""


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
            found = await shape.in_time(lambda body: look(body, version), body)
        needed = needs_of(client.offer, found)
        counted = await self._counted(request, needed.kind, send, found.id)
        if counted is None:
            if (call := call_in(found)) is not None:
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
        call = call_in(found)
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
        if (call := call_in(found)) is not None:
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


def _json(value: Any, status: int) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
