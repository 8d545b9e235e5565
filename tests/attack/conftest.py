"""A real server with limits that can be reached in a test, and clients that do not behave."""

from __future__ import annotations

import contextlib
import json
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import PATIENCE_S, Server, environment
from tests.e2e.conftest import kafka_server as kafka_server
from tests.e2e.conftest import new_stdio as new_stdio
from tests.e2e.conftest import server as server
from tests.e2e.conftest import stdio as stdio

ROOT = Path(__file__).parents[2]


class Attacked(Server):
    """`limits` are constants of the gateway's modules (`connections.HEADER_S`), `descriptors` how
    many it may have."""

    def __init__(
        self,
        data: Path,
        *args: str,
        limits: dict[str, float] | None = None,
        descriptors: int | None = None,
        env: dict[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self.data = data
        self.errors = data.parent / f"{data.name}.err"
        changes = [f"{name}={value}" for name, value in (limits or {}).items()]
        serve = ["serve", "--data", str(data), "--port", str(port), "--model", "none", *args]

        def limited() -> None:
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.attack.served", *changes, "--", *serve],
                env=environment() | (env or {}),
                stderr=errors,
                preexec_fn=limited,
                cwd=ROOT,
            )
        self.line = self._opened()
        self.url = self.line.split("serving ")[1].split("/mcp")[0]
        host, _, given = self.url.partition("://")[2].rpartition(":")
        self.address = (host.strip("[]"), int(given))

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, PATIENCE_S)

    def health(self) -> tuple[int, dict[str, Any]]:
        status, body = self.client().get("/healthz")
        return status, json.loads(body)

    def streams(self) -> int:
        """Streams of events that are open."""
        _, shown = self.client().get("/metrics")
        (line,) = [one for one in shown.splitlines() if one.startswith("mnemolog_event_streams ")]
        return int(float(line.split()[1]))

    def memory_mb(self, of: str = "VmRSS") -> float:
        """Now, or the most there ever was (`VmHWM`)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [one for one in status.splitlines() if one.startswith(f"{of}:")]
        return int(line.split()[1]) / 1024

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def sockets(self) -> int:
        """Those of its descriptors that no file is behind."""
        found = 0
        for one in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # It is closed by now.
                found += str(one.readlink()).startswith("socket:")
        return found


def head(path: str, *lines: str, method: str = "GET", host: str = "127.0.0.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode()


def post(size: int) -> bytes:
    """The head of a message of `size` bytes."""
    lines = ("Content-Type: application/json", f"Content-Length: {size}")
    return head("/mcp", *lines, method="POST")


def answer(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer that comes on a connection."""
    client.settimeout(PATIENCE_S)
    got = b""
    while b"\r\n\r\n" not in got:
        more = client.recv(65536)
        assert more, f"the connection was closed after {got!r}"
        got += more
    top, _, body = got.partition(b"\r\n\r\n")
    first, *rest = top.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in rest)}
    while len(body) < int(headers.get("content-length", 0)):
        more = client.recv(65536)
        assert more, "the connection was closed within the body"
        body += more
    return int(first.split()[1]), headers, body


def is_closed(client: socket.socket) -> bool:
    """Whether the server hung up, as far as this side knows by now."""
    with contextlib.suppress(ConnectionError):
        while select.select([client], [], [], 0)[0]:
            if not client.recv(65536):
                return True
        return False
    return True


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.02)


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Callable[..., Attacked]]:
    """Starts servers of this test's own."""
    started: list[Attacked] = []

    def begin(*args: str, **more: Any) -> Attacked:
        started.append(Attacked(tmp_path / f"data{len(started)}", *args, **more))
        return started[-1]

    yield begin
    for one in started:
        one.stop()
