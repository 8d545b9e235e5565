"""Resources of MCP: the changes of a space, and what families offer; to be read, or told of.

Being told needs a way to the client. Over stdio there is one: `resources/subscribe`, or from
protocol version 2026-07-28 on `subscriptions/listen`. Over HTTP only the latter has one, the
stream that answers it; a request of an earlier version is over once it is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import anyio
import mcp_types as types
import msgspec
import structlog
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourceUpdated,
    event_to_notification,
)

from mnemolog.events.arguments import Refused
from mnemolog.services.api import Busy, Event, Unavailable
from mnemolog.services.family import Family
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.clients import Clients, Context, client_name
from mnemolog.services.gateway.tools import Offer

ALL = "mnemolog://events"
NEWEST = 50
"""How many changes a resource holds."""
MAX_BYTES = 1024 * 1024
"""A resource is no larger, one change that is so by itself aside."""
MAX_WATCHED = 64
"""Resources that one client may be told of."""
PAUSE_S = 0.2
"""A client is told of a resource once in so long at most."""
RETRY_S = 1.0
MAX_SHOWN = 140
"""Characters of an address that an error names."""

_log = structlog.get_logger("mnemolog.resources")


class Watch:
    """Has `tell` called after a space changed, once for changes that come close together."""

    def __init__(
        self, calls: Calls, space: str | None, tell: Callable[[], Awaitable[None]]
    ) -> None:
        self._calls = calls
        self._space = space
        self._tell = tell
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._events: AsyncGenerator[Event, None] | None = None

    async def open(self) -> None:
        """From when this returns, no change is missed."""
        self._events = self._calls.events(self._space)
        first = await anext(self._events)
        self._tasks = [
            asyncio.create_task(self._follow(first.position)),
            asyncio.create_task(self._tell_all()),
        ]

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._events is not None:  # A task that was cancelled before it began closed nothing.
            await self._events.aclose()

    async def _follow(self, position: str) -> None:
        assert self._events is not None
        while True:
            kind = ""
            try:
                async with contextlib.aclosing(self._events):
                    async for event in self._events:
                        position, kind = event.position, event.kind
                        if kind in ("decided", "cut_off"):
                            self._changed.set()
            except Unavailable as error:
                _log.warning("following is interrupted", reason=str(error))
                await asyncio.sleep(RETRY_S)
            if kind == "closing":
                return
            self._events = self._calls.events(self._space, after=position)

    async def _tell_all(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._tell()
            await asyncio.sleep(PAUSE_S)


class Watches:
    """What one client is told of, by resource."""

    def __init__(self) -> None:
        self._open: dict[str, Watch] = {}

    async def add(
        self, calls: Calls, uri: str, space: str | None, tell: Callable[[], Awaitable[None]]
    ) -> None:
        if uri in self._open:
            return
        if len(self._open) >= MAX_WATCHED:
            raise MCPError(
                types.INVALID_PARAMS, f"At most {MAX_WATCHED} resources can be subscribed to"
            )
        watch = self._open[uri] = Watch(calls, space, tell)
        try:
            await watch.open()
        except (Refused, Unavailable) as error:
            del self._open[uri]
            calls.busy = error if isinstance(error, Busy) else None
            code = types.INVALID_PARAMS if isinstance(error, Refused) else types.INTERNAL_ERROR
            raise MCPError(code, str(error)) from None

    async def remove(self, uri: str) -> None:
        watch = self._open.pop(uri, None)
        if watch is not None:
            await watch.close()

    async def close(self) -> None:
        """All of them, also for a client that hung up: its request is cancelled then, and every
        wait in it would be broken off, after the first watch, if it were not shielded."""
        watches = list(self._open.values())
        self._open.clear()
        for watch in watches:
            watch.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(*(watch.close() for watch in watches))


class Resources:
    """The handlers. `ending` is set when the server is about to stop."""

    def __init__(self, clients: Clients, ending: asyncio.Event) -> None:
        self._clients = clients
        self._ending = ending

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Server[Any]) -> AsyncIterator[Watches]:
        """Over stdio this is the client's connection."""
        watches = Watches()
        try:
            yield watches
        finally:
            await watches.close()

    async def list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        found = [_resource(ALL, "events", "All changes", "The newest changes in all spaces.")]
        for family in self._clients(ctx).offer.families:
            spaces = family.spaces
            if spaces.single:
                name = f"{family.name}-events"
                uri = f"{ALL}/{spaces.path}"
                found.append(_resource(uri, name, spaces.title, spaces.description))
            found += [
                _resource(one.uri, one.name, one.title, one.description)
                for one in family.resources
                if not one.parameters
            ]
        return types.ListResourcesResult(resources=found)

    async def templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        offer = self._clients(ctx).offer
        found = [
            _template(f"{ALL}/{one.path}", f"{family.name}-events", one.title, one.description)
            for family in offer.families
            if not (one := family.spaces).single
        ]
        found += [
            _template(one.uri, one.name, one.title, one.description)
            for one in offer.templates.values()
        ]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def read(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        calls, offer = self._clients(ctx)
        space, offered = _space(offer, params.uri), offer.resource(params.uri)
        try:
            if offered is None:
                text = await _newest(calls, space)
            else:
                resource, arguments = offered
                answer = await calls.call(resource.tool, arguments, client=client_name(ctx))
                text = answer.reply
                if answer.refused:
                    raise Refused(str(msgspec.json.decode(text)["error"]))
        except Refused as refused:
            raise MCPError(
                types.INVALID_PARAMS, refused.sentence, {"uri": params.uri[:MAX_SHOWN]}
            ) from None
        except Unavailable as error:
            calls.busy = error if isinstance(error, Busy) else None
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        contents = types.TextResourceContents(
            uri=params.uri, mime_type="application/json", text=text.decode()
        )
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(
        self, ctx: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        session, uri = ctx.session, params.uri
        calls, offer = self._clients(ctx)
        watches: Watches = ctx.lifespan_context
        space = _space(offer, uri)
        await watches.add(calls, uri, space, lambda: session.send_resource_updated(uri))
        return types.EmptyResult()

    async def unsubscribe(
        self, ctx: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        watches: Watches = ctx.lifespan_context
        await watches.remove(params.uri)
        return types.EmptyResult()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Changes of resources are all there is to be told of: the lists stay as they are."""
        calls, offer = self._clients(ctx)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        acknowledged = asyncio.Event()

        async def tell(uri: str) -> None:
            await acknowledged.wait()
            await ctx.session.send_notification(
                event_to_notification(ResourceUpdated(uri), meta), ctx.request_id
            )

        wanted = dict.fromkeys(params.notifications.resource_subscriptions or ())
        honored = [uri for uri in wanted if _is_known(offer, uri)]
        async with self.lifespan(None) as watches:  # type: ignore[arg-type]
            for uri in honored:
                space = _space(offer, uri)
                await watches.add(calls, uri, space, lambda uri=uri: tell(uri))  # type: ignore[misc]
            await ctx.session.send_notification(
                types.SubscriptionsAcknowledgedNotification(
                    params=types.SubscriptionsAcknowledgedNotificationParams(
                        notifications=types.SubscriptionFilter(
                            resource_subscriptions=honored or None
                        ),
                        _meta=meta,
                    )
                ),
                ctx.request_id,
            )
            acknowledged.set()
            await self._ending.wait()
        return types.SubscriptionsListenResult(_meta=meta)


async def _newest(calls: Calls, space: str | None) -> bytes:
    found: list[bytes] = []
    position = ""
    events = calls.events(space, last=NEWEST, live=False)
    async with contextlib.aclosing(events):
        async for event in events:
            position = event.position
            if event.kind == "decided":
                found.append(event.data)
    while len(found) > 1 and sum(map(len, found)) > MAX_BYTES:
        del found[0]
    shown = [msgspec.Raw(one) for one in found]
    return msgspec.json.encode({"space": space, "position": position, "events": shown})


def _is_known(offer: Offer, uri: str) -> bool:
    try:
        _space(offer, uri)
    except MCPError:
        return False
    return True


def _space(offer: Offer, uri: str) -> str | None:
    """The space whose changes a resource shows; None for all of them."""
    if uri == ALL:
        return None
    found = offer.resource(uri)
    if found is not None:
        return found[0].space
    space = unquote(uri.removeprefix(f"{ALL}/"))
    names = {family.name for family in offer.families}
    if not uri.startswith(f"{ALL}/") or space.partition("/")[0] not in names:
        paths = [family.spaces.path for family in offer.families]
        known = [ALL, *(f"{ALL}/{path}" for path in paths), *offer.resources, *offer.templates]
        raise MCPError(
            types.INVALID_PARAMS,
            f"There is no resource {uri[:MAX_SHOWN]!r}; there are {', '.join(known)}",
            {"uri": uri[:MAX_SHOWN]},
        )
    return space


def template_families(offer: Offer) -> dict[str, list[Family]]:
    """By the template, whose it is."""
    found = {f"{ALL}/{one.spaces.path}": [one] for one in offer.families if not one.spaces.single}
    for family in offer.families:
        found |= {one.uri: [family] for one in family.resources if one.parameters}
    return found


def _template(uri: str, name: str, title: str, description: str) -> types.ResourceTemplate:
    return types.ResourceTemplate(
        uri_template=uri,
        name=name,
        title=title,
        description=description,
        mime_type="application/json",
    )


def _resource(uri: str, name: str, title: str, description: str) -> types.Resource:
    return types.Resource(
        uri=uri, name=name, title=title, description=description, mime_type="application/json"
    )
