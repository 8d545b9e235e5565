"""Every call as it is watched, whichever way it came in: how it went, how long it took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Literal, get_args

import structlog
from msgspec.structs import replace

from mnemolog.events.arguments import MAX_ARGUMENT_BYTES
from mnemolog.events.trace import trace_id
from mnemolog.services import tracing
from mnemolog.services.api import Answer, Begun, Event, Follow, Progress, Request, Service
from mnemolog.services.gateway.calls import AUTHORIZATION_FAILED, NOT_FOR

Told = Literal["info", "debug"]
Outcome = Literal["ok", "refused", "denied", "unavailable", "abandoned", "limited"]
Reason = Literal[
    "actor",
    "invalid_arguments",
    "malformed",
    "not_found",
    "rules",
    "scope",
    "too_large",
    "unknown_tool",
]
"""Why a call was refused. `rules`: the tool's own say so, such as what is there already."""

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

UNKNOWN: Final = "unknown"
"""What every tool is called that there is not: names that clients make up tell nobody anything."""
_log = structlog.get_logger("mnemolog.calls")
_UNKNOWN_TOOL, _NOT_FOUND, _VALIDATION = -32602, -32004, -32005


class Watched:
    """The service that it wraps, its calls watched. `families` are by the names of their tools;
    `told` is the level at which a line is written for each call, None: none is."""

    def __init__(
        self, service: Service, families: Mapping[str, str], told: Told | None = None
    ) -> None:
        self._service = service
        self._families = families
        self._told = told

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        began_s = time.perf_counter()
        outcome: Outcome = "unavailable"
        tool, family = self._named(request.tool)
        span = tracing.begin(
            "gateway", request.trace, tool=tool, family=family, call=request.call_id
        )
        if span is not None:
            request = replace(request, trace=span.trace)
        answer: Answer | None = None
        try:
            answer = await self._service.call(request, progress)
            outcome = outcome_of(request, answer)
            return answer
        except asyncio.CancelledError:
            outcome = "abandoned"
            raise
        finally:
            if span is not None:
                span.end(outcome)
            self._met(request, outcome, answer, time.perf_counter() - began_s)

    async def health(self) -> dict[str, Any]:
        return await self._service.health()

    async def figures(self) -> dict[str, Any]:
        return await self._service.figures()

    async def names(self, begun: Begun) -> list[str]:
        return await self._service.names(begun)

    def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        return self._service.events(follow)

    def _named(self, tool: str) -> tuple[str, str]:
        """The tool and its family, as they may be told."""
        family = self._families.get(tool)
        return (UNKNOWN, UNKNOWN) if family is None else (tool, family)

    def _met(
        self, request: Request, outcome: Outcome, answer: Answer | None, seconds: float
    ) -> None:
        """Of a call that is over. `answer` None: there was none."""
        if self._told is None:
            return
        tool, family = self._named(request.tool)
        refused = answer is not None and answer.refused
        getattr(_log, self._told)(
            "call",
            call=request.call_id,
            trace=None if request.trace is None else trace_id(request.trace),
            tool=tool,
            family=family,
            outcome=outcome,
            reason=reason_of(request, answer) if refused and answer is not None else None,
            ms=round(seconds * 1000, 3),
            tenant=request.tenant,
            actor=request.actor,
        )


def calls_told(*, wanted: bool, level: str) -> Told | None:
    """As the settings say: at `debug` they are written in any case."""
    if wanted:
        return "info"
    return "debug" if level == "debug" else None


def outcome_of(request: Request, answer: Answer) -> Outcome:
    if not answer.refused:
        return "ok"
    refused = request.refused
    denied = refused is not None and refused.code == AUTHORIZATION_FAILED
    return "denied" if denied else "refused"


def reason_of(request: Request, answer: Answer) -> Reason:
    """Why it was refused, in one of a few words."""
    refused, cut, code = request.refused, request.truncated, answer.code
    if refused is not None and refused.code == AUTHORIZATION_FAILED:
        return "actor" if refused.reason.startswith(NOT_FOR) else "scope"
    if cut is not None:
        return "too_large" if cut.size > MAX_ARGUMENT_BYTES else "malformed"
    if code == _UNKNOWN_TOOL:
        return "unknown_tool"
    if code == _NOT_FOUND:
        return "not_found"
    return "invalid_arguments" if answer.unfit or code == _VALIDATION else "rules"
