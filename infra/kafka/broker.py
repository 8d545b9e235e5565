"""A real Kafka broker on this machine's loopback, without a container.

Its jars come once through Maven into the user's cache. `Broker` is what the tests start and stop;
`python -m mnemolog.infra.kafka.broker` runs one in the foreground. It ends with the process that
started it, however that ends. One node, broker and controller in one (KRaft), a heap of at most
512 MB. For development and tests: one copy of everything.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

import click
import platformdirs
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from mnemolog.infra import maven
from mnemolog.infra.directory import OTHERS
from mnemolog.infra.kafka.minder import Minder
from mnemolog.infra.log.kafka_way import PLAIN, Way

VERSION: Final = "4.1.1"
HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 180
STOP_TIMEOUT_S: Final = 20
FETCH_TIMEOUT_S: Final = 600
LOOK_EVERY_S: Final = 0.5
_HERE: Final = Path(__file__).parent
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


class BrokerError(Exception):
    """The broker cannot be had; the sentence says what to do."""


def jars() -> Path:
    """The folder with Kafka's jars; fetched when it is not there yet, by one process at a time."""
    place = platformdirs.user_cache_path("mnemolog", appauthor=False) / "kafka" / VERSION
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.is_dir():
            return place
        fetched = Path(tempfile.mkdtemp(prefix=f"{VERSION}-", dir=place.parent))
        try:
            _maven(fetched)
            fetched.rename(place)
        finally:
            shutil.rmtree(fetched, ignore_errors=True)
    return place


def _maven(target: Path) -> None:
    command = [
        _program("mvn", "Maven (the package 'maven')"),
        *maven.OPTIONS,
        f"--file={_HERE / 'pom.xml'}",
        f"-Dkafka.version={VERSION}",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={target}",
        f"{maven.DEPENDENCY_PLUGIN}:copy-dependencies",
    ]
    # In the empty folder: where somebody stands there may be options and extensions for Maven.
    _run(command, FETCH_TIMEOUT_S, f"Maven could not fetch Kafka {VERSION}", target)


