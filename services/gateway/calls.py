"""From what a client sent to a `Request`: bounded, encodable, with an id and a time.

Whatever is wrong with a call, it goes to the service, which refuses it and puts it on the log.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Any

import msgspec

from mnemolog.events.arguments import MAX_ARGUMENT_BYTES
from mnemolog.events.envelope import Refusal, Trace, Truncated, sha256
from mnemolog.events.trace import read_trace
from mnemolog.services.api import (
    Answer,
    Begun,
    Busy,
    Event,
    Files,
    Follow,
    Progress,
    Request,
    Service,
)
from mnemolog.services.gateway.caller import Caller
from mnemolog.services.gateway.sizes import KEPT_BYTES, Raw

MAX_NAME = 128
MAX_META = 200
MAX_POSITION = 32 * 1024
NOBODY = Caller()
AUTHORIZATION_FAILED = -32003
NOT_FOR = "The caller may not speak for"


class Calls:
    """Puts a client's calls to the service. `caller` is who they are from; `files` which files the
    client may name (None: none); `reads` the tools that change nothing, which are given up when
    nobody waits for the answer; `trace` what its calls belong to that do not say it themselves."""

    def __init__(
        self,
        service: Service,
        caller: Caller = NOBODY,
        *,
        files: Files | None = None,
        internal: bool = False,
        reads: Collection[str] = (),
        trace: Trace | None = None,
    ) -> None:
        self.service = service
        self.caller = caller
        self._files = files
        self._internal = internal
        self._reads = reads
        self._trace = trace
        self.busy: Busy | None = None
        """What the last call met that there was no room for."""
        self._running: dict[asyncio.Task[Answer], str] = {}

    def of(self, caller: Caller, files: Files | None = None, trace: Trace | None = None) -> Calls:
        """The same for another caller; `finish` waits for the calls of all."""
        made = Calls(
            self.service,
            caller,
            files=files,
            internal=self._internal,
            reads=self._reads,
            trace=trace,
        )
        made._running = self._running
        return made

    async def call(
        self,
        tool: str,
        arguments: Any,
        meta: Mapping[str, Any] | None = None,
        client: str = "",
        progress: Progress | None = None,
        refused: Refusal | None = None,
    ) -> Answer:
        """Carry out one call; with `refused`, have it refused and recorded. A caller that is
        cancelled stops waiting; the call itself goes on, unless it reads."""
        data, truncated = encode(arguments)
        fields: dict[str, Any] = {"truncated": truncated, "refused": refused}
        if meta:
            found, problem = read_meta(meta)
            fields |= found
            if problem and refused is None:
                fields["refused"] = Refusal(problem)
            if not self.caller.may_be(fields.get("actor", self.caller.actor)):
                named = fields.pop("actor")
                fields["refused"] = Refusal(f"{NOT_FOR} {named!r}", AUTHORIZATION_FAILED)
            trace = read_trace(meta.get("traceparent"), meta.get("tracestate"))
            if trace is not None:
                fields["trace"] = trace
        return await self._ask(self._request(tool, data, client, fields), progress)

    async def refuse(self, reason: str, given: Raw, tool: str = "", client: str = "") -> Answer:
        """Have something that could not be read as a call refused and recorded."""
        truncated = Truncated(reason, given.size, given.sha256)
        head = given.head[:KEPT_BYTES]
        return await self._ask(self._request(tool, head, client, {"truncated": truncated}))

    def events(
        self,
        space: str | None,
        *,
        after: str | None = None,
        last: int | None = None,
        live: bool = True,
    ) -> AsyncGenerator[Event, None]:
        """What changes in a space of the client's tenant, or in all of them."""
        follow = Follow(tenant=self.caller.tenant, space=space, after=after, last=last, live=live)
        return self.service.events(follow)

    async def names(self, family: str, argument: str, text: str) -> list[str]:
        """Names of the client's tenant that begin so."""
        begun = Begun(tenant=self.caller.tenant, family=family, argument=argument, text=text)
        return await self.service.names(begun)

    async def finish(self, timeout_s: float) -> None:
        """Wait for the calls under way, at most `timeout_s` seconds."""
        if self._running:
            await asyncio.wait(list(self._running), timeout=timeout_s)

    def under_way(self) -> Counter[str]:
        """The tools of all calls that are not answered yet."""
        return Counter(self._running.values())

    def _request(self, tool: str, data: bytes, client: str, fields: dict[str, Any]) -> Request:
        now_ns = time.time_ns()
        return Request(
            tool=_clean(tool, MAX_NAME),
            arguments=data,
            call_id=f"{now_ns // 1000:016x}{os.urandom(8).hex()}",
            received_at_us=now_ns // 1000,
            tenant=self.caller.tenant,
            client=_clean(client, MAX_META),
            files=self._files,
            internal=self._internal,
            **{"actor": self.caller.actor, "trace": self._trace, **fields},
        )

    async def _ask(self, request: Request, progress: Progress | None = None) -> Answer:
        # In a task of its own: a client that cancels must not break a write off half-way.
        task = asyncio.ensure_future(self.service.call(request, progress))
        self._running[task] = request.tool
        task.add_done_callback(self._done)
        try:
            return await asyncio.shield(task)
        except Busy as busy:
            self.busy = busy
            raise
        except asyncio.CancelledError:
            if request.tool in self._reads:
                task.cancel()
            raise

    def _done(self, task: asyncio.Task[Answer]) -> None:
        self._running.pop(task, None)
        if not task.cancelled():
            task.exception()  # Nobody may be left to look at it.


def encode(arguments: Any) -> tuple[bytes, Truncated | None]:
    """Arguments as JSON; when that cannot be, or is too large, their beginning and the reason."""
    try:
        data = msgspec.json.encode(arguments)
        # The encoder writes NaN and infinities as null: look again where there is a null.
        if b"null" in data and len(data) <= MAX_ARGUMENT_BYTES:
            json.dumps(arguments, allow_nan=False)
    except UnicodeEncodeError:
        return _cut(arguments, "The arguments hold half of a surrogate pair, which is not text")
    except ValueError:
        return _cut(arguments, "The arguments hold NaN, Infinity, or a number of too many digits")
    except RecursionError:
        return _cut(arguments, "The arguments are nested too deeply")
    if len(data) > MAX_ARGUMENT_BYTES:
        reason = (
            f"The arguments are too large: {len(data):,} bytes as JSON; "
            f"at most {MAX_ARGUMENT_BYTES:,} are allowed"
        )
        return data[:KEPT_BYTES], Truncated(reason, len(data), sha256(data))
    return data, None


def _cut(arguments: Any, reason: str) -> tuple[bytes, Truncated]:
    try:
        data = json.dumps(arguments).encode()
    except (ValueError, RecursionError):
        data = b""
    return data[:KEPT_BYTES], Truncated(reason, len(data), sha256(data))


def read_meta(meta: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The fields of a `Request` that `_meta` may set, and what is wrong with it, if anything."""
    fields: dict[str, Any] = {}
    for name in ("idempotency_key", "actor", "after", "consistency"):
        value = meta.get(name)
        if value is None:
            continue
        # A position can name every partition; whether it is one is for the node to say.
        most = MAX_POSITION if name == "after" else MAX_META
        if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
            return fields, f"_meta.{name} must be a text of 1 to {most} printable characters"
        fields[name] = value
    if fields.get("consistency", "strong") != "strong":
        return {}, "_meta.consistency can be strong, or be left out"
    return fields, None


def _clean(text: str, limit: int) -> str:
    return text[:limit].encode(errors="replace").decode()
