"""SIGTERM: what was taken is answered while there is time, and what is not is told of."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.attack.conftest import Attacked, answer, post, until
from tests.e2e.conftest import PATIENCE_S

FOREVER = {"code": "while (true);", "context": {"task": "t", "input": {}}}
"""The sandbox ends it after 5 s."""


def call(server: Attacked, tool: str, arguments: dict[str, Any]) -> socket.socket:
    """A call that is on its way."""
    params = {"name": tool, "arguments": arguments}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    client = server.connect()
    client.sendall(post(len(body)) + body.encode())
    return client


def children(server: Attacked) -> int:
    tasks = Path(f"/proc/{server.process.pid}/task")
    return sum(len((task / "children").read_text().split()) for task in tasks.iterdir())


def end(server: Attacked) -> str:
    """Ends it as an operator would; what it said."""
    server.process.terminate()
    assert server.process.wait(PATIENCE_S) == 0
    return server.errors.read_text()


def test_what_was_taken_is_answered(attacked: Callable[..., Attacked]) -> None:
    server = attacked(limits={"ends.GRACE_S": PATIENCE_S})
    with ExitStack() as kept:
        forever = kept.enter_context(call(server, "execute_agent_code", FOREVER))
        until(lambda: children(server) > 0)
        assert "not finished" not in end(server)
        status, _, body = answer(forever)
    assert status == 200
    assert json.loads(body)["error"]["code"] == -32008


def test_what_is_not_done_in_time_is_told_of(attacked: Callable[..., Attacked]) -> None:
    server = attacked(limits={"ends.GRACE_S": 0.5})
    with ExitStack() as kept:
        for _ in range(2):
            client = kept.enter_context(call(server, "execute_agent_code", FOREVER))
        until(lambda: children(server) > 1)
        told = end(server)
        status, headers, body = answer(client)
    assert (status, headers["retry-after"]) == (503, "1")
    assert json.loads(body)["error"].startswith("The service ends, and what was asked may still")
    assert "calls that were not finished within 0.5 s: 2 (execute_agent_code 2)." in told
    assert "Traceback" not in told
