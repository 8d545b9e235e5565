"""How processes on one data directory talk: length-prefixed MessagePack over a Unix socket."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from mnemolog.services.api import Answer, Event, Follow, Request

MAX_FRAME = 32 * 1024 * 1024
MAX_SOCKET_PATH = 100
"""Unix sockets have short names; a longer path gets its socket in the temporary directory."""


class Ask(msgspec.Struct, omit_defaults=True):
    """`op` is `call`, `health`, `rebuild` or `events`; `stop` ends the events of the same id."""

    id: int
    op: str
    request: Request | None = None
    verify: bool = False
    follow: Follow | None = None


class Told(msgspec.Struct, omit_defaults=True):
    """The answer to the `Ask` of the same id; with `progress` or `event`, there is more to come.
    One of the negative id is a sign of life: the holder is still at it."""

    id: int
    answer: Answer | None = None
    result: dict[str, Any] | None = None
    unavailable: str | None = None
    progress: tuple[int, int] | None = None
    event: Event | None = None
    refused: str | None = None


_encoder = msgspec.msgpack.Encoder()
ask_decoder = msgspec.msgpack.Decoder(Ask)
told_decoder = msgspec.msgpack.Decoder(Told)


def socket_path(data_dir: Path) -> Path:
    path = data_dir.resolve() / "socket"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"mnemolog-{os.getuid()}-{name}.sock"


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > MAX_FRAME:
        raise ConnectionError(f"a frame of {size} bytes is over the limit of {MAX_FRAME}")
    return await reader.readexactly(size)


def write_frame(writer: asyncio.StreamWriter, message: Ask | Told) -> None:
    data = _encoder.encode(message)
    writer.write(len(data).to_bytes(4, "big") + data)
