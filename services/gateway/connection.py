"""A stdio client as the SDK's read and write stream, straight on the descriptors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any

import mcp_types as types
import msgspec
from anyio import EndOfStream
from mcp.shared.message import SessionMessage

from mnemolog.services.gateway import malformed, shape
from mnemolog.services.gateway.calls import Calls
from mnemolog.services.gateway.pipes import Lines, Output
from mnemolog.services.gateway.shape import in_time
from mnemolog.services.gateway.sizes import Raw

MAX_IN_FLIGHT = 256
"""Requests that may be under way; more are left in the pipe."""
LASTING = "subscriptions/listen"
"""Answered only at the end, so nobody waits for the answer."""
FINISH_S = 10.0
"""How long requests under way may take to finish once the client is gone."""

_read_message = types.jsonrpc_message_adapter.validate_json


def _read(line: bytes) -> types.JSONRPCMessage | malformed.Malformed:
    problem = shape.too_much(line)
    if problem is not None:
        return problem
    try:
        message = _read_message(line, by_name=False)
    except ValueError:
        return malformed.unreadable(line)
    return malformed.unreadable(line) if malformed.is_dropped(message) else message


class Connection:
    """Both streams in one. `first` is a line that was read already; `answered` the id of a request
    that was answered already, so that the SDK's answer to it is dropped."""

    def __init__(
        self,
        calls: Calls,
        lines: Lines,
        output: Output,
        first: bytes | Raw | None = None,
        answered: int | str | None = None,
    ) -> None:
        self._calls = calls
        self._lines = lines
        self._output = output
        self._first = first
        self._answered = answered
        self._under_way: set[int | str] = set()
        self._settled = asyncio.Event()
        self._refusals: set[asyncio.Task[None]] = set()

    async def receive(self) -> SessionMessage:
        """The next message. The end is told only when everything before it was answered: the SDK
        drops what is under way then."""
        while True:
            await self._until(lambda: len(self._under_way) + len(self._refusals) < MAX_IN_FLIGHT)
            line, self._first = self._first, None
            if line is None and not self._output.broken:
                line = await self._lines.next()
            if line is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._until(lambda: not self._under_way), FINISH_S)
                await asyncio.gather(*self._refusals, return_exceptions=True)
                raise EndOfStream
            if isinstance(line, Raw):
                self._refuse(malformed.too_large(line))
                continue
            message = await in_time(_read, line)
            if isinstance(message, malformed.Malformed):
                self._refuse(message)
                continue
            if isinstance(message, types.JSONRPCRequest):
                if message.method != LASTING:
                    self._under_way.add(message.id)
            elif isinstance(message, types.JSONRPCNotification):
                self._note_cancelled(message)
            return SessionMessage(message)

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)):
            self._settle(message.id)
            if self._answered is not None and message.id == self._answered:
                self._answered = None
                return
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._output.write(text.encode() + b"\n")

    def _refuse(self, problem: malformed.Malformed) -> None:
        # Beside the reading: recording may have to wait for the store to open.
        task = asyncio.create_task(self._answer(problem))
        self._refusals.add(task)
        task.add_done_callback(self._refused)

    def _refused(self, task: asyncio.Task[None]) -> None:
        self._refusals.discard(task)
        self._settled.set()

    async def _answer(self, problem: malformed.Malformed) -> None:
        error = await malformed.refuse(self._calls, problem)
        await self._output.write(msgspec.json.encode(error) + b"\n")

    def _note_cancelled(self, message: types.JSONRPCNotification) -> None:
        """A request that the client cancelled is not answered: do not wait for it."""
        if message.method == "notifications/cancelled" and message.params:
            self._settle(message.params.get("requestId"))

    def _settle(self, request_id: Any) -> None:
        if isinstance(request_id, (int, str)):
            self._under_way.discard(request_id)
            self._settled.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._settled.clear()
            await self._settled.wait()

    async def aclose(self) -> None:
        """Nothing to do: the descriptors are the process's."""

    def __aiter__(self) -> Connection:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None
