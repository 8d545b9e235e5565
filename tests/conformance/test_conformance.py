"""The gateway against the MCP project's conformance suite, at each of the revisions it knows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.explained import EXPLAINED
from tests.conformance.install import FOLDER, NODE, install
from tests.e2e import conftest
from tests.e2e.conftest import Server

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300
RUN = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\dZ-]+")
"""A folder of results: the scenario, and when it ran."""


@pytest.fixture(autouse=True)
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mnemolog` is the command line that has what the suite asks for."""
    script = tmp_path / "mnemolog"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.conformance "$@"\n')
    script.chmod(0o700)
    monkeypatch.setattr(conftest, "MNEMOLOG", script)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)


@pytest.mark.parametrize("revision", EXPLAINED)
def test_what_a_revision_requires(revision: str, tmp_path: Path) -> None:
    suite, results = install(), tmp_path / "results"
    server = Server(tmp_path / "data", "--model", "none")
    try:
        done = subprocess.run(
            [
                *(NODE, suite, "server", "--url", f"{server.url}/mcp"),
                *("--requirements", revision, "--output-dir", results),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    finally:
        server.stop()
    found = outcomes(results)
    required = yaml.safe_load((suite.parents[1] / "requirements" / f"{revision}.yaml").read_text())
    missing = set(required["server"]) - found.keys()
    assert not missing, f"not run: {sorted(missing)}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
    failed = {check: told for name in required["server"] for check, told in found[name].items()}
    explained = EXPLAINED[revision].keys()
    wrong = {check: told for check, told in failed.items() if check not in explained}
    assert not wrong, json.dumps(wrong, indent=2)
    assert not explained - failed.keys(), "these pass, and need no explanation any more"


def test_what_is_fetched_is_known_by_its_hash_and_not_by_its_address() -> None:
    packages: dict[str, Any] = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    assert len(packages) > 1
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert not name or package["integrity"].startswith("sha512-"), name


def outcomes(results: Path) -> dict[str, dict[str, str]]:
    """By scenario what failed in it, as `scenario:check`, with what the suite says of it."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(results.glob("server-*/checks.json")):
        scenario = RUN.fullmatch(file.parent.name)[1]  # type: ignore[index]
        checks: list[dict[str, Any]] = json.loads(file.read_text())
        failures = {
            f"{scenario}:{check['id']}": str(check.get("errorMessage"))
            for check in checks
            if check["status"] in ("FAILURE", "WARNING")
        }
        assert checks, f"{scenario} looked at nothing"
        found[scenario] = failures
    return found
