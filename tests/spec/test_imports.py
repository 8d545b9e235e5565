"""Imports run one way: events ← projections ← services; infra implements what they declare."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("events", "projections", "services", "infra")

MAY_IMPORT = {
    "events": {"events"},
    "projections": {"projections", "events"},
    "infra": {"infra", "events"},
    "services": {"services", "projections", "events"},
}
ENTRY_POINTS = (
    "services/node/",
    "services/cli/",
    "services/gateway/auth/chosen.py",
    "services/gateway/app.py",
    "services/gateway/http.py",
    "services/gateway/stdio.py",
)
"""Only these wire the adapters in."""


def modules() -> list[str]:
    return [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    ]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and package of every import of ours, those inside functions and for types included."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written out in full"
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [
                one.value
                for one in node.args
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
        for name in names:
            first, _, rest = name.partition(".")
            package = rest.split(".")[0] if first == "mnemolog" else first
            if package in (*PACKAGES, "tests", "benchmarks"):
                assert first != package or package in ("tests", "benchmarks"), (
                    f"{path}: ours are imported as mnemolog.{name}"
                )
                yield node.lineno, package  # type: ignore[attr-defined]


@pytest.mark.parametrize("module", modules())
def test_imports_run_one_way(module: str) -> None:
    allowed = set(MAY_IMPORT[module.split("/")[0]])
    if module.startswith(ENTRY_POINTS):
        allowed.add("infra")
    wrong = [
        f"{module}:{line} imports {package}"
        for line, package in imported(ROOT / module)
        if package not in allowed
    ]
    assert wrong == []


def test_there_is_something_to_look_at() -> None:
    packages = {one.split("/")[0] for one in modules()}
    assert packages == set(PACKAGES)
    assert any(
        package == "infra" for _, package in imported(ROOT / "services/node/embedded/node.py")
    )
