"""What a running service does when its disk fails it, and afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import stored
from tests.crash.process import Reply, Stdio
from tests.faults import failing


def learn(client: Stdio, text: str, key: str | None = None) -> Reply:
    return client.call("learn", {"insight": text}, key)


def said(reply: Reply) -> str:
    assert reply.refused, reply
    return reply.error or str(reply.body)


def contents(client: Stdio) -> list[str]:
    found = client.call("recall", {"query": "cup", "n": 100})
    assert not found.refused, found
    return sorted(one["content"] for one in found.body["memories"])


@pytest.mark.parametrize("name", ["log.db", "log.db-wal"])
def test_a_log_that_is_gone_is_not_written_to(data: Path, name: str) -> None:
    with Stdio(data) as client:
        assert not learn(client, "cup one slips").refused
        file = data / name
        aside = file.rename(data / "aside")
        assert f"{file} was deleted or moved" in said(learn(client, "cup two slips"))
        file.write_bytes(aside.read_bytes())
        assert f"{file} was replaced" in said(learn(client, "cup three slips"))
        assert contents(client) == ["cup one slips"]
        aside.replace(file)
        assert not learn(client, "cup four slips").refused
        assert contents(client) == ["cup four slips", "cup one slips"]
        assert client.finish() == 0
    with Stdio(data) as client:
        assert contents(client) == ["cup four slips", "cup one slips"]


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_state_that_cannot_be_written_comes_back_by_itself(data: Path, error: str) -> None:
    wal = data / "projections" / "state" / "p0000.db-wal"
    with Stdio(data) as client:
        assert learn(client, "cup one slips").body["memory_id"] == 1
        with failing(client.pid, error, "pwrite64", files=(wal,)):
            assert "ask again under the same idempotency key" in said(
                learn(client, "cup two slips", key="two")
            )
            assert contents(client) == ["cup one slips"]  # Reads go on.
            assert "cannot go on" in said(learn(client, "cup three slips"))
        assert learn(client, "cup four slips").body["memory_id"] == 3
        again = learn(client, "cup two slips", key="two")
        assert again.body["memory_id"] == 2
        assert contents(client) == ["cup four slips", "cup one slips", "cup two slips"]
        assert client.finish() == 0
    stored.check_whole(data)
    stored.check_rebuild(data)


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_log_that_cannot_be_written_comes_back_by_itself(data: Path, error: str) -> None:
    files = (data / "log.db", data / "log.db-wal")
    with Stdio(data) as client:
        assert learn(client, "cup one slips").body["memory_id"] == 1
        with failing(client.pid, error, "pwrite64", files=files):
            told = said(learn(client, "cup two slips", key="two"))
            assert "could not be written" in told
            assert "rebuild" not in told
            assert contents(client) == ["cup one slips"]
        assert learn(client, "cup three slips").body["memory_id"] == 2
        assert learn(client, "cup two slips", key="two").body["memory_id"] == 3
        assert client.finish() == 0
    stored.check_whole(data)
    stored.check_rebuild(data)


def test_a_commit_whose_flush_failed_is_in_doubt_and_happens_at_most_once(data: Path) -> None:
    with Stdio(data) as client:
        assert learn(client, "cup one slips").body["memory_id"] == 1
        with failing(client.pid, "EIO", "fdatasync", "fsync", files=(data / "log.db-wal",)):
            assert learn(client, "cup two slips", key="two").refused
        assert not learn(client, "cup two slips", key="two").refused
        assert contents(client) == ["cup one slips", "cup two slips"]
        assert client.finish() == 0
    stored.check_whole(data)
    stored.check_rebuild(data)
