"""How deeply JSON may be nested."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 100
"""Levels of nesting in JSON. Far below what the interpreter's stack allows, so that whether a text
can be read never depends on who reads it."""
TOO_DEEP = f"nested too deeply; at most {MAX_DEPTH} levels are allowed"


def is_deeper(value: Any, levels: int) -> bool:
    """Whether there are more than `levels` levels of objects and lists in a value."""
    within = [value]
    for _ in range(levels + 1):
        within = [one for one in within if isinstance(one, (dict, list))]
        if not within:
            return False
        within = [
            inner for one in within for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return True
