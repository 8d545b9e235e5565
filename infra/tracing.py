"""Traces by OpenTelemetry, sent by its protocol over HTTP, on a thread of their own.

What waits to be sent is bounded, the oldest goes first, and nobody ever waits for it. The MCP SDK
makes spans of its own wherever the process has a tracer; those hold what clients send. So there is
none for the whole process: these are ours alone.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan

from mnemolog.events.envelope import Trace

MAX_WAITING: Final = 4096
"""Spans that wait to be sent."""
AT_ONCE: Final = 512
EVERY_MS: Final = 1000
SEND_S: Final = 5.0
END_S: Final = 2.0
"""How long sending what is left may take at the end."""
PREFIX: Final = "mnemolog."

_log = structlog.get_logger("mnemolog.tracing")


class OtlpSpans:
    """See `services/tracing.py`."""

    def __init__(self, endpoint: str, version: str) -> None:
        # It tells of every try; what matters of that is told here, once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "mnemolog"}
        self._exporter = _Exporter(endpoint)
        self._provider = TracerProvider(
            resource=Resource.create({**named, "service.version": version}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                self._exporter,
                max_queue_size=MAX_WAITING,
                schedule_delay_millis=EVERY_MS,
                max_export_batch_size=AT_ONCE,
            )
        )
        self._tracer = self._provider.get_tracer("mnemolog", version)

    def begin(self, name: str, parent: Trace | None, attributes: dict[str, Any]) -> _Span | None:
        span = self._tracer.start_span(
            name, _context(parent), SpanKind.SERVER, attributes=_named(attributes)
        )
        return _Span(span, parent) if span.is_recording() else None

    def note(
        self,
        name: str,
        parent: Trace,
        began_ns: int,
        ended_ns: int,
        attributes: dict[str, Any],
    ) -> None:
        span = self._tracer.start_span(
            name, _context(parent), attributes=_named(attributes), start_time=began_ns
        )
        span.end(ended_ns)

    def close(self) -> None:
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(END_S)
        self._exporter.give_up()


class _Span:
    def __init__(self, span: OtelSpan, parent: Trace | None) -> None:
        self._span = span
        found = span.get_span_context()
        ids = f"{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"
        self.trace = Trace(f"00-{ids}", "" if parent is None else parent.state)

    def end(self, outcome: str) -> None:
        self._span.set_attribute(f"{PREFIX}outcome", outcome)
        self._span.end()


class _Exporter(SpanExporter):
    """Tells once that the endpoint is away, until it is back."""

    def __init__(self, endpoint: str) -> None:
        self._inner: Any = OTLPSpanExporter(endpoint, timeout=SEND_S)
        self._shown = urlsplit(endpoint).netloc
        self._away = False
        self._over = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._over:
            return SpanExportResult.FAILURE
        result: SpanExportResult = self._inner.export(spans)
        away = result is not SpanExportResult.SUCCESS
        if away and not self._away:
            _log.warning("traces are lost: their endpoint does not take them", at=self._shown)
        elif self._away and not away:
            _log.info("the endpoint takes traces again", at=self._shown)
        self._away = away
        return result

    def give_up(self) -> None:
        self._over = True
        self._inner.shutdown()

    def shutdown(self) -> None:
        """By the provider, which is done then; `give_up` comes in any case."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def _named(attributes: dict[str, Any]) -> dict[str, Any]:
    return {f"{PREFIX}{name}": value for name, value in attributes.items()}


def _context(parent: Trace | None) -> Context:
    if parent is None:
        return Context()
    _, trace_id, span_id, flags = parent.parent.split("-")
    found = SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=TraceState.from_header([parent.state]),
    )
    return set_span_in_context(NonRecordingSpan(found))
