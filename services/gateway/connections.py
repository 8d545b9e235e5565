"""Connections over HTTP: how many there may be, how long they may take, and who has to go first.

Files, sockets and connections come out of one number of descriptors, and the store must never be
short of them: connections get half. Above the number of requests that may be under way some more
connections are let in, so that `/healthz` is answered and everybody else is told at once that there
is no room. Those that ask for nothing are closed when others need their place, the longest idle
first; when all are busy, whoever comes waits to be accepted.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 512
"""Requests that may be under way; fewer where descriptors are few."""
SPARE: Final = 64
"""Connections above that."""
HEALTH: Final = "/healthz"
"""Answered however many requests there are."""

HEADER_S = 10.0
"""How long a connection may take until a request's header is whole."""
BODY_S = 60.0
"""How long a request's body may take to come in."""
STALLED_S = 60.0
"""How long a client may take nothing of what it is sent."""
SWEEP_S = 0.25
BACKLOG: Final = 2048
TURN: Final = 16
"""Connections that are accepted, or closed for others, at a time."""
YOUNG_S = 0.05
"""For so long a connection that asks for nothing yet keeps its place."""
SHORT_S = 0.5
"""How long nothing is accepted when there is no descriptor left."""

_log = structlog.get_logger("mnemolog.connections")


class Limited(H11Protocol):
    """One connection. What is under way for a client that hangs up is cancelled."""

    def __init__(self, door: Door, **given: Any) -> None:
        super().__init__(**given)
        self._door = door
        self._given = self.app
        self.app = self._answer
        self._task: asyncio.Task[Any] | None = None
        self._unsent = 0
        self._sent_at = 0.0
        self.asked = False
        """Whether there was a request yet."""
        self.since = self.loop.time()
        """When it began to wait for a request, or the request that is under way began."""

    @property
    def waits(self) -> bool:
        """Whether there is nothing under way."""
        done = self.cycle is None or self.cycle.response_complete
        return done and not self.transport.get_write_buffer_size()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._task is not None and self.cycle.disconnected:
            self._task.cancel()
        self._door.left()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        # In the middle of an answer there is nothing more to say.
        try:
            super().send_400_response(msg)
        except Exception:
            self.transport.abort()

    def look(self, now: float) -> None:
        """Close the connection when it takes too long over something."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent:
            self._sent_at = now
        self._unsent = unsent
        if unsent and now - self._sent_at > STALLED_S:
            self._cut_off()
        elif self.cycle is None or self.cycle.response_complete:
            if now - self.since > HEADER_S:
                self.transport.close()
        elif self.cycle.more_body and now - self.since > BODY_S:
            self._cut_off()

    def _cut_off(self) -> None:
        """What it was sent and did not take is dropped by the system, too."""
        found = self.transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.since, self.asked = self.loop.time(), True
        door, counts = self._door, scope["path"] != HEALTH
        if counts and door.busy >= door.most:
            await no_room("As many requests as there may be are under way")(scope, receive, send)
            return
        cycle = self.cycle
        self._task = asyncio.current_task()
        door.busy += counts
        try:
            await self._given(scope, receive, send)
        except asyncio.CancelledError:
            if not cycle.disconnected:
                if not door.closed:
                    raise
                await self._end(scope, receive, send)
        finally:
            door.busy -= counts
            self._task = None

    async def _end(self, scope: Scope, receive: Receive, send: Send) -> None:
        """There is no time left for what is under way."""
        if self.cycle.response_started:
            self.cycle.disconnected = True
            self.transport.close()
            return
        await no_room("The service ends, and what was asked may still be done")(
            scope, receive, send
        )


def no_room(reason: str) -> Response:
    """Try again in a moment. Nothing more is read from the client."""
    headers = {"Retry-After": "1", "Connection": "close"}
    body = msgspec.json.encode({"error": f"{reason}; try again in a moment"})
    return Response(body, 503, headers, media_type="application/json")


def _silent(connections: list[Any]) -> list[Any]:
    """Those of whom there is nothing that has only not been read yet."""
    poll = select.poll()
    by_fd = {one.transport.get_extra_info("socket").fileno(): one for one in connections}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    unread = {fd for fd, _ in poll.poll(0)}
    return [one for fd, one in by_fd.items() if fd not in unread]


class Door:
    """Accepts connections on `listening`; `make` makes one's protocol, and `connections` are those
    that are there."""

    def __init__(self, listening: socket.socket, descriptors: int) -> None:
        self.busy = 0
        """Requests under way."""
        self._room = min(MAX_CONNECTIONS + SPARE, max(16, descriptors // 2))
        self.most = self._room - min(SPARE, self._room // 8)
        self._listening = listening
        self._open = 0
        self._connections: set[Any] = set()
        self._coming: set[asyncio.Task[Any]] = set()
        self._make: Callable[[], asyncio.Protocol] | None = None
        self._accepting = False
        self.closed = False
        self._sweeping: asyncio.Task[None] | None = None
        self._told_short = False

    def open(self, connections: set[Any], make: Callable[[], asyncio.Protocol]) -> None:
        self._connections, self._make = connections, make
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._sweeping = asyncio.create_task(self._sweep())
        self._go_on()

    def close(self) -> None:
        self._pause()
        self.closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()

    def left(self) -> None:
        """A connection is gone."""
        self._open -= 1
        self._go_on()

    def _go_on(self) -> None:
        if not self.closed and not self._accepting:
            self._accepting = True
            asyncio.get_running_loop().add_reader(self._listening.fileno(), self._accept)

    def _pause(self, for_s: float | None = None) -> None:
        """Accept nothing, until a connection is gone, at most `for_s` seconds."""
        loop = asyncio.get_running_loop()
        if self._accepting:
            self._accepting = False
            loop.remove_reader(self._listening.fileno())
        if for_s is not None:
            loop.call_later(for_s, self._go_on)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(TURN):
            if self._open >= self._room:
                if not self._make_room():
                    self._pause(YOUNG_S)
                return
            try:
                taken, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._run_short(error)
                return
            taken.setblocking(False)
            self._open += 1
            coming = loop.create_task(self._begin(taken))
            self._coming.add(coming)
            coming.add_done_callback(self._coming.discard)

    async def _begin(self, taken: socket.socket) -> None:
        assert self._make is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._make, taken)
        except OSError:  # It is gone already.
            taken.close()
            self.left()

    def _make_room(self) -> bool:
        """Close some connections that ask for nothing: first those that never did."""
        young = asyncio.get_running_loop().time() - YOUNG_S
        waiting = [one for one in self._connections if one.waits and not one.transport.is_closing()]
        waiting = [one for one in waiting if not one.asked] or waiting
        waiting = sorted((one for one in waiting if one.since < young), key=lambda one: one.since)
        silent = _silent(waiting[: max(1, min(TURN, len(waiting) // 8))])
        for one in silent:
            one.transport.close()
        return bool(silent)

    def _run_short(self, error: OSError) -> None:
        """No descriptor, or no memory: wait, and let go of what can be let go of."""
        if not self._told_short:
            self._told_short = True
            _log.error(
                "connections cannot be accepted for lack of descriptors or memory; told once",
                error=str(error),
            )
        self._make_room()
        self._pause(SHORT_S)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now = asyncio.get_running_loop().time()
            for one in list(self._connections):
                one.look(now)
