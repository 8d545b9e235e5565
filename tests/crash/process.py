"""Real `mnemolog` processes, and the leanest way to talk to them.

A crash test has to write without pause and to notice at once that the other side is gone, so this
speaks MCP as plain lines, one JSON-RPC message each, with nothing in between.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

MNEMOLOG = Path(sys.executable).parent / "mnemolog"
ANSWER_WITHIN_S = 120.0
"""Whatever happens to the processes, a call that was sent is answered within this time; none takes
a hundredth of it but on a busy machine."""
END_WITHIN_S = 120.0
NO_MODEL = "none"
PATIENT = {
    "MNEMOLOG_CALL_TIMEOUT_S": "90",
    "MNEMOLOG_MODEL_WAIT_S": "60",
    "MNEMOLOG_RATE_LIMITS": "off",
}
"""A model that takes long to load there is not missing; and many calls are what these tests are."""


class Gone(Exception):
    """The process ended; what was asked and not answered may have been carried out or not."""


class Reply(msgspec.Struct, frozen=True):
    """What came back for one call. `error` is the text of a JSON-RPC error."""

    id: int
    body: dict[str, Any]
    refused: bool = False
    error: str | None = None
    position: str | None = None


def environment(model: str | None) -> dict[str, str]:
    """This process's environment without settings of its own; `model` None: the default one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MNEMOLOG_")}
    return kept | PATIENT | ({} if model is None else {"MNEMOLOG_MODEL": model})


def command(*arguments: str) -> list[str]:
    assert MNEMOLOG.exists(), f"{MNEMOLOG} is missing: run `make setup` first"
    return [str(MNEMOLOG), *arguments]


def spawn(data: Path, *arguments: str, model: str | None) -> subprocess.Popen[bytes]:
    """`mnemolog ARGUMENTS --data DATA` with pipes; its stderr is added to a file beside `data`."""
    data.parent.mkdir(parents=True, exist_ok=True)
    with stderr_of(data).open("ab") as stderr:
        return subprocess.Popen(
            command(*arguments, "--data", str(data)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(model),
            cwd=data.parent,
        )


def stderr_of(data: Path) -> Path:
    return data.parent / f"{data.name}.stderr"


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process if it still runs; safe to call at any time."""
    process.kill()
    process.wait(END_WITHIN_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def read_reply(line: bytes) -> Reply:
    message = msgspec.json.decode(line)
    if "error" in message:
        return Reply(message["id"], {}, refused=True, error=message["error"]["message"])
    result = message["result"]
    return Reply(
        message["id"],
        result.get("structuredContent", result),
        refused=result.get("isError", False),
        position=result.get("_meta", {}).get("position"),
    )


def call_message(number: int, tool: str, arguments: dict[str, Any], key: str | None) -> bytes:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if key is not None:
        params["_meta"] = {"idempotency_key": key}
    return msgspec.json.encode(
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    )


class Stdio:
    """One `mnemolog stdio` process and the conversation with it. It is killed when the block ends,
    unless it was ended before."""

    def __init__(self, data: Path, *, model: str | None = NO_MODEL) -> None:
        self.data = data
        self.process = spawn(data, "stdio", model=model)
        assert self.process.stdin is not None and self.process.stdout is not None
        self._in = self.process.stdin.fileno()
        self._out = self.process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._buffer = bytearray()
        self._last = 0
        self._write(
            {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "crash-test", "version": "1"},
                },
            }
        )
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end(self.process)

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL; from any thread. What is reading from the process then meets `Gone`."""
        self.process.kill()

    def finish(self) -> int:
        """End it as a client does, by closing its stdin; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(END_WITHIN_S)

    def send(self, tool: str, arguments: dict[str, Any], key: str | None = None) -> int:
        """Send a call and return its number; `receive` brings the replies, in any order."""
        self._last += 1
        self._write_line(call_message(self._last, tool, arguments, key))
        return self._last

    def receive(self) -> Reply:
        while True:
            reply = read_reply(self._line())
            if reply.id != 0:  # that is the greeting
                return reply

    def call(self, tool: str, arguments: dict[str, Any], key: str | None = None) -> Reply:
        """Call a tool while nothing else is under way."""
        number = self.send(tool, arguments, key)
        reply = self.receive()
        assert reply.id == number
        return reply

    def _write(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(Gone):  # reading will tell
            self._write_line(msgspec.json.encode(message))

    def _write_line(self, line: bytes) -> None:
        rest = memoryview(line + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._in, rest) :]
        except BrokenPipeError:
            raise Gone from None

    def _line(self) -> bytes:
        deadline = time.monotonic() + ANSWER_WITHIN_S
        searched = 0
        while (at := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if not self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise AssertionError(
                    f"process {self.pid} left a call without an answer for {ANSWER_WITHIN_S:g} s; "
                    f"stderr: {tail(self.data)}"
                )
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                raise Gone
            self._buffer += chunk
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line


def tail(data: Path) -> str:
    """The last words of the processes on `data`."""
    path = stderr_of(data)
    return path.read_bytes()[-2000:].decode(errors="replace") if path.exists() else ""
