"""qdrant-client's local mode in the place of a server, with faults at its boundary.

There is no Qdrant server to test with. The local mode is the client's own implementation of what a
server does: the calls, their arguments and the conditional writes are the same; the wire, the
payload indexes, the quantised codes and the graph are not there.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException

from mnemolog.projections.vectors.client import Server

REFUSED = ResponseHandlingException(httpx.ConnectError("connection refused"))


class LocalServer:
    """One request at a time, as the local mode is not made for more. `before` sees each of them
    and may raise in its place; `after` may raise once it was carried out, as if the answer had
    been lost on its way."""

    def __init__(self, directory: Path | None = None) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.before: Callable[[str], None] = lambda name: None
        self.after: Callable[[str], None] = lambda name: None
        self._lock = threading.RLock()
        self._client = (
            QdrantClient(":memory:")
            if directory is None
            else QdrantClient(path=str(directory), force_disable_check_same_thread=True)
        )

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def request(*args: Any, **more: Any) -> Any:
            with self._lock, warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # payload indexes have no effect
                if name != "close":
                    self.requests.append((name, more))
                    self.before(name)
                answer = method(*args, **more)
                self.after(name)
                return answer

        return request

    def server(self) -> Server:
        """A connection to it. Closing one does not end the server, as it would not a real one."""
        return Server(cast("QdrantClient", _Connection(self)), "http://local.test")

    def stop(self) -> None:
        self._client.close()


class _Connection:
    def __init__(self, server: LocalServer) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def close(self) -> None:
        pass


def away(*names: str) -> Callable[[str], None]:
    """A fault: the server cannot be reached, for all requests or for these."""

    def fault(name: str) -> None:
        if not names or name in names:
            raise REFUSED

    return fault


def at_request(number: int, *names: str) -> Callable[[str], None]:
    """A fault: the request with this number, counted from 0 among all or these, fails."""
    seen = -1

    def fault(name: str) -> None:
        nonlocal seen
        if not names or name in names:
            seen += 1
            if seen == number:
                raise REFUSED

    return fault
