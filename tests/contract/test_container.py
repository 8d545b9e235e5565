"""The container files against the code. No container runs here, so whatever they name has to be
there: commands, flags, settings, paths, ports, routes; and what can be run without one is run."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mnemolog.infra.container import locked
from mnemolog.infra.embedder.catalogue import CATALOGUE, DEFAULT_MODEL
from mnemolog.infra.embedder.store import ENV_HUB
from mnemolog.infra.kafka import broker as broker_module
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.infra.log.kafka_topics import MAX_MESSAGE_BYTES
from mnemolog.infra.settings import Settings, load, qdrant_api_key
from mnemolog.services.cli.main import cli
from mnemolog.services.decider.decide import MAX_DECISION_BYTES
from mnemolog.services.gateway.identity import VERSION
from mnemolog.services.gateway.tools import Offer
from mnemolog.services.node.vectors.opening import checked_url
from tests import families
from tests.conftest import start_broker
from tests.contract import container_files as files
from tests.contract.container_files import ROOT
from tests.e2e.conftest import PATIENCE_S, Server
from tests.ports import HeldPort

SERVICES = sorted(files.services())
NODES = sorted(files.nodes())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()


# --- what is run ---------------------------------------------------------------------------------


def parsed(words: list[str]) -> tuple[click.Command, dict[str, Any]]:
    """A command line of ours as click takes it; a flag that is not there is an error."""
    ctx = cli.make_context("mnemolog", list(words))
    command: click.Command = cli
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        assert found is not None and name is not None
        ctx = found.make_context(name, rest, parent=ctx)
        command = found
    return command, ctx.params


def command_of(service: dict[str, Any]) -> list[str]:
    """What a node's container runs: the image's entry point, with the service's own command."""
    (entry,) = files.steps("ENTRYPOINT")
    assert entry.words() == ["mnemolog"]
    return list(service["command"])


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Settings:
    """What a node of the compose file runs with."""
    service = files.services()[request.param]
    for name, value in {**files.image_environment(), **service["environment"]}.items():
        monkeypatch.setenv(name, files.GIVEN.sub("a-key", value))
    command, flags = parsed(command_of(service))
    assert command.name == "serve"
    return load(flags)


@pytest.mark.parametrize("settings", NODES, indirect=True)
def test_a_node_of_the_compose_file_has_settings_that_hold(settings: Settings) -> None:
    assert settings.brokers is not None
    assert settings.roles
    assert Offer(families.CATALOGUE, settings.families).families
    assert settings.model in CATALOGUE
    assert settings.host == "0.0.0.0", "on its loopback, nobody outside the container reaches it"
    checked_url(settings.vectors)
    assert qdrant_api_key() == "a-key"


def test_the_image_alone_serves_too() -> None:
    (step,) = files.steps("CMD")
    command, flags = parsed(step.words())
    assert command.name == "serve"
    assert flags["host"] == "0.0.0.0"


def test_the_build_runs_programs_that_are_there() -> None:
    ours = [
        words
        for step in files.steps("RUN")
        for words in files.commands(step)
        if words[0].endswith("/mnemolog")
    ]
    assert ours, "the model is pulled"
    for words in ours:
        command, given = parsed(words[1:])
        assert command.name == "pull"
        assert given["name"] == DEFAULT_MODEL
        assert str(given["models_dir"]) == files.image_environment()["MNEMOLOG_MODELS"]


def test_every_setting_in_them_exists() -> None:
    known = {f"MNEMOLOG_{name.upper()}" for name in Settings.__struct_fields__}
    known.add("MNEMOLOG_QDRANT_API_KEY")
    for file in ("Dockerfile", "docker-compose.yml"):
        named = set(re.findall(r"MNEMOLOG_[A-Z_]+", (ROOT / file).read_text()))
        assert named
        assert named <= known, named - known
    assert {one.text for one in files.steps("ARG")} == {ENV_HUB}


# --- the image -----------------------------------------------------------------------------------


def test_what_is_copied_is_there_and_not_ignored() -> None:
    copied = set()
    for step in files.steps("COPY"):
        *sources, _ = [word for word in step.words() if not word.startswith("--")]
        if "--from=build" in step.words():
            continue
        copied.update(sources)
        for source in sources:
            assert (ROOT / source).exists(), source
            assert files.let_through(source), source
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(wheel["packages"]) <= copied, "the wheel needs all of its packages"
    assert {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]} <= copied


