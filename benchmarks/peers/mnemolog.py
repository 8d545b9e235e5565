"""Mnemolog itself, as people start it."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.mcp_client import BenchmarkError, Server

NAME = "mnemolog"


def server(directory: Path) -> Server:
    """`mnemolog stdio` on `directory`, from the environment that runs the benchmark."""
    program = Path(sys.executable).with_name("mnemolog")
    if not program.exists():
        raise BenchmarkError(f"{program} does not exist. Run `make setup` first.")
    return Server(
        name=NAME,
        command=(str(program), "stdio", "--data", str(directory)),
        directory=directory,
        # A measuring client calls faster than the limits for people allow.
        environment={"MNEMOLOG_RATE_LIMITS": "off"},
    )
