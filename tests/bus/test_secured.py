"""Nodes on a broker that takes nobody but by TLS, with a password or a certificate."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import traceback
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemolog.events.log import LogError
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.infra.log.kafka_way import way_of
from mnemolog.infra.settings import Settings, SettingsError, kafka_password, load
from tests.bus.secured import NAME, PASSWORD, USER, WRONG, SecuredBroker, secrets_in
from tests.certificates import Authority, Shown
from tests.conftest import started
from tests.e2e.conftest import PATIENCE_S, HttpClient, Server, run, start

LESSON = "cups slip when the gripper is wet"
OTHER = "doors open to the left in the west wing"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(authority)
    started(broker, broker.certified, broker.astray)
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Nobody that the broker has to do with."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOLOG_KAFKA_PASSWORD", PASSWORD)
    monkeypatch.setenv("MNEMOLOG_TOPICS", f"secured-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def by(monkeypatch: pytest.MonkeyPatch, authority: Authority) -> Callable[..., None]:
    """Sets the way that processes take from here on."""

    def by(**given: str) -> None:
        way = {"security": "sasl_ssl", "username": USER, "ca": str(authority.ca), **given}
        for name, value in way.items():
            monkeypatch.setenv(f"MNEMOLOG_KAFKA_{name.upper()}", value)

    return by


@pytest.fixture
def node(secured: SecuredBroker, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def begin(name: str, port: int | None = None) -> Server:
        log = ("--log", f"kafka://{NAME}:{port or secured.port}", "--partitions", "2")
        made.append(Server(tmp_path / name, *log, "--model", "none"))
        return made[-1]

    yield begin
    for one in made:
        one.process.kill()
        one.process.wait()


def knows(client: HttpClient, lesson: str) -> None:
    asked = {"query": lesson, "collection": "cups"}
    found = client.ok("recall", asked, {"consistency": "strong"})["memories"]
    assert found[0]["content"] == lesson


def learn(client: HttpClient, lesson: str) -> None:
    client.ok("learn", {"insight": lesson, "collection": "cups"})


def shown_by(server: Server) -> str:
    """All that a node shows of itself."""
    client = server.client()
    status, health = client.get("/healthz")
    assert status == 200, health
    return health + client.get("/metrics")[1] + server.errors.read_text()


# --- the ways that lead there --------------------------------------------------------------------


def test_two_nodes_with_a_password_each_by_its_mechanism(
    by: Callable[..., None],
    node: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")

    def begin(name: str) -> Server:
        if name == "scram":
            by(mechanism="SCRAM-SHA-512")
            return node(name)
        with monkeypatch.context() as given:
            given.delenv("MNEMOLOG_KAFKA_PASSWORD")
            given.setenv("MNEMOLOG_KAFKA_PASSWORD_FILE", str(file))
            by(mechanism="PLAIN")
            return node(name)

    told: list[str | Path] = []
    names = ("scram", "plain")
    first, second = nodes = [begin(name) for name in names]
    learn(first.client(), LESSON)
    knows(second.client(), LESSON)
    learn(second.client(), OTHER)
    knows(first.client(), OTHER)
    for one in nodes:
        told.append(shown_by(one))
        assert one.stop() == 0, one.errors.read_text()
        assert "Authenticated" not in one.errors.read_text(), "nothing to fill the log with"
    for name in names:
        again = begin(name)
        knows(again.client(), LESSON)
        told.append(shown_by(again))
        assert again.stop() == 0
    # The directory knows the way, and has no password.
    for setting in ("SECURITY", "USERNAME", "CA", "MECHANISM"):
        monkeypatch.delenv(f"MNEMOLOG_KAFKA_{setting}")
    verified = run("audit", "verify", "--json", "--data", str(first.data))
    assert json.loads(verified.stdout)["whole"], verified.stderr
    kept = [one for one in first.data.rglob("*.json") if one.is_file()]
    assert kept
    assert secrets_in(*told, *kept, verified.stdout, verified.stderr) == []


def test_a_node_with_a_certificate(
    by: Callable[..., None],
    node: Callable[..., Server],
    secured: SecuredBroker,
    authority: Authority,
) -> None:
    shown = authority.shows("node", "node-1")
    by(security="ssl", username="", cert=str(shown.cert), key=str(shown.key))
    one = node("certified", secured.certified)
    learn(one.client(), LESSON)
    knows(one.client(), LESSON)


# --- those that do not ---------------------------------------------------------------------------


def refused(settings: Settings, caplog: pytest.LogCaptureFixture) -> str:
    """The sentence about a way that does not lead there; no secret is in it, or anywhere."""
    caplog.set_level(logging.DEBUG)

    async def opening() -> None:
        given = settings.brokers
        assert given is not None
        await KafkaLog.open(given, 1, prefix=settings.topics, timeout_s=60, way=way_of(settings))

    with pytest.raises(LogError) as caught:
        asyncio.run(opening())
    told = "".join(traceback.format_exception(caught.value))
    assert secrets_in(told, repr(caught.value), caplog.text) == []
    return str(caught.value)


@pytest.fixture
def good(secured: SecuredBroker, authority: Authority) -> Settings:
    return Settings(
        log=f"kafka://{secured.bootstrap}",
        topics=f"refused-{uuid.uuid4().hex[:12]}",
        kafka_security="sasl_ssl",
        kafka_username=USER,
        kafka_ca=str(authority.ca),
    )


def but(settings: Settings, **other: Any) -> Settings:
    return msgspec.structs.replace(settings, **other)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password(
    good: Settings,
    mechanism: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("MNEMOLOG_KAFKA_PASSWORD", WRONG)
    sentence = refused(but(good, kafka_mechanism=mechanism), caplog)
    assert f"refuses the password of '{USER}'" in sentence


def test_somebody_whom_it_does_not_know(good: Settings, caplog: pytest.LogCaptureFixture) -> None:
    sentence = refused(but(good, kafka_username="nobody"), caplog)
    assert "refuses the password of 'nobody', or does not know that name" in sentence


def test_a_mechanism_that_it_does_not_have(
    good: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = refused(but(good, kafka_mechanism="SCRAM-SHA-256"), caplog)
    assert "does not know SCRAM-SHA-256: set kafka_mechanism" in sentence


@pytest.mark.parametrize("ca", ["", "of a stranger"])
def test_a_certificate_that_nobody_vouches_for(
    good: Settings, stranger: Authority, ca: str, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = refused(but(good, kafka_ca=str(stranger.ca) if ca else ""), caplog)
    assert "shows a certificate that is not trusted" in sentence
    assert "kafka_ca" in sentence


def test_a_certificate_for_another_name(
    good: Settings, secured: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = refused(but(good, log=f"kafka://127.0.0.1:{secured.port}"), caplog)
    assert f"Kafka at 127.0.0.1:{secured.port} shows a certificate for another name" in sentence


def test_a_broker_that_calls_itself_by_another_name(
    good: Settings, secured: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    settings = but(good, log=f"kafka://{NAME}:{secured.astray}")
    sentence = refused(settings, caplog)
    assert f"Kafka at 127.0.0.1:{secured.astray} shows a certificate for another name" in sentence
    assert "advertised.listeners" in sentence


def test_tls_where_there_is_none(
    good: Settings, secured: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = refused(but(good, log=f"kafka://{NAME}:{secured.in_the_clear}"), caplog)
    assert "it may speak none there" in sentence


@pytest.mark.parametrize("security", ["plaintext", "sasl_plaintext"])
def test_in_the_clear_where_there_is_tls(
    good: Settings, security: str, caplog: pytest.LogCaptureFixture
) -> None:
    user = USER if security == "sasl_plaintext" else ""
    settings = but(good, kafka_security=security, kafka_username=user, kafka_ca="")
    assert "it may want TLS there" in refused(settings, caplog)


def test_no_certificate_where_one_is_asked_for(
    good: Settings, secured: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    place = f"kafka://{NAME}:{secured.certified}"
    sentence = refused(but(good, log=place, kafka_security="ssl", kafka_username=""), caplog)
    assert "kafka_cert" in sentence


def test_a_password_where_a_certificate_is_asked_for(
    good: Settings, secured: SecuredBroker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    shown = authority.shows("other", "node-2")
    place = f"kafka://{NAME}:{secured.certified}"
    given = {"kafka_cert": str(shown.cert), "kafka_key": str(shown.key)}
    sentence = refused(but(good, log=place, **given), caplog)
    assert "set kafka_security to ssl or plaintext" in sentence


def test_a_node_with_a_wrong_password_ends(
    secured: SecuredBroker,
    by: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    by()
    monkeypatch.setenv("MNEMOLOG_KAFKA_PASSWORD", WRONG)
    log = ("--log", f"kafka://{secured.bootstrap}", "--port", "0", "--model", "none")
    process = start("serve", "--data", str(tmp_path / "data"), *log, stderr=subprocess.PIPE)
    _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert b"refuses the password" in told
    assert secrets_in(told.decode()) == []


# --- settings ------------------------------------------------------------------------------------


SASL: dict[str, Any] = {"log": "kafka://127.0.0.1:1", "kafka_username": USER}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kafka_security": "sasl_ssl", "kafka_username": ""}, "give kafka_username"),
        ({"kafka_security": "ssl"}, "set kafka_security to sasl_ssl"),
        ({"kafka_security": "plaintext"}, "set kafka_security to sasl_plaintext"),
        ({"kafka_security": "sasl_plaintext", "kafka_ca": "ca"}, "set kafka_security to sasl_ssl"),
        ({"kafka_security": "sasl_ssl", "kafka_ca": "/gone"}, "kafka_ca: /gone cannot be read"),
        ({"kafka_security": "sasl_ssl", "kafka_ca": __file__}, "holds no certificate in PEM"),
        ({"kafka_security": "sasl_ssl", "kafka_key": "key"}, "no kafka_cert"),
        ({"kafka_security": "sasl_ssl", "kafka_cert": "/gone"}, "kafka_cert: /gone is not there"),
        ({"kafka_security": "sasl_ssl", "kafka_cert": __file__}, "no certificate with its key"),
    ],
)
def test_settings_that_do_not_go_together(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        way_of(but(Settings(**SASL), **given))
    assert PASSWORD not in str(caught.value)


def test_the_key_of_another_certificate(authority: Authority) -> None:
    one, other = authority.shows("one", "one"), authority.shows("another", "another")
    mixed = Shown(one.cert, other.key, one.both)
    settings = but(
        Settings(**SASL),
        kafka_security="sasl_ssl",
        kafka_cert=str(mixed.cert),
        kafka_key=str(mixed.key),
    )
    with pytest.raises(SettingsError, match="is not the one of the certificate"):
        way_of(settings)


@pytest.mark.parametrize(("host", "warned"), [("10.0.0.7", True), ("[::1]", False)])
def test_a_password_in_the_clear_over_a_network_is_warned_of(
    host: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = f"kafka://127.0.0.1:9092,{host}:9092"
    way = way_of(but(Settings(**SASL), kafka_security="sasl_plaintext", log=log))
    assert bool(caplog.records) is warned
    assert ("in the clear" in caplog.text) is warned
    assert PASSWORD not in caplog.text + repr(way) + str(vars(Settings)) + repr(load())


def test_a_password_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "password"
    monkeypatch.setenv("MNEMOLOG_KAFKA_PASSWORD_FILE", str(file))
    with pytest.raises(SettingsError, match="are both given"):
        kafka_password()
    monkeypatch.delenv("MNEMOLOG_KAFKA_PASSWORD")
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        kafka_password()
    for wrong in (b"", b"\n", b"x" * 10_000, b"\xff\xfe"):
        file.write_bytes(wrong)
        with pytest.raises(SettingsError, match="MNEMOLOG_KAFKA_PASSWORD_FILE"):
            kafka_password()
    file.write_text(" a word\r\n")
    assert kafka_password() == " a word"
