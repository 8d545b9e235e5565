"""How the service is: whether it lives, whether it is ready for calls, and what is wrong with it.

Whoever reaches the port may ask. What is wrong is told to those who may know: the sentences say
much about a machine.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mnemolog.services.api import Service, Unavailable
from mnemolog.services.gateway.auth.admission import Entry, may
from mnemolog.services.scopes import ADMIN

HEALTHZ: Final = "/healthz"
READYZ: Final = "/readyz"
LIVEZ: Final = "/livez"
KNOWN_S: Final = 1.0
"""How long finding out who asks may take; after that they are nobody."""
ALIVE: Final = b'{"status":"alive"}'
ENDING: Final = "The service is shutting down"

_PATH = re.compile(r"(?<![\w:/.])/(?:[^\s/'\",;:()]+/)*[^\s/'\",;:()]+/?")


class Health:
    """The three routes. `ending` is set when the server is about to stop; `reasons` are the
    gateway's own, told with the service's."""

    def __init__(
        self,
        service: Service,
        entry: Entry,
        ending: asyncio.Event,
        reasons: Callable[[], list[str]] = list,
    ) -> None:
        self._service = service
        self._entry = entry
        self._ending = ending
        self._reasons = reasons

    async def livez(self, _: Request) -> Response:
        """That there is an answer is the answer."""
        return Response(ALIVE, media_type="application/json")

    async def healthz(self, request: Request) -> Response:
        found = await look(self._service)
        if own := self._reasons():
            found["reasons"] = [*found.get("reasons", []), *own]
        return await self._told(request, found, found.get("status") == "ok")

    async def readyz(self, request: Request) -> Response:
        found = await look(self._service)
        reasons = not_ready(found)
        if self._ending.is_set():
            reasons = [ENDING, *reasons]
        told = {"status": "not ready" if reasons else "ready", "reasons": reasons}
        return await self._told(request, told, not reasons)

    async def _told(self, request: Request, found: dict[str, Any], well: bool) -> Response:
        shown = for_everybody(found)
        if not await self._may_know(request):
            shown = {"status": shown.get("status")}
        body = msgspec.json.encode(shown)
        return Response(body, 200 if well else 503, media_type="application/json")

    async def _may_know(self, request: Request) -> bool:
        """Whether who asks may be told more than whether it is well."""
        try:
            async with asyncio.timeout(KNOWN_S):
                return await may(self._entry, request.scope, ADMIN)
        except TimeoutError:
            return False


async def look(service: Service) -> dict[str, Any]:
    """The service's health, also where it has none."""
    try:
        return await service.health()
    except Unavailable as error:
        return {"status": "unavailable", "reasons": [str(error)]}


def not_ready(health: dict[str, Any]) -> list[str]:
    """Why calls cannot be answered; empty: they can."""
    if health.get("takes_calls") is False:
        return [f"This process is a {health.get('role', 'helper')} and takes no calls"]
    status = health.get("status")
    if status == "ok":
        return []
    return list(health.get("reasons") or [f"The service is {status}"])


def for_everybody(health: dict[str, Any]) -> dict[str, Any]:
    """Nothing of the machine's directories, to whoever it is."""
    return {key: without_paths(one) for key, one in health.items() if key != "data"}


def without_paths(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_paths(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_paths(one) for one in value]
    return _PATH.sub("(a path)", value) if isinstance(value, str) else value
