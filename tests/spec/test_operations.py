"""docs/operations.md says what is: every setting, metric and limit, with its value."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from mnemolog.infra.settings import Settings
from mnemolog.services.cli.serve import serve
from tests.e2e.conftest import Server

TESTS = Path(__file__).parents[1]
PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    part = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in lines[2:]]


def test_every_setting_is_listed_with_its_flag_variable_and_default() -> None:
    found = rows("Settings")
    assert [row[0] for row in found] == list(Settings.__struct_fields__)
    flags = {option.name: option.opts[0] for option in serve.params}
    assert flags.pop("config") == "--config", "where the others are read from"
    default = Settings()
    for key, flag, variable, value, meaning in found:
        assert flag == flags.pop(key, ""), key
        assert variable == f"MNEMOLOG_{key.upper()}"
        actual: Any = getattr(default, key)
        assert value == ("" if actual is None else str(actual)), key
        assert meaning
    assert not flags, "a flag of `mnemolog serve` that is no setting"


def limits() -> list[tuple[str, str]]:
    found = [(name, at_most) for _, at_most, name in rows("Limits")]
    assert found
    return found


@pytest.mark.parametrize(("name", "at_most"), limits())
def test_every_limit_is_what_the_code_has(name: str, at_most: str) -> None:
    module, _, constant = name.rpartition(".")
    assert getattr(importlib.import_module(f"mnemolog.{module}"), constant) == float(at_most)


@pytest.mark.parametrize("test", [row[3] for row in rows("Faults")])
def test_every_fault_is_held_by_a_test(test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"^def {name}\(", (TESTS / file).read_text(), re.MULTILINE)


def test_every_metric_is_listed(tmp_path: Path) -> None:
    listed = set(re.findall(r"`((?:mnemolog|process)_\w+)(?:\{[\w,]+\})?` \|", PAGE))
    server = Server(tmp_path / "data", "--model", "none")
    try:
        status, shown = server.client().get("/metrics")
    finally:
        server.stop()
    assert status == 200
    there = set(re.findall(r"^# HELP (\w+)", shown, flags=re.MULTILINE))
    assert listed == there
