"""A `mnemolog serve` process, and a lean client that keeps its connection open.

One POST of `tools/call` a call, as plain clients send it. Every node is measured through this same
client.
"""

from __future__ import annotations

import http.client
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import psutil  # type: ignore[import-untyped]

from benchmarks.mcp_client import BenchmarkError, child_environment
from benchmarks.peers import mnemolog

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
REPLY_TIMEOUT_S = 60.0
LAST_WORDS = 2000
_HEADERS = {"Content-Type": "application/json", "User-Agent": "mnemolog-benchmark"}


class HttpReply(msgspec.Struct, frozen=True):
    """What a tool answered, at which position of the log, and how long its caller waited."""

    body: dict[str, Any]
    position: str
    milliseconds: float


class HttpClient:
    """One connection to one node; for one thread."""

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=REPLY_TIMEOUT_S)
        self._headers = _HEADERS if token is None else _HEADERS | _bearer(token)

    def call(
        self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> HttpReply:
        """Call a tool; raises BenchmarkError if the node refuses."""
        params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = msgspec.json.encode(message)
        started_at = time.perf_counter()
        self._connection.request("POST", "/mcp", body, self._headers)
        told = self._connection.getresponse().read()
        milliseconds = (time.perf_counter() - started_at) * 1000
        result = msgspec.json.decode(told).get("result", {})
        if "structuredContent" not in result or result.get("isError"):
            raise BenchmarkError(f"{tool} was refused: {told[:300].decode(errors='replace')}")
        position = result.get("_meta", {}).get("position", "")
        return HttpReply(result["structuredContent"], position, milliseconds)

    def get(self, path: str) -> dict[str, Any]:
        """A page of the node that is JSON."""
        self._connection.request("GET", path)
        return dict(msgspec.json.decode(self._connection.getresponse().read()))

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


class HttpNode:
    """A `mnemolog serve` on a free port; a context manager that ends it.

    It is ended by SIGTERM, then by SIGKILL after `STOP_TIMEOUT_S` seconds.
    """

    def __init__(
        self,
        directory: Path,
        *args: str,
        environment: dict[str, str],
        checkout: mnemolog.Checkout = mnemolog.THIS,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)  # An open one is refused, with our file in it.
        self._stderr_path = directory / "bench-stderr.log"
        command = [checkout.program(), "serve", "--data", str(directory), "--port", "0", *args]
        with self._stderr_path.open("wb") as stderr:
            # A session of its own: Ctrl-C reaches this process only, which then ends the child.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=child_environment({**checkout.environment(), **environment}),
                start_new_session=True,
            )
        try:
            address = self._opened().split("serving http://")[1].split("/mcp")[0]
            self._host, port = address.rsplit(":", 1)
            self._port = int(port)
            if "none" not in args:
                self._wait_for_model()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def client(self, token: str | None = None) -> HttpClient:
        """A new connection to it; with `token`, of whom that is."""
        return HttpClient(self._host, self._port, token)

    def health(self) -> dict[str, Any]:
        """What it says of itself."""
        client = self.client()
        try:
            return client.get("/healthz")
        finally:
            client.close()

    def cpu_s(self) -> float:
        """Processor time that it has taken, in seconds."""
        return cpu_s(self.process.pid)

    def rss_mb(self) -> float:
        """Its resident memory, in units of 1,000,000 bytes."""
        return float(psutil.Process(self.process.pid).memory_info().rss) / 1e6

    def close(self) -> None:
        """End the process; safe to call twice."""
        for end in (self.process.terminate, self.process.kill):
            end()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_TIMEOUT_S)
                return
        self.process.wait()

    def _opened(self) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in self._said().splitlines():
                if "serving http" in line:
                    return line
            time.sleep(0.05)
        raise BenchmarkError(f"mnemolog serve did not start: {self._said()[-LAST_WORDS:]}")

    def _wait_for_model(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while (model := self.health()["model"])["status"] != "ready":
            if time.monotonic() > deadline:
                raise BenchmarkError(f"mnemolog serve has no model: {model}")
            time.sleep(0.1)

    def _said(self) -> str:
        return self._stderr_path.read_text(errors="replace")


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def cpu_s(process_id: int) -> float:
    """Processor time that a process has taken, in seconds."""
    times = psutil.Process(process_id).cpu_times()
    return float(times.user + times.system)
