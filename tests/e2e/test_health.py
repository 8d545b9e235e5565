"""Health tells what calls meet on a running `mnemolog serve`, and is well again by itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import PATIENCE_S, Message, Server, run
from tests.faults import failing, fill, small_disk

WORDS_ONLY = ("--model", "none")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data", *WORDS_ONLY)
    server.client().ok("learn", {"insight": "cups slip when wet"})
    yield server
    server.stop()


def health(server: Server) -> tuple[int, Message]:
    status, body = server.client().get("/healthz")
    found: Message = json.loads(body)
    assert (status == 200) is (found["status"] == "ok"), found
    return status, found


def until(server: Server, holds: Callable[[Message], bool]) -> Message:
    """The health, once it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = health(server)[1]
        if holds(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def until_ok(server: Server) -> None:
    until(server, lambda found: found["status"] == "ok")


def until_said(server: Server, words: str) -> Message:
    return until(server, lambda found: any(words in one for one in found["reasons"]))


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_writes_that_fail_are_told_until_they_work_again(server: Server, error: str) -> None:
    client = server.client()
    with failing(server.process.pid, error, "pwrite64"):
        said = client.refused("learn", {"insight": "plates break when dropped"})
        assert ("is full. Free some space" in said) is (error == "ENOSPC")
        until_said(server, "The last write failed, at 2")
        assert health(server)[0] == 503
        status, body = server.client().get("/readyz")
        assert status == 503
        assert json.loads(body)["status"] == "not ready"
        assert "The last write failed, at 2" in json.loads(body)["reasons"][0]
        assert server.client().get("/livez") == (200, '{"status":"alive"}')
    until_ok(server)
    assert server.client().get("/readyz") == (200, '{"status":"ready","reasons":[]}')
    client.ok("learn", {"insight": "plates break when dropped"})


def test_reads_that_fail_are_told_until_they_work_again(server: Server) -> None:
    client = server.client()
    with failing(server.process.pid, "EIO", "openat", "pread64"):
        # What is in memory is answered from there.
        for n in range(20):
            found = client.call("recall", {"query": f"wet cups {n}"})
            if "error" in found:
                break
        else:
            pytest.fail("every read was answered")
        until_said(server, "The last read failed, at 2")
    until_ok(server)
    assert client.ok("recall", {"query": "wet cups"})["total"] == 1


@pytest.mark.parametrize("part", ["log.db", "log.db-wal", "projections", "."])
def test_what_is_moved_away_is_told_until_it_is_back(server: Server, part: str) -> None:
    place = server.data if part == "." else server.data / part
    aside = server.data.parent / "aside"
    place.rename(aside)
    found = until_said(server, "while it was in use")
    assert found["status"] == "degraded"
    assert str(server.data) not in str(found), "it is nobody's business where that is"
    aside.rename(place)
    until_ok(server)
    server.client().ok("learn", {"insight": "plates break when dropped"})


def test_a_log_that_is_replaced_is_told(server: Server) -> None:
    log = server.data / "log.db"
    shutil.copyfile(log, server.data.parent / "copy")
    (server.data.parent / "copy").rename(log)
    until_said(server, "was replaced by another file")


def test_a_full_disk_is_told_and_a_rebuild_leaves_it_as_it_was(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16) as disk:
        server = Server(disk / "data", *WORDS_ONLY)
        try:
            client = server.client()
            client.ok("learn", {"insight": "cups slip when wet"})
            filler = fill(disk)
            said = client.refused("learn", {"insight": "plates break when dropped"})
            assert f"The disk that {server.data} is on is full" in said
            until_said(server, "The last write failed, at 2")
            told = run("rebuild", "--data", str(server.data))
            check_told(told, server.data)
            filler.unlink()
            until_ok(server)
            client.ok("learn", {"insight": "plates break when dropped"})
            assert run("rebuild", "--data", str(server.data)).returncode == 0
            assert client.ok("recall", {"query": "wet cups"})["total"] == 1
        finally:
            server.stop()
        fill(disk)
        check_told(run("rebuild", "--data", str(server.data)), server.data)
        told = run("call", "recall", '{"query": "cups"}', "--data", str(server.data), *WORDS_ONLY)
        assert "mnemolog rebuild" not in told.stderr


def check_told(told: subprocess.CompletedProcess[str], data: Path) -> None:
    assert told.returncode == 1
    assert f"The disk that {data} is on is full" in told.stderr
    assert "Traceback" not in told.stderr
    assert not list(data.glob("projections.*"))
    assert (data / "projections").is_dir()
