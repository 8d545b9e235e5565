"""An HTTP server in front of qdrant-client's local mode, so that the real client has a wire to
talk over: what we send goes through JSON and back through the client's own models of Qdrant's API.

It stands in for a server and is none; of Qdrant's API it has what we use. `faults` take the place
of the answer to requests whose path ends so: a status and a body, or None for silence. With a
`tls` it is served by https.
"""

from __future__ import annotations

import re
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from qdrant_client import models

from tests.contract.qdrant_local import LocalServer

Fault = tuple[int, bytes] | None


class WireServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, local: LocalServer, port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            # The handshake is left to the connection's own thread.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
        self.local = local
        self.faults: dict[str, Fault] = {}
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.ending = threading.Event()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Of clients that do not believe its certificate nothing is printed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def serving(
    local: LocalServer | None = None, port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[WireServer]:
    server = WireServer(local or LocalServer(), port, tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: WireServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        path = urlsplit(self.path).path
        self.server.seen.append((self.command, path, dict(self.headers.items())))
        for end, fault in self.server.faults.items():
            if path.endswith(end):
                if fault is None:
                    self.server.ending.wait()
                else:
                    self.reply(*fault)
                return
        try:
            result = carry_out(self.server.local, self.command, path, body)
        except ValueError as error:
            status = 404 if str(error).endswith("not found") else 400
            self.reply(status, msgspec.json.encode({"status": {"error": str(error)}}))
            return
        whole = {"result": result, "status": "ok", "time": 0.0}
        if path == "/":
            whole = result
        self.reply(200, msgspec.json.encode(to_jsonable_python(whole)))

    do_GET = do_PUT = do_POST = do_DELETE = answer

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def carry_out(local: LocalServer, method: str, path: str, body: bytes) -> Any:
    for pattern, work in _ROUTES.items():
        found = re.fullmatch(pattern, f"{method} {path}")
        if found is not None:
            return work(local, body, *found.groups())
    raise ValueError(f"{method} {path} is not one of the requests this stand-in knows")


def _read(model: type[BaseModel], body: bytes) -> Any:
    return model.model_validate_json(body)


def _create(local: LocalServer, body: bytes, name: str) -> Any:
    asked = _read(models.CreateCollection, body)
    return local.create_collection(name, vectors_config=asked.vectors, metadata=asked.metadata)


def _upsert(local: LocalServer, body: bytes, name: str) -> Any:
    asked = _read(models.PointsList, body)
    return local.upsert(name, asked.points, update_filter=asked.update_filter)


def _index(local: LocalServer, body: bytes, name: str) -> Any:
    asked = _read(models.CreateFieldIndex, body)
    return local.create_payload_index(name, asked.field_name, asked.field_schema)


def _aliases(local: LocalServer, body: bytes) -> Any:
    return local.update_collection_aliases(_read(models.ChangeAliasesOperation, body).actions)


def _retrieve(local: LocalServer, body: bytes, name: str) -> Any:
    asked = _read(models.PointRequest, body)
    return local.retrieve(name, asked.ids, with_payload=asked.with_payload)


def _query(local: LocalServer, body: bytes, name: str) -> Any:
    asked = _read(models.QueryRequest, body)
    assert isinstance(asked.query, list) or asked.query is not None
    return local.query_points(
        name,
        query=asked.query,
        using=asked.using,
        query_filter=asked.filter,
        limit=asked.limit,
        with_payload=asked.with_payload,
        search_params=asked.params,
    )


def _scroll(local: LocalServer, body: bytes, name: str) -> Any:
    asked = _read(models.ScrollRequest, body)
    points, following = local.scroll(
        name,
        offset=asked.offset,
        limit=asked.limit,
        with_payload=asked.with_payload,
        with_vectors=asked.with_vector,
    )
    return {"points": points, "next_page_offset": following}


_ROUTES: dict[str, Callable[..., Any]] = {
    r"GET /": lambda local, body: local.info(),
    r"GET /aliases": lambda local, body: local.get_aliases(),
    r"GET /collections": lambda local, body: local.get_collections(),
    r"POST /collections/aliases": _aliases,
    r"GET /collections/([^/]+)": lambda local, body, name: local.get_collection(name),
    r"GET /collections/([^/]+)/exists": lambda local, body, name: {
        "exists": local.collection_exists(name)
    },
    r"PUT /collections/([^/]+)": _create,
    r"DELETE /collections/([^/]+)": lambda local, body, name: local.delete_collection(name),
    r"PUT /collections/([^/]+)/index": _index,
    r"PUT /collections/([^/]+)/points": _upsert,
    r"POST /collections/([^/]+)/points": _retrieve,
    r"POST /collections/([^/]+)/points/delete": lambda local, body, name: local.delete(
        name, _read(models.FilterSelector, body)
    ),
    r"POST /collections/([^/]+)/points/query": _query,
    r"POST /collections/([^/]+)/points/scroll": _scroll,
}
