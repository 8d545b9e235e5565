"""What `/metrics` shows, in Prometheus' format. No label has anything that clients choose, nor says
who they are: there are as many series as there are tools, partitions and outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mnemolog.services.api import Answer, Event, Follow, Request, Service, Unavailable
from mnemolog.services.gateway.connections import Door
from mnemolog.services.gateway.health import look, not_ready
from mnemolog.services.gateway.limits import Limits
from mnemolog.services.gateway.watched import REASONS, Outcome, Told, Watched, reason_of

FIGURES_S: Final = 2.0
"""How long the figures may take; after that the rest is shown without them."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_MODEL = ("ready", "loading", "absent", "failed")


class Measured(Watched):
    """A service whose calls are counted and timed. `families` are by the names of those tools that
    are told apart, `limits` those that calls are held to, if any."""

    def __init__(
        self,
        service: Service,
        families: Mapping[str, str],
        limits: Limits | None = None,
        told: Told | None = None,
    ) -> None:
        super().__init__(service, families, told)
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._shown = _Shown(limits)
        self._registry = CollectorRegistry()
        self._registry.register(self._shown)
        ProcessCollector(registry=self._registry)
        self._calls = self._counter(
            "mnemolog_calls",
            "Tool calls by outcome: ok, refused, denied (not allowed to this caller), limited (too "
            "often), unavailable, or abandoned by its caller.",
            ("tool", "family", "outcome"),
        )
        self._refusals = self._counter(
            "mnemolog_refusals", "Tool calls that were refused or denied, by reason.", ("reason",)
        )
        for reason in REASONS:  # From the start: what never happened is 0, not unknown.
            self._refusals.labels(reason)
        self._seconds = Histogram(
            "mnemolog_call_seconds",
            "Time to answer a tool call, in seconds.",
            ("tool",),
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._streams = Gauge(
            "mnemolog_event_streams",
            "Streams of events that are open here, MCP subscriptions included.",
            registry=self._registry,
        )
        self._cut_off = self._counter(
            "mnemolog_event_streams_cut_off",
            "Streams of events that were ended because their reader was too slow.",
        )
        self._responses = self._counter(
            "mnemolog_http_responses", "Answers over HTTP.", ("path", "code")
        )

    def _counter(self, name: str, words: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(name, words, labels, registry=self._registry)

    def limited(self, tool: str) -> None:
        """A call that came too often: it went no further."""
        self._calls.labels(*self._named(tool), "limited").inc()

    def watch(self, door: Door) -> None:
        """Connections come in through it."""
        self._shown.door = door

    async def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        with self._streams.track_inprogress():
            async with aclosing(self._service.events(follow)) as events:
                async for event in events:
                    if event.kind == "cut_off":
                        self._cut_off.inc()
                    yield event

    def responses(self, app: ASGIApp, paths: Iterable[str]) -> ASGIApp:
        """`app`, its answers counted; paths that are not listed are one."""
        known = frozenset(paths)

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope.get("path", "")
            place = path if path in known else "other"

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self._responses.labels(place, str(message["status"])).inc()
                await send(message)

            await app(scope, receive, sending)

        return counted

    async def exposition(self) -> bytes:
        """The metrics as text, with the health of this moment."""
        self._shown.health = await look(self._service)
        try:
            async with asyncio.timeout(FIGURES_S):
                self._shown.figures = await self._service.figures()
        except (Unavailable, TimeoutError):
            self._shown.figures = {}
        return generate_latest(self._registry)

    def _met(
        self, request: Request, outcome: Outcome, answer: Answer | None, seconds: float
    ) -> None:
        super()._met(request, outcome, answer, seconds)
        tool, family = self._named(request.tool)
        self._calls.labels(tool, family, outcome).inc()
        self._seconds.labels(tool).observe(seconds)
        if answer is not None and answer.refused:
            self._refusals.labels(reason_of(request, answer)).inc()


class _Shown(Collector):
    """What is read off when it is asked for."""

    def __init__(self, limits: Limits | None) -> None:
        self.health: dict[str, Any] = {}
        self.figures: dict[str, Any] = {}
        self.door: Door | None = None
        self._limits = limits

    def collect(self) -> Iterable[Metric]:
        yield from self._standing()
        yield from self._positions()
        yield from self._waiting()
        yield from self._sizes()
        yield from self._door()
        yield self._limited()

    def _standing(self) -> Iterable[Metric]:
        found = self.health.get("model") or {}
        yield _one("up", "1 when the service is open and healthy.", self._is("ok"))
        ready = not not_ready(self.health)
        yield _one("ready", "1 when calls can be answered.", ready)
        yield _many(
            "model_status",
            "1 for the embedding model's status.",
            ("name", "status"),
            [
                ((str(found.get("name") or "none"), one), found.get("status") == one)
                for one in (_MODEL if found else ())
            ],
        )
        left = (found.get("embedding") or {}).get("left")
        yield _many(
            "embedding_backlog",
            "Things that wait to be embedded in the background.",
            (),
            [] if left is None else [((), left)],
        )
        vectors = self.health.get("vectors") or {}
        yield _many(
            "vectors_away",
            "1 when searches go by words alone because the vectors cannot be asked.",
            (),
            [((), vectors.get("status") == "away")] if vectors else [],
        )

    def _is(self, status: str) -> bool:
        return self.health.get("status") == status

    def _positions(self) -> Iterable[Metric]:
        positions: list[tuple[tuple[str, ...], float]] = []
        lags: list[tuple[tuple[str, ...], float]] = []
        indexes = {one["partition"]: one for one in self.figures.get("indexes", [])}
        for one in self.health.get("partitions", []):
            name, known = str(one["partition"]), {**indexes.get(one["partition"], {}), **one}
            for of in ("calls", "decisions", "state", "text", "vectors"):
                if of in known:
                    positions.append(((name, of), known[of]))
            if "state" not in one:  # A projector has no state, and knows nothing of calls.
                continue
            lags.append(((name, "deciding"), one["calls"] - one["decisions"]))
            for of in ("state", "text", "vectors"):
                if of in known:
                    lags.append(((name, of), max(0, one["decisions"] - known[of])))
        yield _many(
            "log_position",
            "Records on a partition: calls, decisions, decisions that the state has applied and "
            "the indexes have made durable; on a projector, those that the shared vectors have.",
            ("partition", "of"),
            positions,
        )
        yield _many(
            "lag",
            "Records that are waiting: calls to be decided, decisions to be applied to the state "
            "or made durable in an index.",
            ("partition", "of"),
            lags,
        )

    def _waiting(self) -> Iterable[Metric]:
        queues = self.figures.get("queues", {})
        yield _many(
            "queue",
            "What waits for a thread, for its turn, or for somebody else.",
            ("queue",),
            [((name,), count) for name, count in queues.items()],
        )
        for name, words in (
            ("followers", "Who follows the log through this node, other processes' included."),
            ("guests", "Other processes that work through this one."),
        ):
            count = self.figures.get(name)
            yield _many(name, words, (), [] if count is None else [((), count)])

    def _sizes(self) -> Iterable[Metric]:
        for name, words, found in (
            ("stored_bytes", "Bytes on the disk of log, state and indexes.", "bytes"),
            ("disk_bytes", "The disk that the data directory is on.", "disk"),
        ):
            values = [((of,), size) for of, size in self.figures.get(found, {}).items()]
            yield _many(name, words, ("of",), values)

    def _door(self) -> Iterable[Metric]:
        door = self.door
        if door is None:
            return
        yield _one("requests_under_way", "Requests over HTTP under way.", door.busy)
        yield _one("requests_most", "Requests over HTTP that may be under way.", door.most)
        yield _one("connections", "Connections over HTTP that are open.", door.open_now)

    def _limited(self) -> Metric:
        found = CounterMetricFamily(
            "mnemolog_limited",
            "Requests that were turned away: too often (rate), or for lack of room.",
            labels=("kind", "reason"),
        )
        for kind, count in ({} if self._limits is None else self._limits.refused).items():
            found.add_metric([kind, "rate"], count)
        if self.door is not None:
            found.add_metric(["any", "room"], self.door.turned_away)
        return found


def _one(name: str, words: str, value: float) -> Metric:
    return _many(name, words, (), [((), value)])


def _many(
    name: str,
    words: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    found = GaugeMetricFamily(f"mnemolog_{name}", words, labels=labels)
    for place, value in values:
        found.add_metric(list(place), value)
    return found
