"""Servers that ask who is there, and clients that say it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.message import Message as Headers
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mnemolog.services.gateway.auth import key_file
from mnemolog.services.gateway.auth.key_file import Key
from tests.attack.conftest import Attacked
from tests.auth.issuer import Issuer
from tests.e2e.conftest import PATIENCE_S, HttpClient, Message, Server, run

CALL = "tools/call"
SHORT = {
    "auth.introspection.KEPT_S": 0.5,
    "auth.introspection.PAUSE_S": 0.5,
    "auth.jwks.PAUSE_S": 0.5,
}


class Told(NamedTuple):
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> int | None:
        """Of the JSON-RPC error."""
        found: Message = self.json
        return found["error"]["code"] if "error" in found else None


class Known(HttpClient):
    """A client that sends `token` with everything."""

    def __init__(self, server: Server, token: str | None = None, **headers: str) -> None:
        super().__init__(server.url, server.data)
        self.headers = headers
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"

    def post(self, data: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        told = self.told("/mcp", data, **headers)
        return told.status, told.body

    def told(self, path: str = "/mcp", data: bytes | None = None, **headers: str) -> Told:
        asked = urllib.request.Request(self.url + path, data, self.headers | headers)
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
                return Told(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Told(error.code, error.headers, error.read())

    def asked(self, tool: str, arguments: Message, meta: Message | None = None) -> Told:
        """One call, with its whole answer."""
        params = {"name": tool, "arguments": arguments} | ({} if meta is None else {"_meta": meta})
        message = {"jsonrpc": "2.0", "id": 1, "method": CALL, "params": params}
        return self.told("/mcp", json.dumps(message).encode(), **JSON)

    def learns(self, insight: str) -> Told:
        return self.asked("learn", {"insight": insight})

    def recalls(self, query: str) -> list[str]:
        """What is remembered of it."""
        found = self.ok("recall", {"query": query})
        return [one["content"] for one in found["memories"]]


async def turns() -> None:
    """Lets every task that can go on do so, as far as it gets."""
    for _ in range(20):
        await asyncio.sleep(0)


JSON = {"Content-Type": "application/json"}


def said(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`mnemolog keys …`, whatever comes of it."""
    return run("keys", *words, "--data", str(data))


def made(data: Path, name: str, *words: str) -> str:
    """A new key."""
    done = said(data, "add", name, "--json", *words)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["key"])


def put(data: Path, name: str, tenant: str = "default", scopes: str = "read write") -> str:
    """A new key, without the time that a command takes to start."""
    key, id_ = key_file.new_key()
    kept = Key(
        name=name,
        id=id_,
        sha256=key_file.hashed(key),
        tenant=tenant,
        scopes=tuple(f"memory:{one}" for one in scopes.split()),  # type: ignore[misc]
        created=datetime.now(UTC),
    )
    key_file.change(data / "keys.json", lambda keys: [*keys, kept])
    return key


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers of this test's own, which do not wait as long as real ones before they ask the
    authorization server again."""
    started: list[Server] = []

    def begin(*args: str, env: dict[str, str] | None = None) -> Server:
        place = tmp_path / f"data{len(started)}"
        started.append(Attacked(place, *args, limits=SHORT, env=env))
        return started[-1]

    yield begin
    for one in started:
        one.stop()


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with --auth keys for all tests of a file; use names and tenants of your own."""
    data = tmp_path_factory.mktemp("keyed") / "data"
    server = Server(data, "--model", "none", "--auth", "keys")
    yield server
    server.stop()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An authorization server of this test's own."""
    started = Issuer()
    yield started
    started.close()


@pytest.fixture(scope="module")
def shared_issuer() -> Iterator[Issuer]:
    """One for all tests of a file, which leave it as it is."""
    started = Issuer()
    yield started
    started.close()
