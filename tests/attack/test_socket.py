"""Processes on one data directory talk through its socket: nobody else does, and none of them does
through it what its own clients could not."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import platformdirs
import pytest

from mnemolog.infra.settings import SettingsError
from mnemolog.services.api import Answer, Begun, Files, Follow, Request, Unavailable
from mnemolog.services.families.graph.answering import exports
from mnemolog.services.families.graph.deciding import imports
from mnemolog.services.node.sharing import wire
from mnemolog.services.node.sharing.guest import Guest
from mnemolog.services.node.sharing.holder import MAX_CALLS
from tests.attack.conftest import Attacked, is_closed, until
from tests.crash.process import MNEMOLOG, Stdio, environment, tail
from tests.e2e.conftest import PATIENCE_S, run

NOBODY = 65534
LONG = "a-directory-with-a-name-that-alone-is-half-as-long-as-the-name-of-a-socket"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / LONG / LONG / "data"


@pytest.fixture(scope="module")
def holder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stdio]:
    with Stdio(tmp_path_factory.mktemp("holder") / LONG / "data") as client:
        assert not client.call("learn", {"insight": "cups slip when wet"}).refused
        yield client


def request(**more: Any) -> Request:
    fields = {
        "tool": "learn",
        "arguments": b'{"insight": "plates break when dropped"}',
        "call_id": os.urandom(16).hex(),
        "received_at_us": time.time_ns() // 1000,
    }
    return Request(**{**fields, **more})


def ask(data: Path, asked: Request) -> Answer:
    async def call() -> Answer:
        guest = await Guest.connect(data, PATIENCE_S)
        assert guest is not None
        try:
            return await guest.call(asked)
        finally:
            await guest.close()

    return asyncio.run(call())


def as_nobody(place: Path, work: Callable[[], int]) -> int:
    """A process of another user that does `work` where it could not go by itself; its id. What the
    work gives is the exit code."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        os.chdir(place)
        os.setuid(NOBODY)
        code = work()
    finally:
        os._exit(code)


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def still_answers(holder: Stdio) -> bool:
    return not holder.call("recall", {"query": "cups"}).refused


# --- where it is, and who is at the other end ---------------------------------------------------


def test_however_long_the_path_the_socket_is_in_the_data_directory(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the common temporary directory its name could be foretold, and taken by somebody else."""
    common = tmp_path / "common"
    common.mkdir()
    monkeypatch.setenv("TMPDIR", str(common))
    with Stdio(data) as one, Stdio(data) as two:
        one.call("learn", {"insight": "cups slip when wet"})
        assert two.call("recall", {"query": "wet cups"}).body["total"] == 1
        assert (data / "socket").is_socket()
        assert not stat.S_IMODE((data / "socket").stat().st_mode) & 0o077
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert not [one for one in common.iterdir() if one.is_socket()]


def test_a_socket_of_another_user_is_told_nothing(data: Path) -> None:
    data.mkdir(parents=True, mode=0o700)
    theirs = socket.socket(socket.AF_UNIX)
    with wire._address(data / "socket") as address:
        theirs.bind(address)

    def listen() -> int:
        theirs.listen()  # Whose it is counts from here.
        connection, _ = theirs.accept()
        return len(connection.recv(1))

    child = as_nobody(data, listen)
    theirs.close()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            assert asyncio.run(Guest.connect(data, PATIENCE_S)) is None
        except Unavailable as error:
            assert f"user {NOBODY}" in str(error)
            break
        assert time.monotonic() < deadline, "nobody listens"
        time.sleep(0.01)
    assert code_of(child) == 0, "it was told something"


def test_a_process_of_another_user_is_turned_away(holder: Stdio) -> None:
    """Even where somebody has opened the directory to others."""
    holder.data.chmod(0o755)
    (holder.data / "socket").chmod(0o666)
    frame = msgspec.msgpack.encode(wire.Ask(id=1, op="health"))

    def connect() -> int:
        with socket.socket(socket.AF_UNIX) as ours:
            ours.connect("socket")
            try:
                ours.sendall(len(frame).to_bytes(4, "big") + frame)
                return len(ours.recv(1))
            except ConnectionError:
                return 0

    assert code_of(as_nobody(holder.data, connect)) == 0, "it got an answer"
    holder.data.chmod(0o700)
    assert "another user was turned away" in tail(holder.data)
    assert still_answers(holder)


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path is short, wherever the tests' own are."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


def test_without_a_short_way_the_socket_is_in_a_directory_of_the_users_own(
    data: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, where an open directory has no name."""
    cache = short / "c"
    monkeypatch.setattr(wire, "OPEN_FILES", short / "none")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_, **__: cache)
    data.mkdir(parents=True)
    path = wire.socket_path(data)
    assert path.parent == cache / "run"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert wire.socket_path(data) == path != wire.socket_path(data.parent)

    async def talk() -> bytes:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"x")
            writer.close()

        server = await wire.listen(path, serve)
        reader, writer = await wire.dial(path)
        try:
            assert wire.peer(writer).is_this_user
            return await reader.read()
        finally:
            writer.close()
            server.close()

    assert asyncio.run(talk()) == b"x"
    os.chown(path.parent, NOBODY, NOBODY)
    with pytest.raises(SettingsError, match="belongs to user"):
        wire.socket_path(data)


