"""The way of a call through the code, as it is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.walk import Step, Way, median_way, walked


def way(files: str) -> Way:
    return Way([Step("main", file, "f") for file in files])


@pytest.mark.parametrize(
    ("files", "different", "returns"),
    [("", 0, 0), ("a", 1, 0), ("aab", 2, 0), ("aba", 2, 1), ("abba", 2, 1), ("abacb", 3, 2)],
)
def test_files_and_returns(files: str, different: int, returns: int) -> None:
    found = way(files)
    assert (found.files, found.returns) == (different, returns)


def test_the_median_way_is_one_that_was_walked() -> None:
    few, some, many = way("ab"), way("aba"), way("abababab")
    assert median_way([many, few, some]) is some
    assert median_way([many, few]) is few


def test_a_call_is_followed_from_its_bytes_through_every_thread(tmp_path: Path) -> None:
    found = asyncio.run(walked(1, tmp_path))
    for ways in found.values():
        (one,) = ways
        assert one.steps[0].file == "services/gateway/direct.py"
        assert len({step.thread for step in one.steps}) > 2
        # What it caused is on the log, also where that comes after the reply.
        assert "infra/log/sqlite.py" in one.entered
        assert 0 < one.files < len(one.entered)
