"""A real `mnemolog serve` process, and clients that call it over HTTP."""

from __future__ import annotations

import http.client
import re
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.crash.process import (
    ANSWER_WITHIN_S,
    NO_MODEL,
    Gone,
    Reply,
    call_message,
    end,
    read_reply,
    spawn,
    stderr_of,
    tail,
)

_SERVING = re.compile(rb"serving http://127\.0\.0\.1:(\d+)/mcp")


class Server:
    """`mnemolog serve` on any free port. It is killed when the block ends."""

    def __init__(self, data: Path, *, model: str | None = NO_MODEL) -> None:
        self.data = data
        self._seen = stderr_of(data).stat().st_size if stderr_of(data).exists() else 0
        self.process: subprocess.Popen[bytes] = spawn(data, "serve", "--port", "0", model=model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end(self.process)

    def port(self) -> int:
        """The port it listens on, once it says so."""
        deadline = time.monotonic() + 2 * ANSWER_WITHIN_S
        while True:
            found = _SERVING.search(stderr_of(self.data).read_bytes()[self._seen :])
            if found is not None:
                return int(found[1])
            assert self.process.poll() is None, f"it ended: {tail(self.data)}"
            assert time.monotonic() < deadline, f"it does not start: {tail(self.data)}"
            time.sleep(0.01)

    def kill(self) -> None:
        self.process.kill()

    def terminate(self) -> int:
        """End it as a service manager does; its exit code."""
        self.process.terminate()
        return self.process.wait(2 * ANSWER_WITHIN_S)


class Http:
    """One client's connection to a server, kept open between calls."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_WITHIN_S)
        self._last = 0

    def call(self, tool: str, arguments: dict[str, Any], key: str | None = None) -> Reply:
        self._last += 1
        body = call_message(self._last, tool, arguments, key)
        try:
            headers = {"Content-Type": "application/json"}
            self._connection.request("POST", "/mcp", body, headers)
            answer = self._connection.getresponse()
            data = answer.read()
        except TimeoutError:
            raise AssertionError(f"no answer within {ANSWER_WITHIN_S:g} s") from None
        except (OSError, http.client.HTTPException):
            raise Gone from None
        assert answer.status == 200, f"{answer.status}: {data!r}"
        return read_reply(data)

    def close(self) -> None:
        self._connection.close()
