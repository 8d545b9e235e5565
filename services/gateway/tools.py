"""Tool definitions as clients see them: plain dicts, made from the argument structs."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from services.api import Unavailable
from services.decider.catalogue import FAMILIES, TOOLS
from services.decider.tool import Tool

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
    """JSON schema of a struct: an object at the top, since clients do not follow a `$ref` there."""
    whole = msgspec.json.schema(arguments)
    shared: dict[str, Any] = whole.pop("$defs", {})
    schema = shared.pop(whole["$ref"].rsplit("/", 1)[1]) if "$ref" in whole else whole
    # What the tool is called and does is said by the tool itself.
    schema = {key: value for key, value in schema.items() if key not in ("title", "description")}
    if shared:
        schema["$defs"] = shared
    return _tidy(schema)  # type: ignore[no-any-return]


def _tidy(value: Any) -> Any:
    """Descriptions on one line: those from docstrings carry the source's line breaks."""
    if isinstance(value, list):
        return [_tidy(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: " ".join(one.split()) if key == "description" and isinstance(one, str) else _tidy(one)
        for key, one in value.items()
    }
