"""Prompts as clients see them: the families' parts of each put together, as plain dicts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from mnemolog.events.arguments import Refused
from mnemolog.services.family import Family
from mnemolog.services.prompts import Argument, Given, Moment, Step

MAX_GIVEN: Final = 10_000
"""Characters of an argument."""


class Offered(NamedTuple):
    """A prompt that a client is offered: it names no tool that the client is not."""

    moment: Moment
    arguments: dict[str, Argument]
    steps: list[Step]

    @property
    def definition(self) -> dict[str, Any]:
        return {
            "name": self.moment.name,
            "title": self.moment.title,
            "description": self.moment.description,
            "arguments": [
                {"name": one.name, "description": one.description, "required": one.required}
                for one in self.arguments.values()
            ],
        }

    def messages(self, given: Given) -> list[dict[str, Any]]:
        """Raises `Refused` when that cannot be given to it."""
        self._check(given)
        said = [step.says(given) for step in self.steps]
        contents = [one for one in said if isinstance(one, dict)]
        words = [one for one in said if isinstance(one, str)]
        parts = (self.moment.opens(given), "\n".join(words), self.moment.closes)
        text = "\n\n".join(part for part in parts if part)
        if text:
            contents.append({"type": "text", "text": text})
        return [{"role": "user", "content": one} for one in contents]

    def _check(self, given: Given) -> None:
        name = self.moment.name
        takes = ", ".join(self.arguments) or "none"
        for argument, value in given.items():
            if argument not in self.arguments:
                raise Refused(
                    f"The prompt {name} has no argument {argument[:40]!r}; its arguments are "
                    f"{takes}"
                )
            if len(value) > MAX_GIVEN:
                raise Refused(f"{argument} is too long: at most {MAX_GIVEN:,} characters")
        missing = [one.name for one in self.arguments.values() if one.required]
        missing = [one for one in missing if not given.get(one)]
        if missing:
            raise Refused(f"The prompt {name} needs the argument {missing[0]}")


def offered(families: Iterable[Family], tools: Collection[str]) -> dict[str, Offered]:
    """By name, those that have something to say about the tools that are offered."""
    found: dict[str, Offered] = {}
    for family in families:
        for prompt in family.prompts:
            steps = [one for one in prompt.steps if all(tool in tools for tool in one.tools)]
            if not steps:
                continue
            moment = prompt.moment
            one = found.setdefault(moment.name, Offered(moment, {}, []))
            one.steps.extend(steps)
            given = (*moment.arguments, *prompt.arguments)
            one.arguments.update({argument.name: argument for argument in given})
    return found
