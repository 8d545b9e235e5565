"""A process that only keeps the shared vectors tells how it is, like every other."""

from __future__ import annotations

import time

from mnemolog.infra.embedder.catalogue import DEFAULT_MODEL
from tests.bus.fleet import PARTITIONS, Fleet
from tests.contract.qdrant_wire import serving
from tests.e2e.conftest import PATIENCE_S


def test_a_projectors_metrics_show_how_far_it_is(fleet: Fleet) -> None:
    with serving() as qdrant:
        vectors = ("--vectors", qdrant.url, "--model", DEFAULT_MODEL)
        client = fleet.node("projector", "--role", "projector", *vectors).client()
        wanted = {
            f'mnemolog_log_position{{of="vectors",partition="{p}"}} 0.0' for p in range(PARTITIONS)
        }
        deadline = time.monotonic() + PATIENCE_S
        while True:
            status, shown = client.get("/metrics")
            assert status == 200, shown
            if wanted <= set(shown.splitlines()):
                break
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)
        assert "mnemolog_up 1.0" in shown
        assert "mnemolog_ready 0.0" in shown
        status, body = client.get("/readyz")
        assert status == 503 and "takes no calls" in body
        assert "mnemolog_lag{" not in shown
        fleet.end()
