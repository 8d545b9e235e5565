"""Processes that work through another: it says nothing, or cannot be found."""

from __future__ import annotations

import json
import re
import socket as sockets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import PATIENCE_S, Server, StdioClient, run
from tests.faults import stopped

WORDS_ONLY = ("--model", "none")


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data", *WORDS_ONLY)
    server.client().ok("learn", {"insight": "cups slip when wet"})
    yield server
    server.stop()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_holder_that_is_stopped_is_not_waited_for(
    holder: Server, new_stdio: Callable[..., StdioClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOLOG_CALL_TIMEOUT_S", "1")
    guest = new_stdio(*WORDS_ONLY)
    guest.initialize()
    assert guest.ok("recall", {"query": "wet cups"})["total"] == 1
    learn = {"insight": "plates break when dropped"}
    pid, data = holder.process.pid, holder.data
    with stopped(pid):
        said = guest.refused("learn", learn)
        assert f"Process {pid}, which holds {data}, has not answered for 6 s" in said
        found = re.search(r"ask again under the idempotency key '(.+)'", said)
        assert found is not None
        told = run("rebuild", "--verify", "--data", str(data))
        assert told.returncode == 1
        assert f"Process {pid}, which holds {data}, has not answered" in told.stderr
    monkeypatch.setenv("MNEMOLOG_CALL_TIMEOUT_S", str(PATIENCE_S))
    again = new_stdio(*WORDS_ONLY)
    again.initialize()
    first = again.ok("learn", learn, {"idempotency_key": found[1]})
    assert first["status"] == "created"
    assert again.ok("recall", {"query": "dropped plates"})["total"] == 1


def test_health_is_told_by_a_server_whose_holder_is_stopped(
    new_stdio: Callable[..., StdioClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNEMOLOG_CALL_TIMEOUT_S", "1")
    holds = new_stdio(*WORDS_ONLY)
    holds.initialize()
    holds.ok("learn", {"insight": "cups slip when wet"})
    server = Server(holds.data, *WORDS_ONLY)
    try:
        with stopped(holds.process.pid):
            status, body = server.client().get("/healthz")
            assert status == 503
            assert f"Process {holds.process.pid}, which holds" in json.loads(body)["reasons"][0]
        until(lambda: server.client().get("/healthz")[0] == 200)
    finally:
        server.stop()


@pytest.mark.parametrize("left", ["nothing", "a file", "another socket"])
def test_a_socket_that_is_gone_is_made_again(
    holder: Server, new_stdio: Callable[..., StdioClient], left: str
) -> None:
    socket = holder.data / "socket"
    before = new_stdio(*WORDS_ONLY)
    before.initialize()
    before.ok("learn", {"insight": "plates break when dropped"})
    socket.unlink()
    if left == "a file":
        socket.write_text("not a socket")
    elif left == "another socket":
        with sockets.socket(sockets.AF_UNIX) as dead:
            dead.bind(str(socket))
    after = new_stdio(*WORDS_ONLY)
    after.initialize()
    assert after.ok("recall", {"query": "wet cups"})["total"] == 1
    assert before.ok("recall", {"query": "dropped plates"})["total"] == 1
    assert socket.stat().st_mode & 0o777 == 0o600
    assert holder.client().get("/healthz")[0] == 200
    assert holder.stop() == 0
    assert after.ok("recall", {"query": "wet cups"})["total"] == 1


def test_a_stdio_holder_makes_its_socket_again(new_stdio: Callable[..., StdioClient]) -> None:
    holds = new_stdio(*WORDS_ONLY)
    holds.initialize()
    holds.ok("learn", {"insight": "cups slip when wet"})
    (holds.data / "socket").unlink()
    other = new_stdio(*WORDS_ONLY)
    other.initialize()
    assert other.ok("recall", {"query": "wet cups"})["total"] == 1


def test_a_lock_that_is_deleted_is_taken_again(
    holder: Server, new_stdio: Callable[..., StdioClient]
) -> None:
    lock = holder.data / "lock"
    lock.unlink()
    until(lambda: lock.exists() and lock.read_text() == str(holder.process.pid))
    other = new_stdio(*WORDS_ONLY)
    other.initialize()
    other.ok("learn", {"insight": "plates break when dropped"})
    assert holder.client().ok("recall", {"query": "dropped plates"})["total"] == 1
    assert holder.client().get("/healthz")[0] == 200


def test_an_engine_that_panics_leaves_nobody_without_an_answer(
    holder: Server, new_stdio: Callable[..., StdioClient]
) -> None:
    """A file of the text index is overwritten while it is in use. Whatever the engine makes of it,
    both ways in answer, and a rebuild mends it."""
    text = holder.data / "projections" / "text"
    until(lambda: bool(list(text.rglob("*.idx"))))
    for file in text.rglob("*.idx"):
        with file.open("r+b") as there:
            there.write(b"\xff" * file.stat().st_size)
    guest = new_stdio(*WORDS_ONLY)
    guest.initialize()
    for client in (holder.client(), guest):
        answer = client.call("recall", {"query": "wet cups"})
        assert "result" in answer or "text" in answer["error"]["message"], answer
    verified = run("rebuild", "--verify", "--data", str(holder.data))
    assert "Traceback" not in verified.stderr
    assert run("rebuild", "--data", str(holder.data)).returncode == 0
    assert guest.ok("recall", {"query": "wet cups"})["total"] == 1
    assert holder.client().get("/healthz")[0] == 200