def test_what_the_last_stage_takes_was_made_in_the_first() -> None:
    made = " ".join(one.text for one in files.steps("RUN", 0))
    for step in files.steps("COPY", files.last_stage()):
        assert "--from=build" in step.words()
        source, target = [word for word in step.words() if not word.startswith("--")]
        assert source == target, "an environment of Python does not work at another place"
        assert f" {source}" in made
    assert "/opt/mnemolog/bin:$PATH" in files.image_environment()["PATH"]
    assert [one.text.split()[0] for one in files.steps("FROM")] == 2 * [
        files.steps("FROM")[0].text.split()[0]
    ]


def test_everything_is_installed_by_hash() -> None:
    pips = [
        words
        for step in files.steps("RUN")
        for words in files.commands(step)
        if words[0].endswith("/pip")
    ]
    assert pips
    for words in pips:
        assert "--require-hashes" in words or {"--no-deps", "--no-index"} <= set(words)


def test_it_does_not_run_as_root_and_owns_its_data() -> None:
    stage = files.last_stage()
    after = [one.name for one in files.dockerfile() if one.stage == stage]
    assert after.index("USER") < after.index("ENTRYPOINT")
    (user,) = files.steps("USER", stage)
    uid = user.text.split(":")[0]
    assert uid.isdigit() and int(uid) > 0
    made = [words for step in files.steps("RUN", stage) for words in files.commands(step)]
    useradd = next(words for words in made if words[0] == "useradd")
    assert useradd[useradd.index("--uid") + 1] == uid
    data = files.image_environment()["MNEMOLOG_DATA"]
    install = next(words for words in made if words[0] == "install")
    assert install[-1] == data and install[install.index("--owner") + 1] == useradd[-1]
    assert [one.text for one in files.steps("VOLUME", stage)] == [data]


def test_the_image_has_what_runs_and_not_what_develops() -> None:
    """What locked.py picks is what the installed packages say they need, here and now."""
    picked = {
        locked._named(one) for one in locked.closure(LOCK, PROJECT["project"]["dependencies"])
    }
    needed: set[tuple[str, str]] = set()
    waiting = [Requirement(one) for one in PROJECT["project"]["dependencies"]]
    while waiting:
        one = waiting.pop()
        for extra in ("", *one.extras):
            if (key := (canonicalize_name(one.name), extra)) in needed:
                continue
            needed.add(key)
            children = map(Requirement, metadata.requires(one.name) or ())
            waiting += [
                child
                for child in children
                if child.marker is None or child.marker.evaluate({"extra": extra})
            ]
    names = {name for name, _ in needed}
    assert names <= picked, names - picked
    installed = {canonicalize_name(one.name) for one in metadata.distributions()}
    assert picked & installed <= names, (picked & installed) - names
    assert not picked & {"pytest", "mypy", "ruff", "hypothesis"}


def test_every_version_of_a_package_is_picked() -> None:
    """One that is locked for older and newer Pythons apart is in the lock twice."""
    entries = [name for name, _ in locked.entries(LOCK)]
    assert len(entries) == len(re.findall(r"^[a-z0-9].*==", LOCK, flags=re.MULTILINE))
    picked = [locked._named(one) for one in locked.closure(LOCK, ["numpy"])]
    assert picked == [name for name in entries if name == "numpy"]


def test_what_builds_the_wheel_is_locked() -> None:
    (backend,) = PROJECT["build-system"]["requires"]
    name = locked._named(backend)
    assert f"locked.py {name} " in "".join(one.text for one in files.steps("RUN", 0))
    assert name in {locked._named(one) for one in locked.closure(LOCK, [name])}
    with pytest.raises(SystemExit, match="not in the lock: no-such-thing"):
        locked.closure(LOCK, ["no-such-thing"])


# --- versions ------------------------------------------------------------------------------------


def test_every_image_is_pinned_to_the_version_that_the_code_is_for() -> None:
    images = {name: one["image"] for name, one in files.services().items()}
    images["build"] = files.steps("FROM")[0].text.split()[0]
    for name, image in images.items():
        tag = image.partition(":")[2]
        assert re.match(r"v?\d+\.\d+\.\d+(-|$)", tag), f"{name}: {image}"
    assert images["kafka"] == f"apache/kafka:{broker_module.VERSION}"
    client = re.search(r"^qdrant-client==(\d+\.\d+)\.", LOCK, flags=re.MULTILINE)
    assert client is not None
    assert images["qdrant"].startswith(f"qdrant/qdrant:v{client[1]}.")
    assert {images[name] for name in NODES} == {f"mnemolog:{VERSION}"}
    python = images["build"].removeprefix("python:")
    assert python.startswith(PROJECT["project"]["requires-python"].removeprefix(">="))


