"""The part of requirements.lock that is needed to run, or to build: hashes and all.

The lock holds the developers' tools too, which an image does not need. Who needs what is in the
lock itself: `# via` names those that asked for a package. `python locked.py` prints what the
dependencies in pyproject.toml lead to, `python locked.py NAME…` what these lead to. It runs before
anything is installed, so it needs nothing but Python.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _named(requirement: str) -> str:
    """The package's name as the lock writes it."""
    found = _NAME.match(requirement)
    if found is None:
        raise SystemExit(f"{requirement!r} does not begin with the name of a package")
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def entries(lock: str) -> list[tuple[str, str]]:
    """Each package's name and lines; one that is locked per version of Python comes twice."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    return [(_named(block), block) for block in blocks if _NAME.match(block)]


def asked_by(entry: str) -> set[str]:
    """Who asked for a package."""
    _, found, via = entry.partition("# via")
    if not found:
        raise SystemExit(
            f"{_named(entry)} is in the lock without `# via`: make it with `make lock`"
        )
    return {_named(line.strip(" #")) for line in via.splitlines() if line.strip(" #")}


def closure(lock: str, wanted: list[str]) -> list[str]:
    """The entries of `wanted` and of all that they need, in the lock's order."""
    found = entries(lock)
    needed = {_named(one) for one in wanted}
    if missing := needed - {name for name, _ in found}:
        raise SystemExit(f"not in the lock: {', '.join(sorted(missing))}")
    before = 0
    while len(needed) > before:
        before = len(needed)
        needed |= {name for name, entry in found if asked_by(entry) & needed}
    return [entry for name, entry in found if name in needed]


def main(directory: Path, wanted: list[str]) -> None:
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    lock = (directory / "requirements.lock").read_text()
    sys.stdout.write("".join(closure(lock, wanted or project["dependencies"])))


if __name__ == "__main__":
    main(Path.cwd(), sys.argv[1:])
