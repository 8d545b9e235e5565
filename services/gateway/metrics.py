"""What `/metrics` shows, in Prometheus' format."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import aclosing
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mnemolog.services.api import (
    Answer,
    Begun,
    Event,
    Follow,
    Progress,
    Request,
    Service,
    Unavailable,
)

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_MODEL = ("ready", "loading", "absent", "failed")


class Measured:
    """A service whose calls are counted and timed; otherwise the service it wraps. `tools` are the
    names that are told apart."""

    def __init__(self, service: Service, tools: Collection[str]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._service = service
        self._tools = tools
        self._health = _Health()
        self._registry = CollectorRegistry()
        self._registry.register(self._health)
        self._calls = Counter(
            "mnemolog_calls",
            "Tool calls by outcome: ok, refused, unavailable, or abandoned by its caller.",
            ("tool", "outcome"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "mnemolog_call_seconds",
            "Time to answer a tool call, in seconds.",
            ("tool",),
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._streams = Gauge(
            "mnemolog_event_streams",
            "Streams of events that are open, MCP subscriptions included.",
            registry=self._registry,
        )
        self._cut_off = Counter(
            "mnemolog_event_streams_cut_off",
            "Streams of events that were ended because their reader was too slow.",
            registry=self._registry,
        )

    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        # Names that clients make up must not make series.
        tool = request.tool if request.tool in self._tools else "unknown"
        began_s = time.perf_counter()
        outcome = "unavailable"
        try:
            answer = await self._service.call(request, progress)
            outcome = "refused" if answer.refused else "ok"
            return answer
        except asyncio.CancelledError:
            outcome = "abandoned"
            raise
        finally:
            self._calls.labels(tool, outcome).inc()
            self._seconds.labels(tool).observe(time.perf_counter() - began_s)

    async def health(self) -> dict[str, Any]:
        return await self._service.health()

    async def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        with self._streams.track_inprogress():
            async with aclosing(self._service.events(follow)) as events:
                async for event in events:
                    if event.kind == "cut_off":
                        self._cut_off.inc()
                    yield event

    async def names(self, begun: Begun) -> list[str]:
        return await self._service.names(begun)

    async def exposition(self) -> bytes:
        """The metrics as text, with the health of this moment."""
        try:
            self._health.latest = await self._service.health()
        except Unavailable:
            self._health.latest = {}
        return generate_latest(self._registry)


class _Health(Collector):
    def __init__(self) -> None:
        self.latest: dict[str, Any] = {}

    def collect(self) -> Iterable[GaugeMetricFamily]:
        up = GaugeMetricFamily("mnemolog_up", "1 when the service is open and healthy.")
        up.add_metric([], self.latest.get("status") == "ok")
        model = GaugeMetricFamily(
            "mnemolog_model_status",
            "1 for the embedding model's status.",
            labels=("name", "status"),
        )
        found = self.latest.get("model") or {}
        for status in _MODEL if found else ():
            model.add_metric([str(found.get("name")), status], found.get("status") == status)
        position = GaugeMetricFamily(
            "mnemolog_log_position",
            "Records on a partition: calls, decisions, decisions that the state has applied; on a "
            "projector, decisions that the shared vectors have.",
            labels=("partition", "of"),
        )
        lag = GaugeMetricFamily(
            "mnemolog_lag",
            "Records that are waiting: calls to be decided, decisions to be applied.",
            labels=("partition", "of"),
        )
        for one in self.latest.get("partitions", []):
            name = str(one["partition"])
            for of in ("calls", "decisions", "state", "vectors"):
                if of in one:
                    position.add_metric([name, of], one[of])
            if "state" not in one:  # A projector has no state, and knows nothing of calls.
                continue
            lag.add_metric([name, "deciding"], one["calls"] - one["decisions"])
            lag.add_metric([name, "state"], one["decisions"] - one["state"])
        return (up, model, position, lag)