# --- what can be said through it ----------------------------------------------------------------


@pytest.mark.parametrize("tool", [imports.BEGIN, imports.CHUNK, "mnemolog.embedded"])
def test_no_guest_writes_with_the_services_own_tools(holder: Stdio, tool: str) -> None:
    answer = ask(holder.data, request(tool=tool, arguments=b"{}", internal=True))
    assert answer.refused
    assert b"Unknown tool" in answer.reply


def test_a_guest_may_export(holder: Stdio) -> None:
    holder.call("create_entities", {"entities": [{"name": "cup", "entityType": "thing"}]})
    given = {"tool": exports.NAME, "arguments": b'{"what": "entities"}'}
    assert b'"cup"' in ask(holder.data, request(**given, internal=True)).reply
    assert ask(holder.data, request(**given)).refused


@pytest.mark.parametrize("at_us", [0, -(2**62), 2**62])
def test_the_time_of_a_call_is_the_holders(holder: Stdio, at_us: int) -> None:
    """One call from the future would move everything that follows there."""
    before = time.time()
    assert not ask(holder.data, request(received_at_us=at_us)).refused
    log = run("audit", "log", "--json", "--data", str(holder.data))
    newest = msgspec.json.decode(log.stdout)[0]
    assert "plates" in newest["arguments"]
    assert newest["at"][:4] in (time.strftime("%Y", time.gmtime(at)) for at in (before, before + 9))


