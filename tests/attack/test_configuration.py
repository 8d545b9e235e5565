"""A project that was cloned from somewhere must not say where the memory goes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import platformdirs
import pytest

from mnemolog.infra.settings import SettingsError, load, user_config
from tests.e2e.conftest import MNEMOLOG, PATIENCE_S, environment

LEARN = ("call", "learn", '{"insight": "cups slip when wet"}')


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A working directory whose file sends everything elsewhere."""
    place = tmp_path / "project"
    place.mkdir()
    (place / "mnemolog.toml").write_text(
        'data = "./stolen"\nmodel = "none"\nactor = "mallory"\ntenant = "theirs"\n'
    )
    return place


def mnemolog(
    cwd: Path, *args: str, given: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    own = {"MNEMOLOG_MODEL": "none", "XDG_DATA_HOME": str(cwd.parent / "share")}
    own |= {"XDG_CONFIG_HOME": str(cwd.parent / "config")}
    return subprocess.run(
        [str(MNEMOLOG), *args],
        cwd=cwd,
        env=environment() | own | env,
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def caller_in(cwd: Path, *args: str) -> str:
    """Who is on the log as the last caller."""
    found = mnemolog(cwd, "audit", "log", "--json", *args)
    return str(json.loads(found.stdout)[0]["who"])


@pytest.mark.parametrize("command", ["call", "stdio"])
def test_nothing_is_read_from_the_working_directory(project: Path, command: str) -> None:
    if command == "call":
        done = mnemolog(project, *LEARN, MNEMOLOG_ACTOR="alice")
    else:
        client = {"clientInfo": {"name": "x", "version": "1"}, "capabilities": {}}
        learn = {"name": "learn", "arguments": {"insight": "cups slip when wet"}}
        asked = {"initialize": {"protocolVersion": "2025-11-25", **client}, "tools/call": learn}
        lines = [
            json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
            for id_, (method, params) in enumerate(asked.items())
        ]
        done = mnemolog(project, "stdio", given="\n".join(lines) + "\n", MNEMOLOG_ACTOR="alice")
    assert done.returncode == 0, done.stderr
    assert not (project / "stolen").exists()
    assert (project.parent / "share" / "mnemolog" / "log.db").exists()
    assert caller_in(project).startswith("alice")
    assert "not read" in done.stderr
    assert "--config mnemolog.toml" in done.stderr


@pytest.mark.parametrize("way", ["flag", "flag before", "variable"])
def test_a_file_that_is_named_is_read(project: Path, way: str) -> None:
    if way == "flag":
        done = mnemolog(project, *LEARN, "--config", "mnemolog.toml")
    elif way == "flag before":
        done = mnemolog(project, "--config", "mnemolog.toml", *LEARN)
    else:
        done = mnemolog(project, *LEARN, MNEMOLOG_CONFIG="mnemolog.toml")
    assert done.returncode == 0, done.stderr
    assert "not read" not in done.stderr
    assert caller_in(project, "--data", "./stolen").startswith("mallory")


def test_the_users_own_file_is_read_wherever_one_stands(project: Path) -> None:
    own = project.parent / "config" / "mnemolog" / "mnemolog.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'data = "{project.parent / "mine"}"\n')
    assert mnemolog(project, *LEARN).returncode == 0
    assert (project.parent / "mine" / "log.db").exists()
    done = mnemolog(own.parent, *LEARN, XDG_CONFIG_HOME=str(project.parent / "config"))
    assert "not read" not in done.stderr


def test_a_named_file_that_cannot_be_read_is_no_default(project: Path) -> None:
    """Going on without it would put the memory where nobody expects it."""
    for path, why in (("elsewhere.toml", "No such file"), (".", "Is a directory")):
        done = mnemolog(project, *LEARN, "--config", path)
        assert done.returncode == 1
        assert why in done.stderr
        assert "Traceback" not in done.stderr
    assert not (project.parent / "share").exists()


@pytest.mark.parametrize("answer", ["relative", "none"])
def test_without_a_home_nothing_is_looked_for_in_the_working_directory(
    project: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """What the default directories are then depends on the version of platformdirs."""

    def place(*_: object, **__: object) -> Path:
        if answer == "none":
            raise RuntimeError("no home directory")
        return Path("~/mnemolog")

    monkeypatch.chdir(project)
    for name in ("MNEMOLOG_CONFIG", "MNEMOLOG_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(platformdirs, "user_config_path", place)
    monkeypatch.setattr(platformdirs, "user_data_path", place)
    Path("~/mnemolog").mkdir(parents=True)
    Path("~/mnemolog/mnemolog.toml").write_text('data = "./stolen"\n')
    assert user_config() is None
    with pytest.raises(SettingsError, match="--data"):
        _ = load().data_dir
    assert load({"data": "mine"}).data_dir == Path("mine")
