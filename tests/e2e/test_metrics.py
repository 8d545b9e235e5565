"""`/metrics` of a running service: what it counts, how far everything is, and who is not in it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.conftest import PATIENCE_S, Server, StdioClient

WORDS_ONLY = ("--model", "none")


def shown(server: Server) -> dict[str, float]:
    """By name and labels."""
    status, text = server.client().get("/metrics")
    assert status == 200, text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def until(server: Server, holds: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    deadline = time.monotonic() + PATIENCE_S
    while not holds(found := shown(server)):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def test_how_far_everything_is_and_how_large(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--partitions", "2")
    try:
        client = server.client()
        client.ok("learn", {"insight": "cups slip when wet"})
        client.ok("create_entities", {"entities": [_entity("Cup")]})
        names = [
            f'{{of="{of}",partition="{p}"}}' for of in ("state", "text", "vectors") for p in (0, 1)
        ]

        def is_durable(found: dict[str, float]) -> bool:
            return all(found[f"mnemolog_lag{name}"] == 0 for name in names)

        found = until(server, is_durable)
        for name in names:
            ends = 'of="decisions",' + name.split(",")[1]
            assert found[f"mnemolog_log_position{name}"] == found[f"mnemolog_log_position{{{ends}"]
        assert found["mnemolog_ready"] == found["mnemolog_up"] == 1
        for of in ("log", "state", "text", "vectors"):
            assert found[f'mnemolog_stored_bytes{{of="{of}"}}'] > 1000, of
        size, free = (found[f'mnemolog_disk_bytes{{of="{of}"}}'] for of in ("size", "free"))
        assert size > free > 0
        assert found["mnemolog_requests_under_way"] == 1
        assert found["mnemolog_requests_most"] > 1
        assert found["mnemolog_connections"] >= 1
        assert found["process_resident_memory_bytes"] > 10_000_000
        until(server, lambda found: found["mnemolog_embedding_backlog"] == 0)
        for queue in ("deciding", "reading", "examining", "asking_ahead", "embedding"):
            assert found[f'mnemolog_queue{{queue="{queue}"}}'] >= 0
    finally:
        server.stop()


def _entity(name: str) -> dict[str, object]:
    return {"name": name, "entityType": "Thing", "observations": ["slips when wet"]}


def test_who_asks_too_often_is_counted_and_nobody_is_named(tmp_path: Path) -> None:
    env = {"MNEMOLOG_RATE_LIMITS": "write=0.01/1", "MNEMOLOG_TENANT": "acme-of-ana"}
    server = Server(tmp_path / "data", *WORDS_ONLY, env=env)
    try:
        client = server.client()
        meta = {"actor": "arm-3-of-ana"}
        client.ok("learn", {"insight": "cups slip", "collection": "kitchen-of-ana"}, meta)
        for _ in range(2):
            assert "error" in client.call("learn", {"insight": "plates break"}, meta)
        client.refused("made-up-by-ana", {}, meta)
        status, text = client.get("/metrics")
        found = shown(server)
    finally:
        server.stop()
    assert status == 200
    assert found['mnemolog_calls_total{family="robot",outcome="limited",tool="learn"}'] == 2
    unknown = 'family="unknown",outcome="limited",tool="unknown"'
    assert found[f"mnemolog_calls_total{{{unknown}}}"] == 1
    assert found['mnemolog_limited_total{kind="write",reason="rate"}'] == 3
    assert found['mnemolog_http_responses_total{code="429",path="/mcp"}'] == 3
    assert "ana" not in re.sub(r"# HELP .*", "", text)


def test_paths_that_clients_make_up_are_one(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", *WORDS_ONLY)
    try:
        for path in ("/made-up", "/made-up-too", "/mcp/made-up"):
            assert server.client().get(path)[0] == 404
        assert server.client().get("/livez")[0] == 200
        found = shown(server)
    finally:
        server.stop()
    paths = {one.split('path="')[1] for one in found if "http_responses" in one}
    assert paths <= {'other"}', '/livez"}', '/metrics"}'}
    assert sum(value for name, value in found.items() if 'path="other"' in name) == 3


def test_through_another_process_the_same_is_shown(tmp_path: Path) -> None:
    holder = StdioClient(tmp_path / "data", *WORDS_ONLY)
    try:
        holder.initialize()
        holder.ok("learn", {"insight": "cups slip when wet"})
        server = Server(tmp_path / "data", *WORDS_ONLY)
        try:
            found = shown(server)
        finally:
            server.stop()
    finally:
        holder.close()
    assert found["mnemolog_guests"] == 1
    assert found['mnemolog_log_position{of="decisions",partition="0"}'] == 1
    assert 'mnemolog_queue{queue="deciding"}' in found
    assert found['mnemolog_stored_bytes{of="log"}'] > 1000
