"""A lean MCP client over stdio.

One JSON-RPC message per line, no event loop, no validation: a round trip to a server that does
nothing takes about 0.1 ms, where a full client library takes about 1 ms on the same machine and
would blur the difference between two servers. Every server is measured through this same client.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import psutil  # type: ignore[import-untyped]

PROTOCOL_VERSION = "2025-06-18"
REPLY_TIMEOUT_S = 120.0
GOODBYE_TIMEOUT_S = 10.0
STDERR_TAIL_BYTES = 2000


class BenchmarkError(Exception):
    """The benchmark cannot go on; the message says why and what to do."""


class Server(msgspec.Struct, frozen=True):
    """How one server process is started on one data directory."""

    name: str
    command: tuple[str, ...]
    directory: Path
    environment: dict[str, str]


class Reply(msgspec.Struct, frozen=True):
    """What a tool answered, and how long its caller waited for the complete answer."""

    body: dict[str, Any]
    milliseconds: float


class _Content(msgspec.Struct):
    text: str = ""


class _Result(msgspec.Struct):
    content: list[_Content] = []
    isError: bool = False


class _Message(msgspec.Struct):
    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


_messages = msgspec.json.Decoder(_Message)
_results = msgspec.json.Decoder(_Result)


class StdioClient:
    """One server process and the conversation with it; a context manager that ends it.

    The process is ended by closing its input, then by SIGTERM, then by SIGKILL, each after
    `GOODBYE_TIMEOUT_S` seconds, whatever way the block is left.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        server.directory.mkdir(parents=True, exist_ok=True)
        server.directory.chmod(0o700)  # An open one is refused, with our file in it.
        self._stderr_path = server.directory / "bench-stderr.log"
        self._started_at = time.perf_counter()
        with self._stderr_path.open("ab") as stderr:
            # A session of its own: Ctrl-C reaches this process only, which then ends the child.
            self._process = subprocess.Popen(
                server.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=child_environment(server.environment),
                start_new_session=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout
        self._output_fd = self._output.fileno()
        self._poll = select.poll()
        self._poll.register(self._output_fd, select.POLLIN | select.POLLHUP)
        self._buffer = bytearray()
        self._next_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def initialize(self) -> float:
        """Shake hands; milliseconds from the start of the process to the server's answer."""
        self._request(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "capabilities": {},
                "clientInfo": {"name": "mnemolog-benchmark", "version": "1"},
            },
        )
        milliseconds = self.age_ms()
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return milliseconds

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """Call a tool; raises BenchmarkError if the server refuses."""
        started_at = time.perf_counter()
        raw = self._request("tools/call", {"name": tool, "arguments": arguments})
        result = _results.decode(raw)
        milliseconds = (time.perf_counter() - started_at) * 1000
        text = result.content[0].text if result.content else "{}"
        body = _body(text)
        if result.isError or "error" in body:
            raise BenchmarkError(f"{self.server.name} refused {tool}: {text[:300]}")
        return Reply(body, milliseconds)

    def age_ms(self) -> float:
        """Milliseconds since the process was started."""
        return (time.perf_counter() - self._started_at) * 1000

    def rss_mb(self) -> float:
        """Resident memory of the process and its children, in units of 1,000,000 bytes."""
        process = psutil.Process(self._process.pid)
        family = [process, *process.children(recursive=True)]
        return sum(int(member.memory_info().rss) for member in family) / 1e6

    def cpu_s(self) -> float:
        """Processor time that the process has taken, in seconds."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def close(self) -> None:
        """End the process; safe to call twice."""
        if not self._input.closed:
            with suppress(BrokenPipeError):
                self._input.close()
        for end in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(GOODBYE_TIMEOUT_S)
                break
            except subprocess.TimeoutExpired:
                end()
        self._process.wait()
        self._output.close()

    def _request(self, method: str, params: Mapping[str, Any]) -> msgspec.Raw:
        self._next_id += 1
        self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        while True:
            message = _messages.decode(self._read_line())
            if message.id != self._next_id:
                continue  # a notification, or a request of the server's own
            if message.error:
                raise BenchmarkError(
                    f"{self.server.name} answered {method} with {bytes(message.error).decode()}"
                )
            return message.result

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._input.write(msgspec.json.encode(message) + b"\n")
            self._input.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _read_line(self) -> bytes:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if not self._poll.poll(REPLY_TIMEOUT_S * 1000):
                raise BenchmarkError(
                    f"{self.server.name} did not answer within {REPLY_TIMEOUT_S:.0f} s. "
                    f"Its last words: {self._last_words()}"
                )
            chunk = os.read(self._output_fd, 1 << 16)
            if not chunk:
                raise self._ended()
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _ended(self) -> BenchmarkError:
        return BenchmarkError(
            f"{self.server.name} ended unexpectedly ({' '.join(self.server.command)}). "
            f"Its last words: {self._last_words()}"
        )

    def _last_words(self) -> str:
        return self._stderr_path.read_bytes()[-STDERR_TAIL_BYTES:].decode(errors="replace")


def _body(text: str) -> dict[str, Any]:
    """What a tool said: an object, a list of things, or else the sentence of a refusal."""
    if text.startswith("{"):
        return dict(msgspec.json.decode(text))
    return {"items": msgspec.json.decode(text)} if text.startswith("[") else {"error": text}


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with `extra` over it, without what would leak ours into a peer."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**inherited, **extra}
