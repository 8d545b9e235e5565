"""`GET /events`: what changes, as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mnemolog.events.arguments import Refused
from mnemolog.services.api import Busy, Event, Unavailable, last_event
from mnemolog.services.gateway.auth.admission import caller_of
from mnemolog.services.gateway.house import House

HEARTBEAT_S = 15.0
SEND_S = 60.0
"""How long a reader may take nothing at all before it is given up."""
MAX_PARAMETER = 40_000
"""A position in every partition of a log is no longer than this."""

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_PARAMETERS = ("space", "after", "last", "follow")


class Gone(Exception):
    """The reader hung up, or takes nothing any more."""


class Events:
    """The endpoint. `ending` is set when the server is about to stop."""

    def __init__(self, house: House, ending: asyncio.Event) -> None:
        self._house = house
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method != "GET":
            wrong = Response(status_code=405, headers={"Allow": "GET"})
            await wrong(scope, receive, send)
            return
        try:
            wish = read_wish(request.query_params, request.headers.get("last-event-id"))
            calls = self._house.client(caller_of(scope), {}).calls
            events = calls.events(**wish)
            first = await anext(events)
        except Refused as refused:
            await _error(400, refused.sentence)(scope, receive, send)
        except Unavailable as error:
            again_s = error.retry_after_s if isinstance(error, Busy) else None
            await _error(503, str(error), again_s)(scope, receive, send)
        else:
            async with contextlib.aclosing(events):
                with contextlib.suppress(Gone):
                    await _Stream(self._ending, receive, send).run(first, events)


class _Stream:
    def __init__(self, ending: asyncio.Event, receive: Receive, send: Send) -> None:
        self._send = send
        self._ending = asyncio.create_task(ending.wait())
        self._gone = asyncio.create_task(_disconnected(receive))

    async def run(self, event: Event, events: AsyncGenerator[Event, None]) -> None:
        position = event.position
        try:
            await self._put({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._write(b"retry: 1000\n" + written(event))
            while (found := await self._next(events, position)) is not None:
                position = found.position
                await self._write(written(found))
            await self._put({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._ending.cancel()
            self._gone.cancel()

    async def _next(self, events: AsyncGenerator[Event, None], position: str) -> Event | None:
        """The next event, with signs of life until it comes; None at the end."""
        coming = asyncio.ensure_future(anext(events, None))
        try:
            while not coming.done():
                done, _ = await asyncio.wait(
                    {coming, self._gone, self._ending},
                    timeout=HEARTBEAT_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if self._gone in done:
                    raise Gone
                if self._ending in done and not coming.done():
                    await self._write(
                        written(last_event("closing", position, "The server is shutting down"))
                    )
                    return None
                if not done:
                    await self._write(b": still here\n\n")
            return coming.result()
        except Unavailable as error:
            await self._write(written(last_event("closing", position, str(error))))
            return None
        finally:
            if not coming.done():
                coming.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await coming

    async def _write(self, data: bytes) -> None:
        await self._put({"type": "http.response.body", "body": data, "more_body": True})

    async def _put(self, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SEND_S):
                await self._send(message)
        except TimeoutError:
            raise Gone from None


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def written(event: Event) -> bytes:
    data = event.data if event.data != b"{}" else msgspec.json.encode({"position": event.position})
    head = f"event: {event.kind}\nid: {event.position}\ndata: "
    return head.encode() + data + b"\n\n"


def read_wish(given: Mapping[str, str], last_event_id: str | None) -> dict[str, Any]:
    """What the query and the header of a client that reconnects ask for. The header wins: such a
    client sends the address it began with again."""
    unknown = [name for name in given if name not in _PARAMETERS]
    if unknown:
        raise Refused(
            f"Unknown parameter {unknown[0][:40]!r}; events takes {', '.join(_PARAMETERS)}"
        )
    too_long = [name for name, value in given.items() if len(value) > MAX_PARAMETER]
    if too_long:
        raise Refused(f"{too_long[0]} is too long: at most {MAX_PARAMETER} characters are allowed")
    after, last, follow = given.get("after"), given.get("last"), given.get("follow", "true")
    if after is not None and last is not None:
        raise Refused("Give after or last, not both")
    if last is not None and not (last.isdecimal() and len(last) < 6):
        raise Refused(f"last must be a whole number, such as 10, not {last[:40]!r}")
    if follow not in ("true", "false"):
        raise Refused(f"follow can be true or false, not {follow[:40]!r}")
    if last_event_id:
        after, last = last_event_id, None
    return {
        "space": given.get("space"),
        "after": after,
        "last": None if last is None else int(last),
        "live": follow == "true",
    }


def _error(status: int, sentence: str, again_s: int | None = None) -> Response:
    body = msgspec.json.encode({"error": sentence})
    headers = None if again_s is None else {"Retry-After": str(again_s)}
    return Response(body, status, headers, media_type="application/json")
