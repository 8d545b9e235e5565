"""Dockerfile, docker-compose.yml and .dockerignore, read as far as the tests need them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
GIVEN = re.compile(r"\$\{(\w+):\?[^}]+\}")
"""A value that has to come from the environment."""


class Step(NamedTuple):
    stage: int
    name: str
    text: str

    def words(self) -> list[str]:
        """Its arguments; options such as `--from=build` are among them."""
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


def dockerfile() -> list[Step]:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    steps, stage = [], -1
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            stage += name == "FROM"
            steps.append(Step(stage, name, rest.strip()))
    return steps


def steps(name: str, stage: int | None = None) -> list[Step]:
    return [one for one in dockerfile() if one.name == name and stage in (None, one.stage)]


def last_stage() -> int:
    return dockerfile()[-1].stage


def image_environment() -> dict[str, str]:
    found = [word for one in steps("ENV", last_stage()) for word in one.words()]
    return dict(word.split("=", 1) for word in found)


def commands(step: Step) -> list[list[str]]:
    """The programs that a RUN starts, each with its arguments."""
    return [shlex.split(part) for part in step.text.split("&&")]


def compose() -> dict[str, Any]:
    found = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    assert isinstance(found, dict)
    return found


def services() -> dict[str, dict[str, Any]]:
    found = compose()["services"]
    assert isinstance(found, dict)
    return found


def nodes() -> dict[str, dict[str, Any]]:
    return {name: one for name, one in services().items() if one["image"].startswith("mnemolog:")}


def kafka_properties() -> dict[str, str]:
    """The broker's settings, as its image takes them from the environment."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in services()["kafka"]["environment"].items()
        if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"
    }


def addresses(listeners: str) -> dict[str, str]:
    """`NAME://HOST:PORT,…` by name."""
    return dict(one.split("://", 1) for one in listeners.split(","))


def let_through(path: str) -> bool:
    """Whether .dockerignore, a list of what is allowed, lets a path into the build."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "it lists what is allowed"
    return any(
        path == rule[1:] or path.startswith(f"{rule[1:]}/") for rule in rules if rule[0] == "!"
    )
