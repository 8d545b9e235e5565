"""The wheel, installed where nothing of the checkout is: it is all that running the service takes.

The packages that it needs are those of the running interpreter, named in a `.pth` file of the new
environment. Directories that come from a `.pth` file are not looked through for others, so how the
checkout itself is installed does not reach there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.contract.container_files import ROOT
from tests.e2e import conftest as processes
from tests.e2e.conftest import Server, StdioClient

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
FOLDERS = ("events", "infra", "projections", "services")
BUILD_S = 120


def run(*command: str | Path, cwd: Path) -> str:
    """What a command says; it has to end well."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, kind: str, target: Path) -> Path:
    """A distribution of `source`; nothing is left beside it."""
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", target, cwd=source)
    (made,) = target.iterdir()
    return made


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as packed:
        return sorted(packed.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel alone, which sees the packages that it needs."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place.parent)
    python = place / "bin" / "python"
    install = ("install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "--python", python, *install, wheel, cwd=place.parent)
    needed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site_packages(place) / "needed.pth").write_text("".join(f"{one}\n" for one in needed))
    return place


def site_packages(environment: Path) -> Path:
    (found,) = (environment / "lib").glob("python*/site-packages")
    return found


@pytest.fixture
def outside(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the tests start is what the wheel installed, in a directory outside the checkout."""
    monkeypatch.setattr(processes, "MNEMOLOG", environment / "bin" / "mnemolog")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    assert not tmp_path.is_relative_to(ROOT)
    return tmp_path


def test_it_holds_one_package_with_all_that_is_ours(wheel: Path) -> None:
    found = names(wheel)
    assert {name.split("/")[0] for name in found} == {
        "mnemolog",
        f"mnemolog-{VERSION}.dist-info",
    }
    ours = {
        f"mnemolog/{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".xml", ".js", ".json", ".yml")
    }
    packed = {name for name in found if name.startswith("mnemolog/")}
    assert packed == ours | {"mnemolog/__init__.py"}
    assert {"mnemolog/infra/kafka/pom.xml", "mnemolog/infra/sandbox/bootstrap.js"} <= packed


def test_one_that_is_made_from_the_source_distribution_is_the_same(
    wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(build(ROOT, "sdist", tmp_path / "sdist")) as packed:
        packed.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert names(build(source, "wheel", tmp_path / "wheel")) == names(wheel)


def test_nothing_of_the_checkout_is_seen(environment: Path, outside: Path) -> None:
    script = """
import importlib.util, json, sys, mnemolog, mnemolog.services.cli.main, mnemolog.events.envelope

def origin(name):
    found = importlib.util.find_spec(name)
    return None if found is None else [found.origin, *(found.submodule_search_locations or ())]

wanted = ("events", "services", "projections", "infra", "tests", "benchmarks")
loaded = [one.__file__ for name, one in sys.modules.items() if name.split(".")[0] == "mnemolog"]
print(json.dumps({"path": sys.path, "loaded": loaded, "others": {n: origin(n) for n in wanted}}))
"""
    told: dict[str, Any] = json.loads(
        run(environment / "bin" / "python", "-c", script, cwd=outside)
    )
    assert not {str(ROOT), str(ROOT / "mnemolog")} & set(map(os.path.realpath, told["path"]))
    assert all(Path(one).is_relative_to(site_packages(environment)) for one in told["loaded"])
    for name in FOLDERS:
        assert told["others"][name] is None, name
    for name in ("tests", "benchmarks"):  # Packages of others may bring one along.
        places = [Path(one).resolve() for one in told["others"][name] or () if one is not None]
        assert not any(one.is_relative_to(ROOT / name) for one in places), places


def test_it_serves(outside: Path) -> None:
    server = Server(outside / "data", "--model", "none")
    try:
        client = server.client()
        learned = client.ok("learn", {"insight": "grip_force=12.5N is best for cups"})
        found = client.ok("recall", {"query": "best for cups"})
        assert [one["id"] for one in found["memories"]] == [learned["memory_id"]]
        assert found["mode"] == "bm25_only"
    finally:
        assert server.stop() == 0


def test_it_speaks_over_stdio(outside: Path) -> None:
    client = StdioClient(outside / "data", "--model", "none")
    try:
        told = client.initialize()["result"]["serverInfo"]
        assert (told["name"], told["version"]) == ("mnemolog", VERSION)
        client.ok("create_entities", {"entities": [{"name": "A", "observations": ["x"]}]})
        assert client.ok("open_nodes", {"names": ["A"]})["entities"][0]["observations"] == ["x"]
    finally:
        assert client.close() == 0


def test_the_broker_is_there_with_what_it_is_fetched_by(environment: Path, outside: Path) -> None:
    python = environment / "bin" / "python"
    assert "A real Kafka broker" in run(
        python, "-m", "mnemolog.infra.kafka.broker", "--help", cwd=outside
    )
    assert (site_packages(environment) / "mnemolog" / "infra" / "kafka" / "pom.xml").is_file()
