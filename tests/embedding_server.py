"""A real HTTP server on the loopback that embeds as OpenAI, Mistral, Azure and Cohere do, and that
can be slow, broken or rude. Its vectors come from the words of a text; words that mean the same
count as one."""

from __future__ import annotations

import json
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.ports import HOST, HeldPort

SAME = {"automobile": "car", "vehicle": "car", "cars": "car", "mend": "repair", "fix": "repair"}
DIMS = 512


def vector(text: str, dims: int = DIMS, salt: str = "") -> list[float]:
    found = [0.0] * dims
    for word in text.lower().split():
        found[zlib.crc32((salt + SAME.get(word, word)).encode()) % dims] += 1.0
    return found


class EmbeddingServer:
    """Listens at `url` until it is `away`, and again when it is `back`. `mode` is how it behaves,
    `key` what it asks for, `asked` what it was asked: path, headers and body."""

    def __init__(self, key: str | None = None) -> None:
        self.key = key
        self.mode = "right"
        self.status = 500
        self.retry_after = ""
        self.dims = DIMS
        self.unwanted = ""
        """A request with this word in one of its texts is refused."""
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.go_on = threading.Event()
        """What is slow waits for this."""
        self._port = HeldPort()
        self._server: ThreadingHTTPServer | None = None
        self.back()

    @property
    def host(self) -> str:
        return f"{HOST}:{self._port.number}"

    @property
    def url(self) -> str:
        return self._port.url

    def back(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                body = json.loads(self.rfile.read(size))
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.asked.append((self.path, headers, body))
                server.answer(self, headers, body)

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
        self.go_on.set()
        self.away()
        self._port.release()

    def answer(
        self, to: BaseHTTPRequestHandler, headers: dict[str, str], body: dict[str, Any]
    ) -> None:
        if self.mode == "hang_up":
            to.connection.close()
            return
        if self.mode == "slow":
            self.go_on.wait(60)
        if self.mode == "drip":
            to.send_response(200)
            to.end_headers()
            while not self.go_on.wait(0.05):
                to.wfile.write(b" ")
                to.wfile.flush()
            return
        given = headers.get("api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        status = self.status if self.mode == "status" else 200
        if self.key is not None and given != self.key:
            status = 401
        texts = body["texts"] if "texts" in body else body["input"]
        if self.unwanted and any(self.unwanted in text for text in texts):
            status = 400
        data = (
            self._body(to.path, body)
            if status == 200
            else json.dumps({"error": {"message": f"Incorrect API key provided: {given}"}}).encode()
        )
        try:
            to.send_response(status)
            if self.retry_after:
                to.send_header("retry-after", self.retry_after)
            if self.mode == "status" and 300 <= status < 400:
                to.send_header("location", f"{self.url}/elsewhere")
            to.send_header("content-length", str(len(data)))
            to.end_headers()
            to.wfile.write(data)
        except ConnectionError:
            pass

    def _body(self, path: str, body: dict[str, Any]) -> bytes:
        if self.mode == "garbage":
            return b"<html>hello</html>"
        texts = body["texts"] if "texts" in body else body["input"]
        salt = "" if body["model"] == "words" else body["model"]
        found = [vector(text, self.dims, salt) for text in texts]
        if self.mode == "few":
            found = found[1:]
        if self.mode == "nothing":
            found = [[0.0] * self.dims for _ in found]
        if path.startswith("/v2/embed"):
            return json.dumps({"embeddings": {"float": found}}).encode()
        rows = [{"embedding": one, "index": i} for i, one in enumerate(found)]
        return json.dumps({"data": rows[::-1], "model": body["model"]}).encode()
