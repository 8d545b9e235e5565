"""Tool definitions as clients see them: plain dicts, made from the argument structs."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from mnemolog.services.api import Unavailable
from mnemolog.services.decider.catalogue import FAMILIES, TOOLS
from mnemolog.services.decider.tool import Tool

ALL = frozenset(FAMILIES)


@cache
def definitions(families: frozenset[str] = ALL) -> tuple[dict[str, Any], ...]:
    """The tools of `families` that clients are offered, in the catalogue's order. Not to be
    changed."""
    unknown = families - ALL
    if unknown or not families:
        raise Unavailable(
            f"toolsets can be {', '.join(FAMILIES)}, separated by commas; "
            f"not {', '.join(sorted(unknown)) or 'none'}"
        )
    return tuple(
        _definition(tool)
        for family, tools in FAMILIES.items()
        if family in families
        for tool in tools
        if not tool.internal
    )


@cache
def schemas(families: frozenset[str] = ALL) -> dict[str, dict[str, Any]]:
    """The input schema by tool name."""
    return {tool["name"]: tool["inputSchema"] for tool in definitions(families)}


@cache
def names(families: frozenset[str] = ALL) -> frozenset[str]:
    """Every name that a call to `families` may use, aliases included."""
    offered = schemas(families).keys()
    return frozenset(name for name, tool in TOOLS.items() if tool.name in offered)


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
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent or tool.reads,
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
