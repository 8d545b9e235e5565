"""docs/tools.md says how large what is given to the robot's tools may be."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from mnemolog.events import arguments, robot
from mnemolog.events.arguments import Arguments
from mnemolog.services.decider.tool import Tool
from mnemolog.services.families.robot.family import TOOLS
from mnemolog.services.gateway import calls

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
UNITS = {"characters": 1, "KiB": 1024, "": 1}


def said() -> dict[str, int]:
    """By what stands in front of it, each limit of the table."""
    part = PAGE.split("\n## Robot memory\n", 1)[1].split("\n### ", 1)[0]
    found = {}
    for line in [line for line in part.splitlines() if line.startswith("|")][2:]:
        what, most, _ = (cell.strip() for cell in line.split("|")[1:-1])
        number, _, unit = most.partition(" ")
        for name in re.findall(r"`([^`]+)`", what) or [what]:
            found[name] = int(number.replace(",", "")) * UNITS[unit]
    return found


def longest(asked: type[Arguments]) -> dict[str, int]:
    """By argument how long a text may be, where its schema says so."""
    (schema,), parts = msgspec.json.schema_components([asked])
    own = parts[str(schema["$ref"]).rpartition("/")[2]]["properties"]
    return {name: one["maxLength"] for name, one in own.items() if "maxLength" in one}


@pytest.mark.parametrize(
    "tool", [one for one in TOOLS if not one.internal], ids=lambda one: one.name
)
def test_every_text_that_has_a_longest_is_listed(tool: Tool) -> None:
    for name, most in longest(tool.arguments).items():
        assert said()[name] == most, name


def test_what_no_schema_says() -> None:
    found = said()
    assert found["insight"] == found["new_content"] == robot.MAX_INSIGHT
    for name in "context", "metadata", "context_filter", "spatial_sort":
        assert found[name] == robot.MAX_CONTEXT_BYTES
    assert found["data"] == robot.MAX_DATA_BYTES
    assert found["levels of nesting in JSON"] == arguments.MAX_DEPTH
    assert found["_meta.actor"] == found["_meta.idempotency_key"] == calls.MAX_META
