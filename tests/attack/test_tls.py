"""The port by TLS: served, renewed while it runs, and clients that speak it badly or not at all."""

from __future__ import annotations

import json
import select
import socket
import ssl
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mnemolog.infra.served_tls import LOOK_S, Certificate, certificate
from mnemolog.infra.settings import Settings, SettingsError
from tests.attack.conftest import Attacked, answer, head, is_closed, post, until
from tests.attack.test_connections import QUICK, SLOW
from tests.certificates import Authority, Shown
from tests.e2e.conftest import PATIENCE_S, HttpClient, start

HOST = "127.0.0.1"
BROKEN = "The new TLS certificate is not used"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> Shown:
    """What the server shows: files of this test's own."""
    return put(authority.shows("server", HOST), tmp_path)


def put(shown: Shown, directory: Path) -> Shown:
    """Copies, in place of those before: a new file each, as whoever renews them makes it."""
    for one, name in ((shown.key, "key"), (shown.cert, "pem")):
        beside = directory / f"new.{name}"
        beside.touch(0o600)
        beside.write_bytes(one.read_bytes())
        beside.rename(directory / f"shown.{name}")
    return Shown(directory / "shown.pem", directory / "shown.key", shown.both)


@pytest.fixture
def served(attacked: Callable[..., Attacked], files: Shown) -> Callable[..., Attacked]:
    def begin(**more: Any) -> Attacked:
        return attacked("--tls-cert", str(files.cert), "--tls-key", str(files.key), **more)

    return begin


@pytest.fixture(scope="module")
def shared(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Attacked]]:
    """Servers for all tests that need the same; nothing of theirs is changed."""
    shown = authority.shows("shared", HOST)
    started: dict[str, Attacked] = {}

    def begin(name: str, **more: Any) -> Attacked:
        if name not in started:
            place = tmp_path_factory.mktemp(name) / "data"
            given = ("--tls-cert", str(shown.cert), "--tls-key", str(shown.key))
            started[name] = Attacked(place, *given, **more)
        return started[name]

    yield begin
    for one in started.values():
        one.stop()


@pytest.fixture
def quick(shared: Callable[..., Attacked]) -> Attacked:
    return shared("quick", limits=QUICK)


@pytest.fixture
def narrow(shared: Callable[..., Attacked]) -> Attacked:
    """One with room for few, where what is closed was closed for another reason than time."""
    return shared("narrow", limits=SLOW, descriptors=128)


@pytest.fixture
def kept() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def client(server: Attacked, authority: Authority) -> HttpClient:
    return HttpClient(server.url, server.data, authority.believed())


def works(server: Attacked, authority: Authority) -> None:
    asking = client(server, authority)
    asking.ok("learn", {"insight": "cups slip when wet", "collection": f"c{id(asking)}"})
    assert asking.get("/healthz")[0] == 200
    assert server.process.poll() is None


def connected(kept: ExitStack, server: Attacked, authority: Authority) -> ssl.SSLSocket:
    wrapped = authority.believed().wrap_socket(server.connect(), server_hostname=HOST)
    return kept.enter_context(wrapped)


def serial(server: Attacked, authority: Authority) -> str:
    """Which certificate it shows now."""
    with authority.believed().wrap_socket(server.connect(), server_hostname=HOST) as one:
        found = one.getpeercert()
        assert found is not None
        return str(found["serialNumber"])


def reasons(server: Attacked, authority: Authority) -> list[str]:
    status, body = client(server, authority).get("/healthz")
    assert status == 200, "it serves"
    found: list[str] = json.loads(body)["reasons"]
    return found


# --- served --------------------------------------------------------------------------------------


def test_it_is_served_by_tls_alone(served: Callable[..., Attacked], authority: Authority) -> None:
    server = served()
    assert server.url.startswith("https://")
    works(server, authority)
    with authority.believed().wrap_socket(server.connect(), server_hostname=HOST) as one:
        assert one.version() == "TLSv1.3"
        one.sendall(head("/healthz", "Connection: close"))
        assert answer(one)[0] == 200
        assert one.recv(1) == b"", "and it ends in good order"
    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(server.connect(), server_hostname=HOST)
    assert server.stop() == 0


def test_a_client_that_hangs_up_is_let_go_of(
    served: Callable[..., Attacked], authority: Authority, kept: ExitStack
) -> None:
    server = served(limits=SLOW)
    works(server, authority)
    before = server.sockets()
    clients = [connected(kept, server, authority) for _ in range(5)]
    for one in clients:
        one.sendall(head("/events"))
        assert answer(one)[0] == 200
    assert server.sockets() > before
    kept.close()
    until(lambda: server.sockets() <= before)


