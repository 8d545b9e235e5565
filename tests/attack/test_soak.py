"""Everything at once, for a while, beside clients that behave: these hardly notice, nothing that
was acknowledged is lost, and nothing is left behind."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.attack.conftest import ROOT, Attacked, until
from tests.e2e.conftest import PATIENCE_S, environment
from tests.ports import HeldPort

DURATION_S = float(os.environ.get("SOAK_S", "600"))
"""Of attacks. A shorter time tells less: memory that grows slowly is not seen to."""
KILLS = 4
QUIET_S = 10
TIMES = 5
"""How much longer than without attackers 95 of 100 calls may take."""


class Behaved(threading.Thread):
    """A client that calls one after another, and when the server is gone, calls again. `took` are
    the times of calls that were answered; `acknowledged` what it was told is written."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(daemon=True)
        self.took: list[float] = []
        self.acknowledged: list[str] = []
        self.wrong: list[str] = []
        self.ending = threading.Event()
        self.broken = 0
        self._number = number
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def run(self) -> None:
        for turn in itertools.count():
            if self.ending.wait(0.02):
                return
            with_name = f"w{self._number}-{turn}"
            entity = {"name": with_name, "entityType": "t", "observations": [f"seen in {turn}"]}
            writes = turn % 2 == 0
            if writes:
                self._call("create_entities", {"entities": [entity]}, with_name)
            else:
                self._call("search_nodes", {"query": f"w{self._number}-{turn - 1}", "limit": 5})

    def _call(self, tool: str, arguments: dict[str, Any], name: str | None = None) -> None:
        params = {"name": tool, "arguments": arguments}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        began = time.perf_counter()
        try:
            kind = {"Content-Type": "application/json"}
            self._connection.request("POST", "/mcp", json.dumps(call), kind)
            answer = self._connection.getresponse()
            told = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self.broken += 1
            return  # It was killed: the call may have been carried out, and may be lost.
        if answer.status != 200 or json.loads(told)["result"]["isError"]:
            self.wrong.append(f"{answer.status}: {told[:300]!r}")
            return
        self.took.append(time.perf_counter() - began)
        if name is not None:
            self.acknowledged.append(name)


@contextmanager
def attackers(port: int) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.attack.attackers", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment())
    try:
        yield
        assert process.poll() is None, "the attackers gave up"
    finally:
        process.kill()
        process.wait()


def behaved(port: int, count: int, numbers: Iterator[int], seconds: float) -> list[Behaved]:
    clients = [Behaved(port, next(numbers)) for _ in range(count)]
    for one in clients:
        one.start()
    time.sleep(seconds)
    for one in clients:
        one.ending.set()
    for one in clients:
        one.join(PATIENCE_S)
        one._connection.close()
    return clients


def p95(clients: list[Behaved]) -> float:
    return statistics.quantiles([took for one in clients for took in one.took], n=20)[-1]


def in_ms(times: list[float]) -> list[float]:
    return [round(one * 1000, 1) for one in times]


def missing(server: Attacked, clients: list[Behaved]) -> set[str]:
    names = [name for one in clients for name in one.acknowledged]
    found: set[str] = set()
    for start in range(0, len(names), 500):
        reply = server.client().ok("open_nodes", {"names": names[start : start + 500]})
        found |= {one["name"] for one in reply["entities"]}
    return set(names) - found


@pytest.mark.faults
def test_the_others_hardly_notice(tmp_path: Path) -> None:
    held = HeldPort()
    data, numbers = tmp_path / "data", itertools.count()
    started = Attacked(data, port=held.number)
    everybody: list[Behaved] = []
    attacked: list[float] = []
    quiet: list[float] = []
    share = DURATION_S / (KILLS + 1) / 2

    def play(seconds: float) -> list[Behaved]:
        clients = behaved(held.number, 4, numbers, seconds)
        assert [one.wrong for one in clients if one.wrong] == []
        assert not any(one.broken for one in clients)
        everybody.extend(clients)
        return clients

    try:
        for turn in range(KILLS + 1):
            # In between, since the machine may have other things to do for a while, and since there
            # is more and more in the store.
            quiet.append(p95(play(QUIET_S)))
            with attackers(held.number):
                if turn:
                    started.process.kill()
                    started.process.wait()
                    started = Attacked(data, port=held.number)
                now = play(share)
                peak = started.memory_mb("VmHWM")
                now += play(share)
                assert started.memory_mb("VmHWM") - peak < 50
                assert started.health()[0] == 200
                attacked.append(p95(now))
        until(lambda: started.streams() == 0)
        until(lambda: started.sockets() < 10)
        quiet.append(p95(play(QUIET_S)))
        sys.stderr.write(f"p95 in ms, quiet: {in_ms(quiet)}; attacked: {in_ms(attacked)}\n")
        around = [max(two) for two in itertools.pairwise(quiet)]
        times = [one / other for one, other in zip(attacked, around, strict=True)]
        assert max(times) < TIMES, (in_ms(attacked), in_ms(quiet))
        assert started.health()[1]["status"] == "ok"
        assert missing(started, everybody) == set()
        assert started.errors.stat().st_size < 10_000
    finally:
        started.stop()
        held.release()
