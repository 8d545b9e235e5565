"""Much at once, for a while: what is not answered is refused honestly, nothing that was
acknowledged is lost, memory does not grow with it, and one tenant's flood is not another's."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.attack.conftest import ROOT, Attacked
from tests.attack.load import Load
from tests.e2e.conftest import PATIENCE_S, environment, run

DURATION_S = float(os.environ.get("LOAD_S", "60"))
CONNECTIONS = 200
LIMITS = {"MNEMOLOG_RATE_LIMITS": "read=2000/3000 write=100/150"}
"""Of everybody together, who all come from one address: so that some are sent away, not most."""
GROWTH_MB = 50
SPREAD = 20
"""How many times the time of the middle call one of a hundred may take."""
FLOOD = 50
"""Connections that do not wait when they are told to."""
TIMES = 2
PARTS = 5


def begun(
    server: Attacked, connections: int, seconds: float, name: str, *more: str, token: str = ""
) -> subprocess.Popen[bytes]:
    place = [str(server.address[1]), str(connections), str(seconds), name]
    command = [sys.executable, "-m", "tests.attack.load", *place, *more]
    env = environment() | {"LOAD_TOKEN": token}
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE)


def ended(loading: subprocess.Popen[bytes]) -> Load:
    out, _ = loading.communicate(timeout=DURATION_S + PATIENCE_S)
    assert loading.returncode == 0
    return msgspec.json.decode(out, type=Load)


def missing(server: Attacked, names: list[str]) -> set[str]:
    found: set[str] = set()
    client = server.client()
    for start in range(0, len(names), 500):
        reply = client.ok("open_nodes", {"names": names[start : start + 500]})
        found |= {one["name"] for one in reply["entities"]}
    return set(names) - found


def loaded(data: Path, env: dict[str, str]) -> Load:
    """What became of it, once everything that was acknowledged was found again after a restart."""
    server = Attacked(data, env=env)
    try:
        loading = begun(server, CONNECTIONS, DURATION_S, "load")
        time.sleep(DURATION_S / 2)
        half_mb = server.memory_mb("VmHWM")
        load = ended(loading)
        grown_mb = server.memory_mb("VmHWM") - half_mb
        assert server.health()[1]["status"] == "ok"
        server.stop()
        server = Attacked(data)
        lost = missing(server, load.wrote)
    finally:
        server.stop()
    assert load.wrong == []
    assert set(load.statuses) <= {"200", "429", "503"}
    assert load.wrote and lost == set()
    assert grown_mb < GROWTH_MB
    for took in (load.reads, load.writes):
        middle, slow = percentiles(took)
        told = f"{len(took)} calls, p50 {middle * 1000:.1f} ms, p99 {slow * 1000:.1f} ms"
        sys.stderr.write(f"{told}; {load.statuses}; {half_mb:.0f} MB + {grown_mb:.1f}\n")
    return load


def percentiles(took: list[float]) -> tuple[float, float]:
    return statistics.median(took), statistics.quantiles(took, n=100)[-1]


@pytest.mark.faults
def test_much_at_once(tmp_path: Path) -> None:
    """As much as the machine can do, all the time: nobody waits much longer than the others."""
    load = loaded(tmp_path / "data", {"MNEMOLOG_RATE_LIMITS": "off"})
    for took in (load.reads, load.writes):
        middle, slow = percentiles(took)
        assert slow < SPREAD * middle, (middle, slow)


@pytest.mark.faults
def test_more_than_is_allowed(tmp_path: Path) -> None:
    """Some are sent away, and come again when they were told to. How long calls take says nothing
    here: the service is idle while they wait, then all come at once."""
    assert loaded(tmp_path / "data", LIMITS).statuses["429"] > 0


def key(data: Path, tenant: str) -> str:
    """Of a tenant's only client."""
    scopes = "memory:read,memory:write"
    made = ("keys", "add", f"{tenant}-1", "--tenant", tenant, "--scopes", scopes, "--json")
    done = run("--data", str(data), *made)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["key"])


@contextmanager
def flood(server: Attacked, token: str, name: str) -> Iterator[None]:
    loading = begun(server, FLOOD, PATIENCE_S, name, "--impolite", token=token)
    try:
        yield
        assert loading.poll() is None, "the flood dried up"
    finally:
        loading.kill()
        loading.communicate()


@pytest.mark.faults
def test_one_tenants_flood_is_not_anothers(tmp_path: Path) -> None:
    """In parts that alternate: the machine may have other things to do for a while."""
    data = tmp_path / "data"
    ours, theirs = key(data, "ours"), key(data, "theirs")
    server = Attacked(data, "--auth", "keys", env={"MNEMOLOG_RATE_LIMITS": "on"})
    seconds = max(2.0, DURATION_S / (2 * PARTS))
    quiet: list[float] = []
    flooded: list[float] = []
    try:
        for part in range(PARTS):
            for took, name in ((quiet, f"quiet{part}"), (flooded, f"flooded{part}")):
                if took is quiet:
                    load = ended(begun(server, 1, seconds, name, token=ours))
                else:
                    with flood(server, theirs, name):
                        load = ended(begun(server, 1, seconds, name, token=ours))
                assert load.wrong == []
                took.append(statistics.quantiles(load.reads + load.writes, n=20)[-1])
    finally:
        server.stop()
    told = [[round(one * 1000, 1) for one in took] for took in (quiet, flooded)]
    sys.stderr.write(f"p95 in ms, quiet: {told[0]}; flooded: {told[1]}\n")
    assert statistics.median(flooded) < TIMES * statistics.median(quiet), told