def test_the_end_does_not_wait_until_clients_agree_to_it(
    served: Callable[..., Attacked], authority: Authority, kept: ExitStack
) -> None:
    server = served(limits=SLOW)
    for _ in range(5):
        idle = connected(kept, server, authority)
        idle.sendall(head("/healthz"))
        assert answer(idle)[0] == 200
    for half in HALVES:
        kept.enter_context(server.connect()).sendall(half)
    works(server, authority)
    assert server.stop() == 0
    assert "graceful shutdown exceeded" not in server.errors.read_text()


# --- renewed -------------------------------------------------------------------------------------


def test_a_renewed_certificate_is_shown_and_nobody_is_dropped(
    served: Callable[..., Attacked],
    files: Shown,
    authority: Authority,
    kept: ExitStack,
    tmp_path: Path,
) -> None:
    server = served(limits=SLOW)
    first = serial(server, authority)
    stays = connected(kept, server, authority)
    stays.sendall(head("/healthz"))
    assert answer(stays)[0] == 200
    put(authority.shows("renewed", HOST), tmp_path)
    until(lambda: serial(server, authority) != first)
    stays.sendall(head("/healthz"))
    assert answer(stays)[0] == 200, "a connection keeps what it began with"
    works(server, authority)
    assert BROKEN not in server.errors.read_text()


def test_a_broken_certificate_is_not_used_and_told_once(
    served: Callable[..., Attacked], files: Shown, authority: Authority, tmp_path: Path
) -> None:
    server = served()
    first = serial(server, authority)
    files.cert.write_text("this is no certificate")
    until(lambda: any(BROKEN in one for one in reasons(server, authority)))
    assert str(tmp_path) not in "".join(reasons(server, authority))
    assert serial(server, authority) == first
    works(server, authority)
    assert server.errors.read_text().count(BROKEN) == 1

    put(authority.shows("mended", HOST), tmp_path)
    until(lambda: serial(server, authority) != first)
    assert reasons(server, authority) == []
    files.cert.unlink()
    until(lambda: server.errors.read_text().count(BROKEN) == 2)
    works(server, authority)


def test_what_is_wrong_with_new_files(files: Shown, authority: Authority, tmp_path: Path) -> None:
    """Told once each, and the one before stays."""
    shown = Certificate(str(files.cert), str(files.key))
    before, now_s = shown.context, 0.0

    def look() -> str | None:
        nonlocal now_s
        now_s += LOOK_S
        shown.look(now_s)
        return shown.broken

    assert look() is None
    assert shown.context is before
    other = authority.shows("other", HOST)
    files.key.write_bytes(other.key.read_bytes())
    assert "is not the one of the certificate" in (look() or "")
    files.key.chmod(0o644)
    assert "chmod 600" in (look() or "")
    assert shown.context is before
    files.key.unlink()
    assert "cannot be read" in (look() or "")
    put(other, tmp_path)
    shown.look(now_s)
    assert shown.context is before, "it is not looked all the time"
    assert look() is None
    assert shown.context is not before


# --- refused at the start ------------------------------------------------------------------------


def test_a_key_that_others_can_read_is_refused(files: Shown, tmp_path: Path) -> None:
    said = "others than this user can read or change"
    for mode in (0o644, 0o640, 0o602):
        files.key.chmod(mode)
        with pytest.raises(SettingsError, match=said):
            Certificate(str(files.cert), str(files.key))
    assert said in refused(tmp_path, "--tls-cert", str(files.cert), "--tls-key", str(files.key))


def test_half_of_it_is_refused(files: Shown) -> None:
    for half in (Settings(tls_cert=str(files.cert)), Settings(tls_key=str(files.key))):
        with pytest.raises(SettingsError, match="Give both or none of --tls-cert and --tls-key"):
            certificate(half)
    assert certificate(Settings()) is None


def test_a_key_with_a_password_is_not_asked_for(authority: Authority, tmp_path: Path) -> None:
    shown, locked = authority.shows("locked", HOST), tmp_path / "locked.key"
    locked.touch(0o600)
    locked.write_bytes(authority.locked(shown))
    with pytest.raises(SettingsError, match="locked with a password"):
        Certificate(str(shown.cert), str(locked))


def refused(directory: Path, *args: str) -> str:
    given = ("--data", str(directory / "data"), "--port", "0", "--model", "none", *args)
    process = start("serve", *given, stderr=subprocess.PIPE)
    _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    return told.decode()


