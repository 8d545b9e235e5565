"""A stream can last longer than what its reader was let in by: that is looked at again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

AGAIN_S: Final = 10.0
"""How often a request that is still under way is looked at."""


class Lasting:
    """One request to `app`. `known` says whether its caller would be let in still; when not, the
    request is ended: in good order if its answer has begun, else with `refusal`."""

    def __init__(
        self, app: ASGIApp, known: Callable[[], Awaitable[bool]], refusal: Callable[[], ASGIApp]
    ) -> None:
        self._app = app
        self._known = known
        self._refusal = refusal
        self._begun = self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            self._begun = self._begun or message["type"] == "http.response.start"
            await send(message)

        task = asyncio.current_task()
        assert task is not None
        self._wait(task)
        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            if not self._over:
                raise
            task.uncancel()
            if self._begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._refusal()(scope, receive, send)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._looking is not None:
                self._looking.cancel()

    def _wait(self, request: asyncio.Task[None]) -> None:
        # Most are answered long before; a timer costs them less than a task.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(AGAIN_S, self._look, request)

    def _look(self, request: asyncio.Task[None]) -> None:
        self._looking = asyncio.create_task(self._end_if_unknown(request))

    async def _end_if_unknown(self, request: asyncio.Task[None]) -> None:
        if await self._known():
            self._wait(request)
        else:
            self._over = True
            request.cancel()
