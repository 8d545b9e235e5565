"""A real receiver of OpenTelemetry's protocol over HTTP, on the loopback."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.ports import HOST, HeldPort

PATIENCE_S = 60.0


class Span(NamedTuple):
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    resource: dict[str, Any]
    began_ns: int
    ended_ns: int


class Receiver:
    """Takes what comes at `url` until it is `away`, and again when it is `back`."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self._port = HeldPort()
        self._server: ThreadingHTTPServer | None = None
        self.back()

    @property
    def url(self) -> str:
        return self._port.url

    def back(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                right = self.path == "/v1/traces"
                if right:
                    receiver.headers.append(dict(self.headers.items()))
                    receiver.take(body)
                self.send_response(200 if right else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((HOST, self._port.number), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def away(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def close(self) -> None:
        self.away()
        self._port.release()

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(group.resource.attributes)
            for scope in group.scope_spans:
                for one in scope.spans:
                    found = Span(
                        one.name,
                        one.trace_id.hex(),
                        one.span_id.hex(),
                        one.parent_span_id.hex(),
                        _values(one.attributes),
                        resource,
                        one.start_time_unix_nano,
                        one.end_time_unix_nano,
                    )
                    self.spans.append(found)

    def until(self, holds: Callable[[list[Span]], bool]) -> list[Span]:
        """What came, once it is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds(list(self.spans)):
            assert time.monotonic() < deadline, [one.name for one in self.spans]
            time.sleep(0.05)
        return list(self.spans)


def _values(attributes: Any) -> dict[str, Any]:
    found = {}
    for one in attributes:
        kind = one.value.WhichOneof("value")
        found[one.key] = None if kind is None else getattr(one.value, kind)
    return found
