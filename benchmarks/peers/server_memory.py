"""The MCP project's own memory server (npm `@modelcontextprotocol/server-memory`), as it comes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import platformdirs

from benchmarks.mcp_client import BenchmarkError, Server

NAME = "server-memory"
PACKAGE = "@modelcontextprotocol/server-memory"
VERSION = "2026.8.31"
MEMORY_FILE = "memory.jsonl"
INSTALL_TIMEOUT_S = 600


def install() -> Path:
    """Fetch it with npm into the user's cache, outside any checkout, unless it is there; its
    program. Takes about ten seconds."""
    place = platformdirs.user_cache_path("mnemolog", appauthor=False) / "bench" / NAME / VERSION
    program = place / "node_modules" / PACKAGE / "dist" / "index.js"
    # Written last, so a folder that was left half-made is not used but made anew.
    marker = place / "installed.txt"
    npm, ready = shutil.which("npm"), marker.exists() and program.exists()
    if shutil.which("node") is None or (npm is None and not ready):
        raise BenchmarkError(
            f"{PACKAGE} runs on Node.js and is fetched with npm, and one of the two is not on the "
            "PATH. Install Node.js 18 or newer, or measure with `--system mnemolog` only."
        )
    if npm is None or ready:
        return program
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    command = [npm, "install", "--prefix", str(place), "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            [*command, "--loglevel=error", f"{PACKAGE}@{VERSION}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise BenchmarkError(
            f"npm did not fetch {PACKAGE} within {INSTALL_TIMEOUT_S} s. Run again."
        ) from None
    if done.returncode != 0 or not program.exists():
        raise BenchmarkError(
            f"npm could not fetch {PACKAGE} {VERSION}: {(done.stderr or done.stdout)[-2000:]}"
        )
    marker.write_text(VERSION)
    return program


def describe() -> str:
    """Its version and that of what it runs on."""
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False)
    return f"{PACKAGE} {VERSION} · node {done.stdout.strip()}"


def server(program: Path, directory: Path) -> Server:
    """The server on the memory file in `directory`."""
    return Server(
        name=NAME,
        command=("node", str(program)),
        directory=directory,
        environment={"MEMORY_FILE_PATH": str(directory / MEMORY_FILE)},
    )