def _run(command: list[str], timeout_s: float, failure: str, cwd: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            umask=OTHERS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BrokerError(f"{failure} within {timeout_s:g} s") from error
    if done.returncode != 0:
        raise BrokerError(f"{failure}:\n{done.stdout[-2000:]}")


def _program(name: str, install: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise BrokerError(
            f"Kafka needs the program '{name}', which is not there: install {install}"
        )
    return found


def _java() -> str:
    return _program("java", "a Java runtime, 17 or newer (the package 'openjdk-17-jre-headless')")


class Broker:
    """A broker on `port` with its data in `data`; a free port and a temporary folder by default.

    `start` returns when it answers. It may be stopped and started again: same address, same data.
    A temporary folder is removed by `close`, or at the end of the `with` block.
    """

    way: Way = PLAIN
    """How it is reached."""

    def __init__(self, data: Path | None = None, port: int | None = None) -> None:
        self._temporary = data is None
        self.data = data or Path(tempfile.mkdtemp(prefix="mnemolog-kafka-"))
        self.port, self._controller_port = _ports(port)
        self.process: subprocess.Popen[bytes] | None = None
        self._minder: Minder | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Broker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        if self.process is not None:
            raise BrokerError("The broker was started already")
        java, classes = _java(), f"{jars()}/*"
        for port in (self.port, self._controller_port):
            if _taken(port):
                raise BrokerError(f"Port {port} of {HOST} is taken: another Kafka may be running")
        self.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings = self.data / "server.properties"
        given = self.settings()
        settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        if not (self.data / "log" / "meta.properties").exists():
            _format(java, classes, settings, self.users())
        with self._output.open("wb") as output:
            # A session of its own: Ctrl-C reaches it through `stop` alone, once.
            self.process = subprocess.Popen(
                [
                    java,
                    "-Xms128m",
                    "-Xmx512m",
                    "-XX:+UseSerialGC",
                    # One that lives for seconds is up sooner when little is compiled.
                    *(["-XX:TieredStopAtLevel=1"] if self._temporary else []),
                    _QUIET,
                    "-cp",
                    classes,
                    "kafka.Kafka",
                    str(settings),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=OTHERS,
            )
        self._minder = Minder(self.process.pid)
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def settings(self) -> dict[str, str]:
        """What Kafka is told; one for other purposes says more."""
        return _settings(self.data, self.port, self._controller_port)

    def users(self) -> list[str]:
        """Whom it knows from the beginning, as Kafka's tool writes it."""
        return []

    def stop(self) -> None:
        """End it cleanly; what does not end in time is killed."""
        process, self.process = self.process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._ended()

    def kill(self) -> None:
        """End it as a power cut would."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            self._ended()

    def close(self) -> None:
        self.stop()
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def _ended(self) -> None:
        if self._minder is not None:
            self._minder.release()
            self._minder = None

    @property
    def _output(self) -> Path:
        return self.data / "broker.log"

    def _wait(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                said = self._output.read_text(errors="replace")[-2000:]
                raise BrokerError(f"Kafka ended while it was starting:\n{said}")
            if _taken(self.port) and asyncio.run(_answers(self.bootstrap, self.way)):
                return
            time.sleep(0.1)
        raise BrokerError(f"Kafka did not answer within {START_TIMEOUT_S} s; see {self._output}")


def _settings(data: Path, port: int, controller_port: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data / "log"),
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # After a kill, the next start waits until the one before counts as gone.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "1000",
    }


def _format(java: str, classes: str, settings: Path, users: list[str]) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", _QUIET, "-cp", classes]
    arguments = ["format", f"--cluster-id={cluster}", f"--config={settings}"]
    arguments += [f"--add-scram={user}" for user in users]
    command = [*tool, "kafka.tools.StorageTool", *arguments]
    _run(command, START_TIMEOUT_S, "Kafka's data folder could not be made")


async def _answers(bootstrap: str, way: Way) -> bool:
    """Whether clients can be served: the broker counts itself as part of its cluster."""
    admin = AIOKafkaAdminClient(
        bootstrap_servers=bootstrap, request_timeout_ms=2000, **way.arguments()
    )
    try:
        await admin.start()
        return bool((await admin.describe_cluster())["brokers"])
    except (KafkaError, OSError, TimeoutError):
        return False
    finally:
        await admin.close()


def _ports(port: int | None) -> tuple[int, int]:
    """The port asked for, or a free one, and a free one for the controller."""
    with socket.socket() as first, socket.socket() as second:
        first.bind((HOST, 0))
        second.bind((HOST, 0))
        return port or first.getsockname()[1], second.getsockname()[1]


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _wait_for(process: subprocess.Popen[bytes], parent: int | None) -> int:
    """The code it ends with. When `parent` is gone before that, it is as if by Ctrl-C."""
    while True:
        try:
            return process.wait(LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            if parent not in (None, os.getppid()):
                raise KeyboardInterrupt from None


@click.command()
@click.option("--port", default=9092, show_default=True, type=click.IntRange(1, 65535))
@click.option(
    "--data",
    default=Path(".cache") / "kafka",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where its data is kept between starts; .cache/kafka here by default.",
)
@click.option("--with-parent", is_flag=True, help="End when whoever started this has ended.")
def main(port: int, data: Path, with_parent: bool) -> None:
    """A real Kafka broker on 127.0.0.1, in the foreground, until Ctrl-C."""
    parent = os.getppid() if with_parent else None

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    broker = Broker(data.absolute(), port)
    try:
        click.echo(f"Starting Kafka {VERSION}; the first time, its jars are fetched")
        broker.start()
        assert broker.process is not None
        click.echo(f"Kafka answers on {broker.bootstrap}; data in {data}; Ctrl-C ends it")
        code = _wait_for(broker.process, parent)
        raise click.ClickException(f"Kafka ended by itself with code {code}; see {data}/broker.log")
    except BrokerError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo(f"{os.linesep}Stopping Kafka")
    finally:
        # A second Ctrl-C must not cut the clean end short: it is limited in time anyway.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        broker.close()


if __name__ == "__main__":
    main()