@pytest.mark.parametrize(
    "more",
    [
        {"tenant": "default/robot"},
        {"tenant": ""},
        {"tenant": "x" * 65},
        {"actor": "x" * 2000},
        {"client": "x" * 2000},
        {"tool": "x" * 2000},
        {"call_id": "x" * 2000},
        {"idempotency_key": "x" * 2000},
        {"after": "x" * 100_000},
        {"consistency": "weak"},
        {"arguments": b" " * (1024 * 1024 + 1)},
        {"files": Files(cwd="here", home="/")},
        {"files": Files(cwd="/", home="/", root="here")},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_no_gateway_sends_is_not_carried_out(holder: Stdio, more: dict[str, Any]) -> None:
    with pytest.raises(Unavailable, match="no gateway"):
        ask(holder.data, request(**more))
    assert still_answers(holder)


def test_a_guest_follows_its_own_tenant_alone(holder: Stdio) -> None:
    async def follow() -> None:
        guest = await Guest.connect(holder.data, PATIENCE_S)
        assert guest is not None
        try:
            async for _ in guest.events(Follow(tenant="../default", live=False)):
                raise AssertionError
        finally:
            await guest.close()

    with pytest.raises(Unavailable, match="no gateway"):
        asyncio.run(follow())


@pytest.mark.parametrize(
    "begun",
    [
        Begun(tenant="default/robot", family="robot", argument="collection"),
        Begun(family="robot", argument="collection", text="x" * 2000),
        Begun(family="robot" * 500, argument="collection"),
    ],
    ids=["tenant", "text", "family"],
)
def test_a_guest_is_told_the_names_of_its_tenant_alone(holder: Stdio, begun: Begun) -> None:
    async def names(begun: Begun) -> list[str]:
        guest = await Guest.connect(holder.data, PATIENCE_S)
        assert guest is not None
        try:
            return await guest.names(begun)
        finally:
            await guest.close()

    with pytest.raises(Unavailable, match="no gateway"):
        asyncio.run(names(begun))
    good = Begun(family="robot", argument="collection", text="def")
    assert asyncio.run(names(good)) == ["default"]
    for family, argument in (("robot", "colour"), ("cooking", "collection")):
        assert asyncio.run(names(Begun(family=family, argument=argument))) == []


def test_more_questions_than_are_looked_into_at_once_wait(holder: Stdio) -> None:
    async def ask_all() -> list[dict[str, Any]]:
        guest = await Guest.connect(holder.data, PATIENCE_S)
        assert guest is not None
        try:
            return await asyncio.gather(*(guest.health() for _ in range(MAX_CALLS + 500)))
        finally:
            await guest.close()

    assert {one["status"] for one in asyncio.run(ask_all())} == {"ok"}


@pytest.mark.parametrize("what", ["too large", "the same number twice", "no message"])
def test_who_does_not_keep_to_the_protocol_is_hung_up_on(holder: Stdio, what: str) -> None:
    follow = wire.Ask(id=1, op="events", follow=Follow())
    frame = msgspec.msgpack.encode(follow)
    sent = {
        "too large": (wire.MAX_ASK + 1).to_bytes(4, "big"),
        "the same number twice": 2 * (len(frame).to_bytes(4, "big") + frame),
        "no message": b"\0\0\0\2\xff\xff",
    }[what]

    async def send() -> None:
        reader, writer = await wire.dial(wire.socket_path(holder.data))
        writer.write(sent)
        await asyncio.wait_for(reader.read(), PATIENCE_S)  # to its end
        writer.close()

    asyncio.run(send())
    assert still_answers(holder)


def test_to_a_process_in_a_container_the_holder_does_not_lend_its_eyes(
    holder: Stdio, tmp_path: Path
) -> None:
    """It shares the data directory, and not the rest of the files."""
    file = tmp_path / "memory.jsonl"
    file.write_text('{"type": "entity", "name": "cup", "entityType": "x", "observations": []}\n')
    import_it = [str(MNEMOLOG), "import", str(file), "--json", "--data", str(holder.data)]
    for command, code in (["unshare", "--mount", *import_it], 1), (import_it, 0):
        done = subprocess.run(
            command,
            env=environment("none"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert ("Files cannot be named here" in done.stdout) is bool(code)


def test_more_processes_than_there_is_room_for_are_told_so(
    attacked: Callable[..., Attacked],
) -> None:
    server = attacked(descriptors=128)
    path = wire.socket_path(server.data)
    before = server.descriptors()

    def connected() -> socket.socket:
        ours = socket.socket(socket.AF_UNIX)
        with wire._address(path) as address:
            ours.connect(address)
        ours.settimeout(PATIENCE_S)
        return ours

    crowd = [connected() for _ in range(16)]
    try:
        until(lambda: server.descriptors() >= before + 16)
        for _ in range(100):
            with connected() as one:
                assert b"takes no more; end some of them" in one.recv(65536)
        crowd += [connected() for _ in range(200)]
        until(lambda: sum(map(is_closed, crowd)) == 200)
        server.client().ok("learn", {"insight": "cups slip when wet", "collection": "new"})
        assert server.health()[0] == 200
        assert server.descriptors() < before + 40
        with Stdio(server.data) as late:
            refused = late.call("recall", {"query": "cups"})
            assert "takes no more" in f"{refused.error} {refused.body}"
            while crowd:
                crowd.pop().close()
            until(lambda: still_answers(late))
    finally:
        for one in crowd:
            one.close()
