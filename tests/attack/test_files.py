"""Other users of the machine can neither read the memory nor slip something into it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemolog.infra.directory import own_directory
from mnemolog.infra.settings import SettingsError
from tests.crash.process import Stdio
from tests.e2e.conftest import run
from tests.ports import HeldPort

NOBODY = 65534
LEARN = ("call", "learn", '{"insight": "cups slip when wet"}')


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """Everything is started by somebody who does not mind who reads along."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOLOG_MODEL", "none")


def open_to_others(root: Path) -> list[str]:
    """What others could open, were the directories above it open to them."""
    every = [root, *root.rglob("*")]
    return [str(one) for one in every if stat.S_IMODE(one.lstat().st_mode) & 0o077]


@pytest.mark.parametrize("made", ["by the service", "before"])
def test_everything_in_the_data_directory_is_its_users_alone(tmp_path: Path, made: str) -> None:
    data = tmp_path / "data"
    if made == "before":
        data.mkdir(mode=0o755)
    with Stdio(data) as client:
        client.call("learn", {"insight": "cups slip when wet"})
        client.call("create_entities", {"entities": [{"name": "cup", "entityType": "thing"}]})
        assert (data / "log.db-wal").exists()
        assert open_to_others(data) == []
        assert client.finish() == 0
    assert (data / "projections").is_dir()
    assert open_to_others(data) == []


def test_what_an_earlier_version_left_open_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert run(*LEARN, "--data", str(data)).returncode == 0
    for one in (data, data / "log.db", data / "projections"):
        one.chmod(0o755)
    assert run(*LEARN, "--data", str(data)).returncode == 0
    assert open_to_others(data) == []


def test_a_directory_with_other_things_in_it_is_left_as_it_is(tmp_path: Path) -> None:
    """It may be somebody's home: whoever else works in it would be shut out."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "letters").mkdir()
    done = run(*LEARN, "--data", str(home))
    assert done.returncode == 1
    assert "open to other users" in done.stderr and "letters" in done.stderr
    assert [one.name for one in home.iterdir()] == ["letters"]
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
    home.chmod(0o700)
    assert run(*LEARN, "--data", str(home)).returncode == 0


@pytest.mark.parametrize("owned", ["the directory", "its log", "its lock, a link"])
def test_what_belongs_to_another_user_is_refused_by_root_too(tmp_path: Path, owned: str) -> None:
    data, precious = tmp_path / "data", tmp_path / "precious"
    precious.write_text("mine")
    data.mkdir(mode=0o777)
    if owned == "the directory":
        os.chown(data, NOBODY, NOBODY)
    elif owned == "its log":
        (data / "log.db").touch()
        os.chown(data / "log.db", NOBODY, NOBODY)
    else:
        (data / "lock").symlink_to(precious)
        os.chown(data / "lock", NOBODY, NOBODY, follow_symlinks=False)
    before = sorted(one.name for one in data.iterdir())
    done = run(*LEARN, "--data", str(data))
    assert done.returncode == 1
    assert f"belongs to user {NOBODY}" in done.stderr
    assert sorted(one.name for one in data.iterdir()) == before
    assert precious.read_text() == "mine"


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """The holder empties it to write its number there."""
    data, precious = tmp_path / "data", tmp_path / "precious"
    precious.write_text("mine")
    data.mkdir(mode=0o700)
    (data / "lock").symlink_to(precious)
    assert run(*LEARN, "--data", str(data)).returncode == 1
    assert precious.read_text() == "mine"


def test_projections_on_another_disk_are_closed_there(tmp_path: Path) -> None:
    data, disk = tmp_path / "data", tmp_path / "disk"
    data.mkdir(mode=0o700)
    disk.mkdir(mode=0o755)
    (data / "projections").symlink_to(disk)
    assert run(*LEARN, "--data", str(data)).returncode == 0
    assert open_to_others(disk) == []


def test_files_to_import_may_be_put_there_by_others(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "import").mkdir(parents=True)
    os.chown(data / "import", NOBODY, NOBODY)
    own_directory(data)
    assert (data / "import").stat().st_uid == NOBODY
    (data / "projections").mkdir()
    os.chown(data / "projections", NOBODY, NOBODY)
    with pytest.raises(SettingsError, match="projections belongs to user"):
        own_directory(data)


def test_models_may_be_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold nothing of anybody's; an image fetches them as root, for another user."""
    away = HeldPort()
    monkeypatch.setenv("HF_ENDPOINT", away.url)
    monkeypatch.setenv("PATH", "")
    done = run("models", "pull", "--models-dir", str(tmp_path / "models"))
    away.release()
    assert "Could not fetch" in done.stderr
    assert stat.S_IMODE((tmp_path / "models").stat().st_mode) & 0o055 == 0o055
