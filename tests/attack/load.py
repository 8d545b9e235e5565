"""Load: `python -m tests.attack.load PORT CONNECTIONS SECONDS NAME [--impolite]`, with the bearer
token in the variable LOAD_TOKEN. Connections that each call one tool after another, a write and two
reads in turns; then what became of it, as JSON on stdout. In a process of its own, so that it does
not hold up who measures."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from typing import Any

import msgspec


class Load(msgspec.Struct):
    """`took` are the seconds of calls that were carried out, by whether they write; `wrote` what
    was acknowledged, `wrong` whatever should not be."""

    reads: list[float] = msgspec.field(default_factory=list)
    writes: list[float] = msgspec.field(default_factory=list)
    statuses: dict[str, int] = msgspec.field(default_factory=dict)
    wrote: list[str] = msgspec.field(default_factory=list)
    wrong: list[str] = msgspec.field(default_factory=list)


class Loading:
    def __init__(self, port: int, until_s: float, name: str, *, polite: bool) -> None:
        self.load = Load()
        self._port = port
        self._until_s = until_s
        self._name = name
        self._polite = polite
        self._statuses: Counter[str] = Counter()
        token = os.environ.get("LOAD_TOKEN")
        self._more = f"Authorization: Bearer {token}\r\n" if token else ""

    async def run(self, connections: int) -> Load:
        await asyncio.gather(*(self._connection(number) for number in range(connections)))
        self.load.statuses = dict(self._statuses)
        return self.load

    async def _connection(self, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        turn = 0
        try:
            while time.monotonic() < self._until_s:
                name = f"{self._name}-{number}-{turn // 3}"
                writes = turn % 3 == 0
                entity = {"name": name, "entityType": "t", "observations": [f"seen in {turn}"]}
                call = ("create_entities", {"entities": [entity]})
                if not writes:
                    call = ("search_nodes", {"query": name, "limit": 5})  # type: ignore[dict-item]
                began_s = time.perf_counter()
                status, headers, body = await self._ask(reader, writer, *call)
                took_s = time.perf_counter() - began_s
                again_s = self._judge(status, headers, body)
                if again_s is None:
                    (self.load.writes if writes else self.load.reads).append(took_s)
                    self.load.wrote += [name] if writes else []
                    turn += 1
                elif self._polite:
                    await asyncio.sleep(again_s)
                if headers.get("connection") == "close":
                    writer.close()
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.load.wrong.append(f"the connection broke: {error!r}")
        finally:
            writer.close()

    def _judge(self, status: int, headers: dict[str, str], body: bytes) -> float | None:
        """None: the call was carried out; else when to ask again."""
        self._statuses[str(status)] += 1
        if status in (429, 503) and int(headers.get("retry-after", 0)) > 0:
            return float(headers["retry-after"])
        told: dict[str, Any] = json.loads(body)
        if status != 200 or told.get("result", {}).get("isError") is not False:
            if len(self.load.wrong) < 20:
                self.load.wrong.append(f"{status}: {body[:300]!r}")
            return 1.0
        return None

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        tool: str,
        arguments: dict[str, Any],
    ) -> tuple[int, dict[str, str], bytes]:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = json.dumps(message).encode()
        head = (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"{self._more}Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        top = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (one.partition(": ") for one in top[1:])
        }
        told = await reader.readexactly(int(headers.get("content-length", 0)))
        return int(top[0].split()[1]), headers, told


def main() -> None:
    port, connections, seconds, name = sys.argv[1:5]
    until_s = time.monotonic() + float(seconds)
    loading = Loading(int(port), until_s, name, polite="--impolite" not in sys.argv)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(loading.run(int(connections)))))


if __name__ == "__main__":
    main()
