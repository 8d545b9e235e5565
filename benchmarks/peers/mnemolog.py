"""Mnemolog itself, as people start it: this checkout of it, or another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.mcp_client import BenchmarkError, Server, child_environment

NAME = "mnemolog"
BESIDE = "beside"


class Checkout(msgspec.Struct, frozen=True):
    """A checkout, the programs of the environment it runs in, and what it is called in results."""

    name: str
    root: Path
    programs: Path

    def program(self) -> str:
        """Its `mnemolog`."""
        return self._found("mnemolog")

    def environment(self) -> dict[str, str]:
        """What its processes get: its own code, whatever checkout is installed."""
        # A measuring client calls faster than the limits for people allow.
        return {"MNEMOLOG_RATE_LIMITS": "off", "PYTHONPATH": str(self.root)}

    def server(self, directory: Path) -> Server:
        """`mnemolog stdio` on `directory`."""
        return Server(
            name=self.name,
            command=(self.program(), "stdio", "--data", str(directory)),
            directory=directory,
            environment=self.environment(),
        )

    def run(self, code: str, *args: str) -> None:
        """Run Python code with `args` in this checkout: its modules are the ones imported."""
        done = subprocess.run(
            [self._found("python"), "-c", code, *args],
            cwd=self.root,
            env=child_environment(self.environment()),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BenchmarkError(f"{self.root} could not do this: {(done.stderr or code)[-2000:]}")

    def describe(self) -> str:
        """The commit it is at."""
        command = ["git", "-C", str(self.root), "describe", "--always", "--dirty"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() or self.root.name

    def _found(self, name: str) -> str:
        found = self.programs / name
        if not found.exists():
            raise BenchmarkError(f"{found} does not exist. Run `make setup` in {self.root} first.")
        return str(found)


THIS = Checkout(NAME, Path(__file__).parents[2], Path(sys.executable).parent)


def beside(root: Path) -> Checkout:
    """Another checkout, in the environment that `make setup` made there."""
    return Checkout(BESIDE, root.resolve(), root.resolve() / ".venv" / "bin")