# --- health --------------------------------------------------------------------------------------


def image_check() -> list[str]:
    (step,) = files.steps("HEALTHCHECK")
    return files.Step(0, "CMD", step.text.partition("CMD ")[2]).words()


def qdrant_check() -> list[str]:
    kind, *words = files.services()["qdrant"]["healthcheck"]["test"]
    assert kind == "CMD"
    return [word.replace("$$", "$") for word in words]


def passes(command: list[str], port: int, url: str) -> bool:
    """Run a check that was written for `port` on the server at `url`."""
    actual = url.rsplit(":", 1)[1]
    moved = [re.sub(rf"(?<=127\.0\.0\.1[:/]){port}", actual, word) for word in command]
    assert moved != command
    if moved[0] == "python":
        moved[0] = sys.executable
    return (
        subprocess.run(moved, capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0
    )


def test_the_health_checks_tell_what_serves_from_what_does_not(tmp_path: Path) -> None:
    port = Settings().port
    assert [one.text for one in files.steps("EXPOSE")] == [str(port)]
    server = Server(tmp_path / "data", "--host", "0.0.0.0", "--insecure", "--model", "none")
    try:
        assert passes(image_check(), port, server.url)
        wrong = [word.replace("/healthz", "/no-such-route") for word in image_check()]
        assert not passes(wrong, port, server.url)
        # The route that Qdrant's check asks for is here, too.
        assert passes(qdrant_check(), 6333, server.url)
        nowhere = [word.replace("/readyz", "/no-such-route") for word in qdrant_check()]
        assert not passes(nowhere, 6333, server.url)
    finally:
        server.stop()
    nobody = HeldPort(int(server.url.rsplit(":", 1)[1]))
    assert not passes(image_check(), port, nobody.url)
    assert not passes(qdrant_check(), 6333, nobody.url)
    nobody.release()


def test_a_node_in_a_container_is_reached_by_its_names(tmp_path: Path) -> None:
    """From this machine through a published port, and by other containers as the compose file calls
    it; not by a name that somebody pointed at it."""
    listed = files.nodes()["node1"]["environment"]["MNEMOLOG_ALLOWED_HOSTS"]
    assert sorted(listed.split(",")) == NODES
    env = {"MNEMOLOG_ALLOWED_HOSTS": listed}
    server = Server(
        tmp_path / "data", "--host", "0.0.0.0", "--insecure", "--model", "none", env=env
    )

    def asked_as(host: str) -> bytes:
        asked = urllib.request.Request(
            f"{server.url}/mcp",
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
            {"host": host, "content-type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            found: bytes = answer.read()
        return found

    try:
        for host in (*(f"{name}:3000" for name in NODES), "127.0.0.1:3001", "localhost:3000"):
            assert b'"learn"' in asked_as(host)
        with pytest.raises(urllib.error.HTTPError, match="421"):
            asked_as("evil.example")
    finally:
        server.stop()


# --- compose -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_limited_checked_restarted_and_keeps_its_data(name: str) -> None:
    service = files.services()[name]
    limits = service["deploy"]["resources"]["limits"]
    assert float(limits["cpus"]) > 0
    assert re.fullmatch(r"\d+[mg]", limits["memory"])
    assert int(limits["pids"]) > 0
    assert service["restart"] == "unless-stopped"
    assert name in NODES or service["healthcheck"]["test"]
    (volume,) = service["volumes"]
    source, target = volume.split(":")
    assert source in files.compose()["volumes"]
    keeps = {
        "kafka": files.kafka_properties()["log.dirs"],
        "qdrant": "/qdrant/storage",
        **dict.fromkeys(NODES, files.image_environment()["MNEMOLOG_DATA"]),
    }
    assert target == keeps[name]


def test_no_two_services_share_a_volume_or_a_port() -> None:
    volumes = [one["volumes"][0].split(":")[0] for one in files.services().values()]
    assert sorted(volumes) == sorted(files.compose()["volumes"])
    published = [port for one in files.services().values() for port in one.get("ports", ())]
    assert len({port.rsplit(":", 1)[0] for port in published}) == len(published)


def test_ports_are_published_on_this_machine_alone_and_lead_to_listeners() -> None:
    listeners = files.addresses(files.kafka_properties()["listeners"])
    listens = {name: {str(Settings().port)} for name in NODES}
    listens["kafka"] = {address.split(":")[1] for address in listeners.values()}
    published = {name: one.get("ports", []) for name, one in files.services().items()}
    assert {name for name, ports in published.items() if ports} == {"kafka", *NODES}
    for name, ports in published.items():
        for port in ports:
            host, _, inside = port.split(":")
            assert host == "127.0.0.1", port
            assert inside in listens[name], port


def test_nodes_wait_for_what_they_need() -> None:
    assert len(NODES) == 2
    for name in NODES:
        waits = files.services()[name]["depends_on"]
        assert waits.keys() == set(SERVICES) - set(NODES)
        assert all(one == {"condition": "service_healthy"} for one in waits.values())


def test_secrets_come_from_the_environment() -> None:
    secret = re.compile("key|secret|password|token", re.IGNORECASE)
    given = {
        (name, variable): files.GIVEN.fullmatch(value)
        for name, service in files.services().items()
        for variable, value in service["environment"].items()
        if secret.search(variable)
    }
    assert all(given.values()), given
    assert {found[1] for found in given.values() if found} == {"MNEMOLOG_QDRANT_API_KEY"}
    assert {name for name, _ in given} == {"qdrant", *NODES}
    assert ("qdrant", "QDRANT__SERVICE__API_KEY") in given


# --- Kafka ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", NODES, indirect=True)
def test_nodes_ask_kafka_and_qdrant_where_they_are(settings: Settings) -> None:
    properties = files.kafka_properties()
    advertised = files.addresses(properties["advertised.listeners"])
    assert settings.brokers == advertised["NODES"]
    assert advertised["NODES"].split(":")[0] in files.services()
    (published,) = files.services()["kafka"]["ports"]
    assert advertised["HOST"] == published.rsplit(":", 1)[0]
    host, port = settings.vectors.removeprefix("http://").split(":")
    assert files.services()[host]["expose"] == [port]


def test_kafkas_listeners_fit_each_other() -> None:
    properties = files.kafka_properties()
    listeners = files.addresses(properties["listeners"])
    controller = properties["controller.listener.names"]
    assert (
        listeners.keys() - {controller}
        == files.addresses(properties["advertised.listeners"]).keys()
    )
    assert properties["inter.broker.listener.name"] in listeners
    protocols = dict(
        one.split(":") for one in properties["listener.security.protocol.map"].split(",")
    )
    assert protocols.keys() == listeners.keys()
    voter = properties["controller.quorum.voters"]
    assert voter == f"{properties['node.id']}@kafka:{listeners[controller].split(':')[1]}"
    kind, line = files.services()["kafka"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    asked = shlex.split(line)
    bootstrap = asked[asked.index("--bootstrap-server") + 1]
    assert bootstrap.split(":")[1] == listeners["HOST"].split(":")[1]


def test_kafka_takes_the_largest_record() -> None:
    properties = files.kafka_properties()
    assert int(properties["message.max.bytes"]) >= MAX_MESSAGE_BYTES > MAX_DECISION_BYTES
    assert int(properties["replica.fetch.max.bytes"]) >= MAX_MESSAGE_BYTES


@pytest.fixture
def composed_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[broker_module.Broker]:
    """A real broker with the compose file's settings, but for where it listens and keeps data."""

    def settings(data: Path, port: int, controller_port: int) -> dict[str, str]:
        inside = f"127.0.0.1:{port}"
        return files.kafka_properties() | {
            "log.dirs": str(data / "log"),
            "listeners": f"NODES://{inside},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"NODES://{inside}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        }

    monkeypatch.setattr(broker_module, "_settings", settings)
    started = start_broker()
    yield started
    started.close()


def test_a_real_broker_takes_these_settings(composed_broker: broker_module.Broker) -> None:
    moved = {"log.dirs", "listeners", "advertised.listeners", "controller.quorum.voters"}

    async def ask() -> dict[str, str]:
        bootstrap = composed_broker.bootstrap
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            node = ConfigResource(ConfigResourceType.BROKER, files.kafka_properties()["node.id"])
            (answer,) = await admin.describe_configs([node])
        finally:
            await admin.close()
        # The log is made by its own settings, and takes a record as large as a decision may be.
        log = await KafkaLog.open(bootstrap, 1)
        try:
            large = b"\0" * MAX_DECISION_BYTES
            assert await log.append_decisions(0, [("default/robot/a", large)]) == [0]
            (stored,) = await log.read_decisions(0, 0, 1)
            assert stored.data == large
        finally:
            await log.close()
        return {entry[0]: entry[1] for entry in answer.resources[0][4]}

    found = asyncio.run(ask())
    for name, value in files.kafka_properties().items():
        if name not in moved:
            assert found.get(name) == value, name