# --- clients that do not behave ------------------------------------------------------------------


def hello() -> bytes:
    """How a client begins."""
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    beginning = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        beginning.do_handshake()
    return outgoing.read()


HALVES = [b"", hello()[:40], hello()]


def test_handshakes_that_do_not_go_on_stop_nobody_and_are_closed(
    quick: Attacked, authority: Authority, kept: ExitStack
) -> None:
    clients = [kept.enter_context(quick.connect()) for _ in range(51)]
    for number, one in enumerate(clients):
        one.sendall(HALVES[number % 3])
    works(quick, authority)
    until(lambda: all(is_closed(one) for one in clients))
    works(quick, authority)


def test_handshakes_make_room(narrow: Attacked, authority: Authority, kept: ExitStack) -> None:
    """Many more than there is room for, and somebody who asks now and then."""
    server = narrow
    regular = connected(kept, server, authority)
    clients: list[socket.socket] = []
    for _ in range(15):
        for number in range(16):
            clients.append(kept.enter_context(server.connect()))
            clients[-1].sendall(HALVES[number % 3])
        regular.sendall(head("/healthz"))
        assert answer(regular)[0] == 200
    works(server, authority)
    assert sum(map(is_closed, clients)) > 150
    assert not is_closed(regular)


def test_idle_connections_make_room_though_nobody_says_goodbye(
    narrow: Attacked, authority: Authority, kept: ExitStack
) -> None:
    """A client has to agree to the end of a connection by TLS; these never read what they get."""
    for _ in range(12):
        for _ in range(16):
            connected(kept, narrow, authority).sendall(head("/healthz"))
        works(narrow, authority)
    assert narrow.sockets() < 128


def test_a_kept_connection_ends_in_time_though_nobody_says_goodbye(
    served: Callable[..., Attacked], authority: Authority, kept: ExitStack
) -> None:
    server = served(limits={**SLOW, "http.IDLE_S": 1})
    works(server, authority)
    before = server.sockets()
    for _ in range(5):
        one = connected(kept, server, authority)
        one.sendall(head("/healthz"))
        assert answer(one)[0] == 200
    until(lambda: server.sockets() <= before)


def test_who_takes_nothing_is_closed(
    quick: Attacked, authority: Authority, kept: ExitStack
) -> None:
    asking = client(quick, authority)
    for number in range(8):
        observations = [f"{number} {one} " + "x" * 1900 for one in range(100)]
        entity = {"name": f"n{number}", "entityType": "t", "observations": observations}
        asking.ok("create_entities", {"entities": [entity]})
    names = {"name": "open_nodes", "arguments": {"names": [f"n{one}" for one in range(8)]}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": names}
    body = json.dumps(call).encode()
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(quick.address)
    stuck = kept.enter_context(authority.believed().wrap_socket(plain, server_hostname=HOST))
    stuck.sendall((post(len(body)) + body) * 8)
    poll = select.poll()
    poll.register(stuck, 0)  # Nothing is read; that it was cut off is told nevertheless.
    until(lambda: bool(poll.poll(0)))
    works(quick, authority)


def test_what_is_no_tls_stops_nothing(
    quick: Attacked, authority: Authority, kept: ExitStack
) -> None:
    said = quick.errors.stat().st_size
    clients = [kept.enter_context(quick.connect()) for _ in range(30)]
    for number, one in enumerate(clients):
        one.sendall((head("/healthz"), b"\x00" * 4096, b"\x16\x03\x01\xff\xff" * 900)[number % 3])
    until(lambda: all(is_closed(one) for one in clients))
    works(quick, authority)
    assert quick.errors.stat().st_size == said, quick.errors.read_text()


def test_an_old_version_is_refused(quick: Attacked, authority: Authority, files: Shown) -> None:
    shown = Certificate(str(files.cert), str(files.key))
    assert shown.context.minimum_version == ssl.TLSVersion.TLSv1_2
    for version, accepted in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
        context = authority.believed()
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            context.minimum_version = context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")  # Or this side would not even offer it.
        with quick.connect() as plain:
            if accepted:
                context.wrap_socket(plain, server_hostname=HOST).close()
                continue
            with pytest.raises(ssl.SSLError) as caught:
                context.wrap_socket(plain, server_hostname=HOST)
            hung_up = isinstance(caught.value, ssl.SSLEOFError)
            assert hung_up or "PROTOCOL_VERSION" in (caught.value.reason or "")
    works(quick, authority)
