"""`python -m tests.attack.attackers PORT`: everything at once, again and again, until it is ended.

In a process of its own, so that whoever measures beside it is not slowed down by it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable

from tests.attack.conftest import head, post
from tests.attack.test_hanging_up import listening
from tests.attack.test_messages import KEYS, LISTS, message

IDLE = 600
BODIES = 40
FUTURES = 100
PAUSE_S = 0.5
BODY = post(16_000_000) + b" " * 4_000_000
HEAVY = [
    post(len(data)) + data
    for data in (b"[" + b"[]," * 5_000_000 + b"[]]", message(LISTS), message(KEYS, "tools/list"))
]

Attack = Callable[[int], Awaitable[None]]


async def _send(port: int, data: bytes, *, stay_s: float = 0.0, read: bool = True) -> None:
    """One connection: send, wait for the beginning of an answer, stay a while, hang up."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            await writer.drain()
            if read:
                async with asyncio.timeout(60):
                    await reader.read(1024)
            await asyncio.sleep(stay_s)
        except TimeoutError:
            pass
        finally:
            writer.transport.abort()


async def heavy(port: int) -> None:
    for data in HEAVY:
        await _send(port, data)
        await asyncio.sleep(PAUSE_S)


async def idle(port: int) -> None:
    sent = (b"", b"GET / HTTP/1.1\r\n", head("/healthz"))
    await asyncio.gather(*(_send(port, sent[one % 3], stay_s=5, read=False) for one in range(IDLE)))


async def bodies(port: int) -> None:
    await asyncio.gather(*(_send(port, BODY, stay_s=5, read=False) for _ in range(BODIES)))


async def subscriptions(port: int) -> None:
    await asyncio.gather(*(_send(port, listening(30)) for _ in range(5)))


async def futures(port: int) -> None:
    params = {
        "name": "recall",
        "arguments": {"query": "cups"},
        "_meta": {"after": "0:999999999999"},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    data = json.dumps(call).encode()
    for _ in range(FUTURES // 10):
        await asyncio.gather(*(_send(port, post(len(data)) + data) for _ in range(10)))
        await asyncio.sleep(PAUSE_S / 5)


async def again(attack: Attack, port: int) -> None:
    while True:
        await attack(port)
        await asyncio.sleep(PAUSE_S)


async def main() -> None:
    port = int(sys.argv[1])
    await asyncio.gather(
        *(again(one, port) for one in (heavy, idle, bodies, subscriptions, futures))
    )


if __name__ == "__main__":
    asyncio.run(main())
