"""Mnemolog itself, as people start it."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.mcp_client import BenchmarkError, Server

NAME = "mnemolog"


def program() -> str:
    """`mnemolog` of the environment that runs the benchmark."""
    found = Path(sys.executable).with_name("mnemolog")
    if not found.exists():
        raise BenchmarkError(f"{found} does not exist. Run `make setup` first.")
    return str(found)


def environment() -> dict[str, str]:
    """What its processes get: the code beside the benchmark, whatever checkout is installed."""
    # A measuring client calls faster than the limits for people allow.
    return {"MNEMOLOG_RATE_LIMITS": "off", "PYTHONPATH": str(Path(__file__).parents[2])}


def server(directory: Path) -> Server:
    """`mnemolog stdio` on `directory`."""
    return Server(
        name=NAME,
        command=(program(), "stdio", "--data", str(directory)),
        directory=directory,
        environment=environment(),
    )
