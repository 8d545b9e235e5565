"""A call that one process takes and another decides is one trace."""

from __future__ import annotations

import json
import os

import pytest

from tests.bus.fleet import Fleet
from tests.otlp import Receiver, Span


def test_gateway_and_decider_tell_of_one_trace(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    try:
        monkeypatch.setenv("OTEL_SERVICE_NAME", "the-decider")
        decider = fleet.node("decider", "--role", "decider", "--model", "none")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "the-gateway")
        gateway = fleet.node("gateway", "--role", "gateway", "--model", "none")
        status, body = decider.client().get("/readyz")
        assert (status, json.loads(body)["status"]) == (503, "not ready")
        assert "is a decider and takes no calls" in body
        assert gateway.client().get("/readyz")[0] == 200
        trace, parent = os.urandom(16).hex(), os.urandom(8).hex()
        meta = {"traceparent": f"00-{trace}-{parent}-01"}
        gateway.client().ok("learn", {"insight": "cups slip when wet"}, meta)

        def whole(spans: list[Span]) -> bool:
            found = {(one.name, one.resource["service.name"]) for one in spans}
            return found >= {
                ("gateway", "the-gateway"),
                ("log.append", "the-gateway"),
                ("decide", "the-decider"),
                ("log.append", "the-decider"),
                ("project", "the-decider"),
            }

        spans = receiver.until(whole)
        assert {one.trace for one in spans} == {trace}
        (root,) = [one for one in spans if one.name == "gateway"]
        assert root.parent == parent
        assert {one.parent for one in spans if one is not root} == {root.id}
        fleet.end()
    finally:
        receiver.close()
