"""Connections over HTTP: how many there may be, how long they may take, and who has to go first.

Files, sockets and connections come out of one number of descriptors, and the store must never be
short of them: connections get half. Above the number of requests that may be under way some more
connections are let in, so that whoever asks for the health is answered and everybody else is told
at once that there is no room. Those that ask for nothing are closed when others need their place,
the longest idle first; when all are busy, whoever comes waits to be accepted.

By TLS a connection begins with a handshake, which counts as asking for nothing yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
import struct
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Protocol

import h11
import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 512
"""Requests that may be under way; fewer where descriptors are few."""
SPARE: Final = 64
"""Connections above that."""
HEALTH: Final = frozenset(("/healthz", "/readyz", "/livez"))
"""Answered however many requests there are."""

MAX_TARGET_BYTES: Final = 48 * 1024
"""Of an address with its query: a position in every partition of a log fits in."""
MAX_HEAD_BYTES: Final = 64 * 1024
"""Of a request's header as a whole."""
MAX_HEADERS: Final = 100
HEADER_S = 10.0
"""How long a connection may take until a request's header is whole, by TLS its handshake too."""
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
GOODBYE_S: Final = 3600.0
"""How long the end of a connection by TLS may take. What does not go on is noticed by `look`; that
an answer is long and its client slow is no reason."""

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
        self.came = False
        """Whether it came to be: by TLS that takes a handshake."""
        self.asked = False
        """Whether there was a request yet."""
        self.since = self.loop.time()
        """When it began to wait for a request, or the request that is under way began."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # By TLS some of what is unsent waits below, and only from there a connection can be ended
        # at once whatever was done to it before. There is no public way to what is below.
        self._tls: Any = getattr(transport, "_ssl_protocol", None)
        self._wire: asyncio.Transport = transport if self._tls is None else self._tls._transport
        self.came = True
        super().connection_made(transport)

    @property
    def waits(self) -> bool:
        """Whether there is nothing under way."""
        done = self.cycle is None or self.cycle.response_complete
        return done and not self._left_to_send()

    @property
    def closing(self) -> bool:
        return self.transport.is_closing()

    @property
    def socket(self) -> Any:
        return self._wire.get_extra_info("socket")

    def drop(self) -> None:
        """Close it, while nothing is under way. By TLS it would stay until the client agrees."""
        self.transport.close()
        self._wire.abort()

    def _left_to_send(self) -> int:
        above = 0 if self._tls is None else self._tls._get_write_buffer_size()
        return int(self._wire.get_write_buffer_size() + above)

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
            self._refuse(*_too_long(self.conn.trailing_data[0]) or (400, msg))
        except Exception:
            self.transport.abort()

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer what is no request that could be answered, and hang up."""
        body = msgspec.json.encode({"error": sentence})
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        reason = HTTPStatus(status).phrase.encode()
        events = (
            h11.Response(status_code=status, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def look(self, now: float) -> None:
        """Close the connection when it takes too long over something."""
        unsent = self._left_to_send()
        if not unsent or unsent < self._unsent:
            self._sent_at = now
        self._unsent = unsent
        if unsent and now - self._sent_at > STALLED_S:
            self._cut_off()
        elif self.cycle is None or self.cycle.response_complete:
            if not unsent and (self.closing or now - self.since > HEADER_S):
                self.drop()
        elif self.cycle.more_body and now - self.since > BODY_S:
            self._cut_off()

    def _cut_off(self) -> None:
        """What it was sent and did not take is dropped by the system, too."""
        if self.socket is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._wire.abort()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.since, self.asked = self.loop.time(), True
        door, counts = self._door, scope["path"] not in HEALTH
        if counts and door.busy >= door.most:
            door.turned_away += 1
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


def _too_long(unread: bytes) -> tuple[int, str] | None:
    """Whether what was not read as a request is one without an end: its address, or its header."""
    if len(unread) <= MAX_HEAD_BYTES:
        return None
    if b"\n" not in unread:
        return 414, f"The address is too long: at most {MAX_TARGET_BYTES:,} bytes are allowed"
    return 431, f"The header is too large: at most {MAX_HEAD_BYTES:,} bytes are allowed"


def no_room(reason: str) -> Response:
    """Try again in a moment. Nothing more is read from the client."""
    headers = {"Retry-After": "1", "Connection": "close"}
    body = msgspec.json.encode({"error": f"{reason}; try again in a moment"})
    return Response(body, 503, headers, media_type="application/json")


class Handshake:
    """A connection by TLS that has not come to be yet."""

    asked = False
    waits = True

    def __init__(self, taken: socket.socket, since: float) -> None:
        self.socket = taken
        self.since = since
        self.closing = False

    def drop(self) -> None:
        """It is found to have ended, as if the client had hung up."""
        self.closing = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


def _silent(connections: list[Any]) -> list[Any]:
    """Those of whom there is nothing that has only not been read yet."""
    poll = select.poll()
    by_fd = {one.socket.fileno(): one for one in connections}
    by_fd.pop(-1, None)  # It is gone by now.
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    unread = {fd for fd, _ in poll.poll(0)}
    return [one for fd, one in by_fd.items() if fd not in unread]


class Tls(Protocol):
    """What clients are shown. `look` has it renewed; it raises nothing."""

    context: ssl.SSLContext

    def look(self, now_s: float) -> None: ...


class Door:
    """Accepts connections on `listening`, by TLS where `tls` is given; `make` makes one's protocol,
    and `connections` are those that are there."""

    def __init__(self, listening: socket.socket, descriptors: int, tls: Tls | None = None) -> None:
        self.busy = 0
        """Requests under way."""
        self.turned_away = 0
        """Requests for which there was no room."""
        self._room = min(MAX_CONNECTIONS + SPARE, max(16, descriptors // 2))
        self.most = self._room - min(SPARE, self._room // 8)
        self._listening = listening
        self._tls = tls
        self._shaking: dict[asyncio.Task[Any], Handshake] = {}
        self._open = 0
        self._connections: set[Any] = set()
        self._coming: set[asyncio.Task[Any]] = set()
        self._make: Callable[[], Limited] | None = None
        self._accepting = False
        self.closed = False
        self._sweeping: asyncio.Task[None] | None = None
        self._told_short = False

    @property
    def open_now(self) -> int:
        """Connections that are there."""
        return self._open

    def open(self, connections: set[Any], make: Callable[[], Limited]) -> None:
        self._connections, self._make = connections, make
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._sweeping = asyncio.create_task(self._sweep())
        self._go_on()

    def close(self) -> None:
        self._pause()
        self.closed = True
        for one in list(self._shaking.values()):
            one.drop()

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
            if self._tls is not None:
                self._shaking[coming] = Handshake(taken, loop.time())
                coming.add_done_callback(self._shaking.pop)

    async def _begin(self, taken: socket.socket) -> None:
        assert self._make is not None
        made = self._make()
        loop, tls = asyncio.get_running_loop(), self._tls
        try:
            if tls is None:
                await loop.connect_accepted_socket(lambda: made, taken)
            else:
                await loop.connect_accepted_socket(
                    lambda: made,
                    taken,
                    ssl=tls.context,
                    ssl_handshake_timeout=HEADER_S,
                    ssl_shutdown_timeout=GOODBYE_S,
                )
        except OSError:  # It is gone already, or speaks no TLS that we do.
            pass
        finally:
            if not made.came:
                taken.close()
                self.left()

    def _make_room(self) -> bool:
        """Close some connections that ask for nothing: first those that never did."""
        young = asyncio.get_running_loop().time() - YOUNG_S
        there = [*self._connections, *self._shaking.values()]
        waiting = [one for one in there if one.waits and not one.closing]
        waiting = [one for one in waiting if not one.asked] or waiting
        waiting = sorted((one for one in waiting if one.since < young), key=lambda one: one.since)
        silent = _silent(waiting[: max(1, min(TURN, len(waiting) // 8))])
        for one in silent:
            one.drop()
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
        """Until the last connection is gone: at the end, too, some do not end by themselves."""
        while self._connections or not self.closed:
            await asyncio.sleep(SWEEP_S)
            now = asyncio.get_running_loop().time()
            if self._tls is not None:
                self._tls.look(now)
            for one in list(self._connections):
                one.look(now)
