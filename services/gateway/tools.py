"""Tool definitions as clients see them: plain dicts, made from the argument structs."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any
from urllib.parse import unquote

import msgspec

from mnemolog.events.envelope import Refusal
from mnemolog.services.api import TimedOut, Unavailable
from mnemolog.services.catalogue import UNKNOWN_TOOL, Catalogue
from mnemolog.services.decider.tool import Tool
from mnemolog.services.family import PARAMETER, Codes, Family, Resource
from mnemolog.services.gateway.prompts import offered


class Offer:
    """What clients are offered: the tools of some families, all of them when none is named.
    `definitions` are in the families' order; `schemas` are the inputs' by tool name; `tools` are by
    every name that a call may use, aliases included; `reads` are the names of those that change
    nothing. With `read_only` there are no others. `resources` have their addresses, `templates` are
    those that stand for many."""

    def __init__(
        self,
        catalogue: Catalogue,
        families: frozenset[str] = frozenset(),
        *,
        read_only: bool = False,
    ) -> None:
        _check(families, catalogue.families)
        self.catalogue = catalogue
        self.read_only = read_only
        self.families: list[Family] = [
            one for name, one in catalogue.families.items() if not families or name in families
        ]
        resources = [one for family in self.families for one in family.resources]
        self.resources = {one.uri: one for one in resources if not one.parameters}
        self.templates = {one.uri: one for one in resources if one.parameters}
        self._addresses = [(_address(one), one) for one in self.templates.values()]
        tools = [
            tool
            for family in self.families
            for tool in family.tools
            if not tool.internal and (tool.reads or not read_only)
        ]
        self.tools = {name: tool for tool in tools for name in (tool.name, *tool.aliases)}
        self.definitions = [_definition(tool) for tool in tools]
        self.schemas = {one["name"]: one["inputSchema"] for one in self.definitions}
        self.reads = frozenset(name for name, tool in self.tools.items() if tool.reads)
        self.prompts = offered(self.families, self.tools)

    def narrowed(self, families: frozenset[str]) -> Offer:
        """Only these of the families. Raises `Unavailable` for what is not offered."""
        _check(families, [one.name for one in self.families])
        return Offer(self.catalogue, families, read_only=self.read_only)

    def withholds(self, name: str) -> Refusal | None:
        """What a call is refused with whose tool there is, and is not offered here."""
        tool = self.catalogue.tools.get(name)
        if tool is None or tool.internal or name in self.tools:
            return None
        sentence = f"Unknown tool {name!r}"
        if self.read_only and self.catalogue.family_of[name] in self.families:
            sentence += ": this service is read-only, and offers only what reads"
        return Refusal(sentence, UNKNOWN_TOOL)

    def reports(self, name: str) -> bool:
        """Whether a call of that name can tell how far it is."""
        tool = self.tools.get(name)
        return tool is not None and tool.carry_out is not None

    def resource(self, uri: str) -> tuple[Resource, dict[str, Any]] | None:
        """The family's resource at an address, and what its tool is asked there."""
        found = self.resources.get(uri)
        if found is not None:
            return found, found.arguments({})
        for address, one in self._addresses:
            match = address.fullmatch(uri)
            if match is not None:
                given = {name: unquote(value) for name, value in match.groupdict().items()}
                return one, one.arguments(given)
        return None

    def code_of(self, name: str, error: Unavailable) -> int:
        """The JSON-RPC error code of a call that could not be carried out."""
        family = self.catalogue.family_of.get(name)
        codes = Codes() if family is None else family.codes
        return codes.timed_out if isinstance(error, TimedOut) else codes.unavailable


def _address(resource: Resource) -> re.Pattern[str]:
    """What is at the addresses of a template. What stands for a name has no slash of its own."""
    parts = PARAMETER.split(resource.uri)
    for place, part in enumerate(parts):
        parts[place] = f"(?P<{part}>[^/]+)" if place % 2 else re.escape(part)
    return re.compile("".join(parts))


def _check(wanted: frozenset[str], known: Collection[str]) -> None:
    unknown = wanted - set(known)
    if unknown:
        raise Unavailable(
            f"toolsets can be {', '.join(known)}, separated by commas; "
            f"not {', '.join(sorted(unknown))}"
        )


def _definition(tool: Tool) -> dict[str, Any]:
    title = tool.name.replace("_", " ").capitalize()
    return {
        "name": tool.name,
        "title": title,
        "description": tool.description,
        "inputSchema": input_schema(tool.arguments),
        "annotations": {
            "title": title,
            "readOnlyHint": tool.reads,
            "destructiveHint": tool.destroys,
            "idempotentHint": tool.idempotent,
            "openWorldHint": False,
        },
    }


def input_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """JSON schema of a struct as every client reads it: one object, with no `$ref` to follow, and
    no `null` beside what may be left out; it is taken all the same."""
    whole = msgspec.json.schema(arguments)
    schema = _plain(whole, whole.get("$defs", {}))
    # What the tool is called and does is said by the tool itself.
    return {key: value for key, value in schema.items() if key != "description"}


def _plain(value: Any, shared: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_plain(one, shared) for one in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _plain(shared[value["$ref"].rsplit("/", 1)[1]], shared)
    found = {key: _plain(one, shared) for key, one in value.items() if key != "$defs"}
    if isinstance(found.get("description"), str):
        # Those from docstrings carry the source's line breaks.
        found["description"] = " ".join(found["description"].split())
    if found.get("type") == "object":
        found.pop("title", None)  # A class's name.
        listed = found.get("properties", {}).items()
        found["properties"] = {name: one for name, one in listed if "unlisted" not in one}
        if not found.get("required"):
            found.pop("required", None)
    if all(isinstance(one, str) for one in found.get("enum", [0])):
        found["type"] = "string"
    if "anyOf" in found:
        kinds = [one for one in found["anyOf"] if one != {"type": "null"}]
        if len(kinds) < len(found["anyOf"]) and found.get("default") is None:
            found.pop("default", None)
        found["anyOf"] = kinds
        if len(kinds) == 1:
            del found["anyOf"]
            found = {**kinds[0], **found}
    return found
