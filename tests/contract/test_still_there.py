"""Whether the log's files are noticed to be gone from under those who have them open."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.services.node.following.still_there import log_files, log_is_gone


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "log.db"


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_file_of_the_log_that_is_deleted_or_replaced_is_noticed(path: Path, suffix: str) -> None:
    log = SqliteLog(path)
    try:
        files = log_files(path)
        log.append(0, [("default/", b"call")], [("default/", b"decision")])
        file = path.with_name(f"log.db{suffix}")
        assert log_is_gone(files) is None
        aside = file.rename(file.with_name("aside"))
        assert f"{file} was deleted or moved" in (log_is_gone(files) or "")
        file.write_bytes(aside.read_bytes())
        assert f"{file} was replaced" in (log_is_gone(files) or "")
        aside.replace(file)
        assert log_is_gone(files) is None
    finally:
        log.shut()


def test_a_directory_that_is_moved_is_noticed_and_may_come_back(path: Path) -> None:
    log = SqliteLog(path)
    try:
        files = log_files(path)
        elsewhere = path.parent.rename(path.parent.with_name("elsewhere"))
        assert f"{path} was deleted or moved" in (log_is_gone(files) or "")
        elsewhere.rename(path.parent)
        assert log_is_gone(files) is None
    finally:
        log.shut()
