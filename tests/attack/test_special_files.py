"""What looks like a file and is none: a clear refusal that is on the log, and nothing is read."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from mnemolog.events.arguments import Refused
from mnemolog.services.families.graph.importing.sources import Source
from tests.crash.process import Stdio
from tests.e2e.conftest import run


def test_a_special_file_is_refused_and_on_the_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    named = socket.socket(socket.AF_UNIX)
    named.bind(str(tmp_path / "s"))
    os.mknod(tmp_path / "device", 0o600 | 0o020000, os.makedev(1, 5))
    (tmp_path / "link").symlink_to("/proc/self/environ")
    special = ["/proc/self/mem", "/proc/self/environ", "/proc/self/pagemap", "/proc/meminfo"]
    special += [str(next(one for one in Path("/sys/kernel").iterdir() if one.is_file()))]
    special += ["/dev/zero", "/dev/null", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"]
    special += [str(tmp_path / name) for name in ("pipe", "s", "device", "link")]
    with Stdio(tmp_path / "data") as client:
        for path in special:
            reply = client.call("migrate", {"source_path": path})
            assert reply.refused and reply.error is None, path
            assert reply.body["error"] == f"{path!r} is not a regular file"
        for path, why in ((str(tmp_path), "is a directory"), ("/proc", "is a directory")):
            assert why in client.call("migrate", {"source_path": path}).body["error"]
        assert not client.call("learn", {"insight": "cups slip when wet"}).refused
        assert client.finish() == 0
    named.close()
    log = run("audit", "log", "--refused", "--json", "--data", str(tmp_path / "data"))
    told = {one["error"] for one in json.loads(log.stdout)}
    assert told >= {f"{path!r} is not a regular file" for path in special}


def source(path: Path, mode: int, size: int) -> Source:
    return Source(os.fdopen(os.open(path, mode), "rb"), path.name, path.name, size, 0)


@pytest.mark.parametrize("size", [0, 999, 1001, 5_000_000])
def test_what_is_not_as_long_as_it_says_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    found = source(path, os.O_RDONLY, size)
    with found.file, pytest.raises(Refused, match="another number"):
        found.sha256()


def test_what_is_written_meanwhile_is_not_followed_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"{}\n" * 10)
    found = source(path, os.O_RDONLY, 30)
    with found.file, path.open("ab") as more:
        seen = 0
        for _ in found.lines(0, 1):
            more.write(b"{}\n" * 2)
            more.flush()
            seen += 1
            assert seen <= 10
    assert seen == 10


def test_a_disk_that_cannot_be_read_is_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"{}\n")
    found = source(path, os.O_WRONLY, 3)  # Each read of it fails.
    with found.file:
        with pytest.raises(Refused, match="cannot be read to its end"):
            found.sha256()
        with pytest.raises(Refused, match="cannot be read to its end"):
            list(found.lines(0, 1))
