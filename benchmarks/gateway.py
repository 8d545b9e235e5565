"""What it costs a call that its caller is asked who it is, and counted: the same server with keys
and limits beside one without, over HTTP, without a model, so that little else takes time."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from benchmarks.goals import GUARDED, OURS
from benchmarks.http_client import HttpNode
from benchmarks.mcp_client import BenchmarkError, child_environment
from benchmarks.measure import SETTLE_S, in_turns
from benchmarks.peers import mnemolog
from benchmarks.results import GATEWAY_OPERATIONS, HTTP_CREATE, HTTP_OPEN, Memory, Results, Taken

NO_MODEL = ("--model", "none")
LIMITS = {"MNEMOLOG_RATE_LIMITS": "read=100000/100000 write=100000/100000"}
"""Every call is counted, and none comes too often."""
OTHERS = 20
"""Keys beside the one that is used."""


class GatewayPlan(msgspec.Struct, frozen=True):
    """How much is measured."""

    operations: int
    warm_up: int


FULL = GatewayPlan(1_000, 100)
QUICK = GatewayPlan(50, 10)


class GatewayTarget(Taken):
    """One server, asked on one connection."""

    def __init__(self, system: str, node: HttpNode, token: str | None) -> None:
        super().__init__(system, 1, GATEWAY_OPERATIONS)
        self.rss_mb = 0.0
        self._node = node
        self._client = node.client(token)

    def create(self, number: int) -> None:
        """Time one write."""
        entity = {"name": f"cup {number}", "entityType": "cup", "observations": ["it is wet"]}
        reply = self._client.call("create_entities", {"entities": [entity]})
        self._keep(HTTP_CREATE, reply.milliseconds)

    def open(self, number: int) -> None:
        """Time one read."""
        name = f"cup {number}"
        reply = self._client.call("open_nodes", {"names": [name]})
        self._keep(HTTP_OPEN, reply.milliseconds)
        self._check("opened", [one["name"] for one in reply.body["entities"]] == [name])

    def note_rss(self) -> None:
        """Keep the largest resident size seen."""
        self.rss_mb = max(self.rss_mb, self._node.rss_mb())

    def settle(self) -> None:
        """Its threads go to sleep before the next target is timed."""
        time.sleep(SETTLE_S)

    def close(self) -> None:
        """Hang up."""
        self._client.close()


def measure(work: Path, plan: GatewayPlan, results: Results, say: Callable[[str], None]) -> None:
    """Writes, then reads of what was written, both servers in turns."""
    guarded = work / "gateway-guarded"
    tokens = [_key(guarded, f"robot-{number}") for number in range(OTHERS + 1)]
    keys = ("--auth", "keys", *NO_MODEL)
    with ExitStack() as stack:
        open_ = stack.enter_context(HttpNode(work / "gateway-open", *NO_MODEL, environment={}))
        asked = stack.enter_context(HttpNode(guarded, *keys, environment=LIMITS))
        targets = [GatewayTarget(OURS, open_, None), GatewayTarget(GUARDED, asked, tokens[-1])]
        for target in targets:
            stack.callback(target.close)
        say("measuring what keys and limits cost")
        in_turns(targets, plan, lambda target, i: target.create(i))
        in_turns(targets, plan, lambda target, i: target.open(i))
        for target in targets:
            results.figures += target.figures()
            results.checks += target.checks()
            results.memory.append(Memory(target.system, target.size, round(target.rss_mb, 1)))


def _key(directory: Path, name: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    scopes = "memory:read,memory:write"
    given = ["keys", "add", name, "--tenant", "default", "--scopes", scopes, "--json"]
    done = subprocess.run(
        [mnemolog.THIS.program(), "--data", str(directory), *given],
        env=child_environment(mnemolog.THIS.environment()),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"No key was made: {done.stderr}")
    return str(json.loads(done.stdout)["key"])
