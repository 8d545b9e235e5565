"""Fills stores before anything is measured."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

from benchmarks import corpus
from benchmarks.mcp_client import BenchmarkError, StdioClient
from benchmarks.peers import mnemolog

PREPARED_SEED = 1
Progress = Callable[[int], None]


def prepare_store(directory: Path, count: int, progress: Progress | None = None) -> None:
    """Leave a Mnemolog data directory at `directory` with `count` memories in it.

    `progress` is told how many more are done. No process has the directory open afterwards.
    """
    with StdioClient(mnemolog.server(directory)) as client:
        client.initialize()
        fill(client, count, progress)


def fill(client: StdioClient, count: int, progress: Progress | None = None) -> None:
    """Learn `count` memories through the server's own tool; every one must be new to it."""
    for memory in islice(corpus.memories(PREPARED_SEED), count):
        body = client.call("learn", memory.arguments()).body
        if body.get("status") != "created":
            raise BenchmarkError(
                f"{client.server.name} did not take a prepared memory as new, so its store would "
                f"be smaller than it should be: {memory.insight!r} gave {body}"
            )
        if progress is not None:
            progress(1)
