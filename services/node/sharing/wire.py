"""How processes on one data directory talk: length-prefixed MessagePack over a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import platformdirs

from mnemolog.infra.directory import own_directory
from mnemolog.services.api import Answer, Begun, Event, Follow, Request

MAX_ASK = 2 * 1024 * 1024
"""Twice what the arguments of a call may have."""
MAX_TOLD = 32 * 1024 * 1024
EVERYTHING = 0
"""The number of what is told about whatever is asked; no question has it."""
MAX_ADDRESS = 100
"""Unix sockets have short names; a longer one is reached through its open directory."""
OPEN_FILES = Path("/proc/self/fd")
_LOCAL_PEERCRED = 1
_XUCRED_BYTES = 76
"""How macOS tells who is at the other end."""


class Ask(msgspec.Struct, omit_defaults=True):
    """`op` is `call`, `health`, `figures`, `names`, `rebuild` or `events`; `stop` ends the events
    of the same id."""

    id: int
    op: str
    request: Request | None = None
    verify: bool = False
    follow: Follow | None = None
    begun: Begun | None = None


class Told(msgspec.Struct, omit_defaults=True):
    """The answer to the `Ask` of the same id; with `progress` or `event`, there is more to come.
    One of the negative id is a sign of life: the holder is still at it."""

    id: int
    answer: Answer | None = None
    result: dict[str, Any] | None = None
    unavailable: str | None = None
    timed_out: bool = False
    """It is unavailable because there was no answer in time."""
    busy_s: int | None = None
    """It is unavailable because there is much to do, and may be asked again in so many seconds."""
    progress: tuple[int, int] | None = None
    event: Event | None = None
    refused: str | None = None
    names: list[str] | None = None


_encoder = msgspec.msgpack.Encoder()
ask_decoder = msgspec.msgpack.Decoder(Ask)
told_decoder = msgspec.msgpack.Decoder(Told)


def socket_path(data_dir: Path) -> Path:
    """Where the holder listens: in the data directory, which is its user's alone. Where that path
    is too long and the system has no shorter way to it (macOS), in a directory of the same kind in
    the user's cache."""
    path = data_dir.resolve() / "socket"
    if len(os.fsencode(path)) <= MAX_ADDRESS or OPEN_FILES.is_dir():
        return path
    directory = platformdirs.user_cache_path("mnemolog", appauthor=False) / "run"
    own_directory(directory)
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
    return directory / f"{name}.sock"


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    if len(os.fsencode(path)) <= MAX_ADDRESS:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{OPEN_FILES}/{directory}/{path.name}"
    finally:
        os.close(directory)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def listen(path: Path, serve: Serve) -> asyncio.Server:
    with _address(path) as address:
        return await asyncio.start_unix_server(serve, address)


async def dial(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    with _address(path) as address:
        return await asyncio.open_unix_connection(address)


class Peer(NamedTuple):
    """Who is at the other end, as the system says. `sees_our_files`: a path that it names means the
    same here, because it is in no container or sandbox that this process is not in, too."""

    uid: int
    sees_our_files: bool

    @property
    def is_this_user(self) -> bool:
        return self.uid == os.geteuid()


def peer(writer: asyncio.StreamWriter) -> Peer:
    end: socket.socket = writer.get_extra_info("socket")
    if hasattr(socket, "SO_PEERCRED"):
        pid, uid, _ = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return Peer(uid, _sees_our_files(pid))
    _, uid = struct.unpack_from("=II", end.getsockopt(0, _LOCAL_PEERCRED, _XUCRED_BYTES))
    return Peer(uid, True)


def _sees_our_files(pid: int) -> bool:
    own, its = Path("/proc/self"), Path(f"/proc/{pid}")
    try:
        mounts = (its / "ns" / "mnt").readlink() == (own / "ns" / "mnt").readlink()
        return mounts and (its / "root").samefile(own / "root")
    except OSError:  # A process of another container is not to be seen.
        return False


async def read_frame(reader: asyncio.StreamReader, at_most: int) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > at_most:
        raise ConnectionError(f"a frame of {size} bytes is over the limit of {at_most}")
    return await reader.readexactly(size)


def write_frame(writer: asyncio.StreamWriter, message: Ask | Told) -> None:
    data = _encoder.encode(message)
    writer.write(len(data).to_bytes(4, "big") + data)
