"""Real processes on temporary data directories, and plain clients that speak to them."""

from __future__ import annotations

import itertools
import json
import os
import selectors
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp import StdioServerParameters

from mnemolog.infra.kafka.broker import Broker

MNEMOLOG = Path(sys.executable).with_name("mnemolog")
PATIENCE_S = 240
"""How long a test waits for a process before it fails; nothing is measured by it."""
PATIENT = {
    "MNEMOLOG_CALL_TIMEOUT_S": "90",
    "MNEMOLOG_MODEL_WAIT_S": "60",
    "MNEMOLOG_DESCRIBE_WAIT_S": "60",
}
"""On a busy machine a model that takes long to load is not missing, nor a decision that takes long
lost. Tests of what happens when it is too late set these themselves."""

Message = dict[str, Any]


def environment() -> dict[str, str]:
    """This process's, without settings that would leak into the tests."""
    return PATIENT | {name: value for name, value in os.environ.items() if name != "MNEMOLOG_DATA"}


def start(*args: str, env: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
    if not MNEMOLOG.exists():
        pytest.fail(f"{MNEMOLOG} is not installed: run `make setup`")
    return subprocess.Popen([str(MNEMOLOG), *args], env=environment() | (env or {}), **more)


def run(*args: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """One command, to its end."""
    if not MNEMOLOG.exists():
        pytest.fail(f"{MNEMOLOG} is not installed: run `make setup`")
    return subprocess.run(
        [str(MNEMOLOG), *args],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
        check=False,
    )


class Client:
    """Calls tools and gives the whole JSON-RPC message back."""

    data: Path

    def call(self, tool: str, arguments: Any, meta: Message | None = None) -> Message:
        params: Message = {"name": tool, "arguments": arguments}
        if meta is not None:
            params["_meta"] = meta
        return self.ask("tools/call", params)

    def ok(self, tool: str, arguments: Message, meta: Message | None = None) -> Message:
        """The reply of a call that must not be refused."""
        message = self.call(tool, arguments, meta)
        assert "result" in message, message
        assert message["result"]["isError"] is False, message
        return same_twice(message)

    def refused(self, tool: str, arguments: Any, meta: Message | None = None) -> str:
        """The sentence of a call that must be refused."""
        message = self.call(tool, arguments, meta)
        if "error" in message:
            return str(message["error"]["message"])
        assert message["result"]["isError"] is True, message
        return str(same_twice(message)["error"])

    def ask(self, method: str, params: Message | None = None) -> Message:
        raise NotImplementedError

    def send_raw(self, data: bytes) -> Message:
        """Send bytes that are no message; the answer."""
        raise NotImplementedError


def same_twice(message: Message) -> Message:
    """A reply is there as text and as structured content, and the two are the same."""
    result = message["result"]
    assert [part["type"] for part in result["content"]] == ["text"]
    reply: Message = result["structuredContent"]
    assert json.loads(result["content"][0]["text"]) == reply
    return reply


class StdioClient(Client):
    """A client that writes lines to a `mnemolog stdio` and reads lines back."""

    def __init__(self, data: Path, *args: str) -> None:
        self.data = data
        self.process = start(
            "stdio", "--data", str(data), *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._ids = itertools.count(1)
        self._buffer = b""
        assert self.process.stdout
        self._ready = selectors.DefaultSelector()
        self._ready.register(self.process.stdout, selectors.EVENT_READ)

    def initialize(self, version: str = "2025-06-18") -> Message:
        params = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "e2e", "version": "1"},
        }
        message = self.ask("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return message

    def ask(self, method: str, params: Message | None = None) -> Message:
        number = next(self._ids)
        message: Message = {"jsonrpc": "2.0", "id": number, "method": method}
        self.send(message if params is None else {**message, "params": params})
        answer = self.receive()
        assert answer["id"] == number
        return answer

    def send(self, message: Message) -> None:
        self.write(json.dumps(message).encode())

    def send_raw(self, data: bytes) -> Message:
        self.write(data)
        return self.receive()

    def write(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Message:
        assert self.process.stdout
        while b"\n" not in self._buffer:
            assert self._ready.select(PATIENCE_S), "mnemolog stdio does not answer"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, "mnemolog stdio closed its output"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def close(self) -> int:
        """Hang up; the exit code."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self._ready.close()


class HttpClient(Client):
    """The plain client of the documentation: one POST of `tools/call`, no handshake, no special
    headers. `tls` is what it believes of a server over https."""

    def __init__(self, url: str, data: Path, tls: ssl.SSLContext | None = None) -> None:
        self.url = url
        self.data = data
        self._tls = tls
        self._ids = itertools.count(1)

    def ask(self, method: str, params: Message | None = None) -> Message:
        number = next(self._ids)
        message: Message = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            message["params"] = params
        answer = self.send_raw(json.dumps(message).encode())
        assert answer["id"] == number
        return answer

    def send_raw(self, data: bytes) -> Message:
        _, body = self.post(data, {"Content-Type": "application/json"})
        message: Message = json.loads(body)
        return message

    def post(self, data: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        request = urllib.request.Request(f"{self.url}/mcp", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S, context=self._tls) as told:
                return told.status, told.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def get(self, path: str) -> tuple[int, str]:
        try:
            place = self.url + path
            with urllib.request.urlopen(place, timeout=PATIENCE_S, context=self._tls) as told:
                return told.status, told.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


class Server:
    """A `mnemolog serve` on a free port. `line` is what it said when it was open."""

    def __init__(self, data: Path, *args: str, env: dict[str, str] | None = None) -> None:
        self.data = data
        self.errors = data.parent / f"{data.name}.err"
        with self.errors.open("wb") as errors:
            self.process = start(
                "serve", "--data", str(data), "--port", "0", *args, env=env, stderr=errors
            )
        self.line = self._opened()
        self.url = self.line.split("serving ")[1].split("/mcp")[0]

    def client(self) -> HttpClient:
        return HttpClient(self.url, self.data)

    def stop(self) -> int:
        """End it as an operator would; the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait()

    def _opened(self) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in self.errors.read_text().splitlines():
                if "serving http" in line:
                    return line
            time.sleep(0.05)
        self.process.kill()
        self.process.wait()
        pytest.fail(f"mnemolog serve did not start: {self.errors.read_text()}")


@pytest.fixture(scope="session")
def stdio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioClient]:
    """A client of one `mnemolog stdio` that all tests share; use collections of your own."""
    client = StdioClient(tmp_path_factory.mktemp("stdio") / "data")
    try:
        client.initialize()
        yield client
    finally:
        client.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One `mnemolog serve` that all tests share; use collections of your own."""
    server = Server(tmp_path_factory.mktemp("serve") / "data")
    try:
        yield server
    finally:
        server.stop()


TRANSPORTS = ("stdio", "http", "kafka")


@contextmanager
def reached(
    transport: str, data: Path, broker: Callable[[], Broker], *args: str
) -> Iterator[str | StdioServerParameters]:
    """Where the official client finds a service of its own: embedded over stdio or HTTP, or over
    HTTP on Kafka, on topics of its own."""
    if transport == "stdio":
        given = ["stdio", "--data", str(data), *args]
        yield StdioServerParameters(command=str(MNEMOLOG), args=given, env=environment())
        return
    env: dict[str, str] = {}
    if transport == "kafka":
        env = {"MNEMOLOG_TOPICS": f"e2e-{os.urandom(6).hex()}"}
        args = (*args, "--log", f"kafka://{broker().bootstrap}", "--partitions", "1")
    server = Server(data, *args, env=env)
    try:
        yield f"{server.url}/mcp"
    finally:
        server.stop()


def checked(client: mcp.Client) -> Callable[..., Awaitable[Message]]:
    """Calls a tool through the official client: refused or not as expected, and the same reply as
    text and as structured content."""

    async def call(tool: str, /, *, refused: bool = False, **arguments: Any) -> Message:
        result = await client.call_tool(tool, arguments)
        assert bool(result.is_error) is refused, result
        reply: Message = result.structured_content
        assert json.loads(result.content[0].text) == reply  # type: ignore[union-attr]
        return reply

    return call


@pytest.fixture(scope="session")
def kafka_server(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One `mnemolog serve` on Kafka that all tests share; use collections of your own."""
    log = ("--log", f"kafka://{broker.bootstrap}", "--partitions", "4")
    server = Server(tmp_path_factory.mktemp("kafka") / "data", *log)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["stdio", "http", "kafka"])
def client(request: pytest.FixtureRequest) -> Client:
    """Each way in: embedded over stdio and HTTP, and HTTP on Kafka."""
    if request.param == "kafka":
        on_kafka: Server = request.getfixturevalue("kafka_server")
        return on_kafka.client()
    if request.param == "stdio":
        found: Client = request.getfixturevalue("stdio")
        return found
    server: Server = request.getfixturevalue("server")
    return server.client()


@pytest.fixture
def empty(client: Client) -> Client:
    """Each way in, to a knowledge graph that holds nothing: what other tests left is deleted."""
    while names := [one["name"] for one in client.ok("read_graph", {"limit": 50})["entities"]]:
        client.ok("delete_entities", {"entityNames": names})
    return client


@pytest.fixture
def collection() -> str:
    """A collection that no other test uses."""
    return f"test-{os.urandom(6).hex()}"


@pytest.fixture
def new_stdio(tmp_path: Path) -> Iterator[Callable[..., StdioClient]]:
    """Starts `mnemolog stdio` processes on a directory of this test's own."""
    started: list[StdioClient] = []

    def start_one(*args: str) -> StdioClient:
        started.append(StdioClient(tmp_path / "data", *args))
        return started[-1]

    yield start_one
    for one in started:
        one.close()
