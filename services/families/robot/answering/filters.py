"""context_filter and spatial_sort: what a recall may ask of a memory's context."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from mnemolog.events.arguments import MAX_DEPTH, Refused, check_size, finite_numbers, json_object
from mnemolog.events.robot import MAX_CONTEXT_BYTES, MAX_FILTER_CONDITIONS, JsonObject

_MISSING = object()
_RANGES: dict[str, Callable[[Any, Any], bool]] = {
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
}
_OPERATORS = (*_RANGES, "$ne")


class Condition(msgspec.Struct, frozen=True):
    path: str
    operator: str
    value: Any

    def holds(self, context: dict[str, Any]) -> bool:
        """A missing path is no match, except for `$ne`."""
        found = at_path(context, self.path)
        if self.operator == "$ne":
            return not _same(found, self.value)
        if found is _MISSING:
            return False
        if self.operator == "=":
            return _same(found, self.value)
        if _is_number(found) != _is_number(self.value) or isinstance(found, str) != isinstance(
            self.value, str
        ):
            return False
        return (_is_number(found) or isinstance(found, str)) and _RANGES[self.operator](
            found, self.value
        )


class SpatialSort(msgspec.Struct, frozen=True):
    field: str
    target: list[float]
    max_distance: float | None = None

    def distance(self, context: dict[str, Any]) -> float | None:
        """Euclidean distance to the target; None where there is no such position."""
        found = at_path(context, self.field)
        if not isinstance(found, list) or len(found) != len(self.target):
            return None
        if not all(_is_number(one) for one in found):
            return None
        try:
            distance = math.dist([float(one) for one in found], self.target)
        except OverflowError:  # a whole number of over 308 digits
            return None
        return distance if math.isfinite(distance) else None


def read_filter(text: JsonObject | None) -> list[Condition]:
    """The conditions of a context_filter, or `Refused`."""
    parsed = _object("context_filter", text) or {}
    conditions: list[Condition] = []
    for path, wanted in parsed.items():
        if not path.strip():
            raise Refused("context_filter has an empty path; use one such as task.success")
        if isinstance(wanted, dict) and any(key.startswith("$") for key in wanted):
            conditions += [_condition(path, key, value) for key, value in wanted.items()]
        else:
            conditions.append(Condition(path, "=", wanted))
    if len(conditions) > MAX_FILTER_CONDITIONS:
        raise Refused(
            f"context_filter has {len(conditions)} conditions; at most {MAX_FILTER_CONDITIONS} are "
            "allowed"
        )
    return conditions


def read_spatial_sort(text: JsonObject | None) -> SpatialSort | None:
    """The order that a spatial_sort asks for, or `Refused`."""
    parsed = _object("spatial_sort", text)
    if parsed is None:
        return None
    unknown = set(parsed) - {"field", "target", "max_distance"}
    if unknown:
        raise Refused(
            f"spatial_sort takes field, target and max_distance, not {sorted(unknown)[0]!r}"
        )
    field = parsed.get("field")
    if not isinstance(field, str) or not field.strip():
        raise Refused("spatial_sort needs field, a path such as spatial.object_position")
    target = finite_numbers("spatial_sort.target", parsed.get("target"))
    limit = parsed.get("max_distance")
    if limit is None:
        return SpatialSort(field, target)
    # A whole number may be too large for a float.
    if not (_is_number(limit) and 0 <= limit <= sys.float_info.max):
        raise Refused("spatial_sort.max_distance must be a number of at least 0")
    return SpatialSort(field, target, float(limit))


def read_context(text: str) -> dict[str, Any]:
    """A stored context, to look into."""
    parsed = msgspec.json.decode(text) if text else {}
    return parsed if isinstance(parsed, dict) else {}


def at_path(context: dict[str, Any], path: str) -> Any:
    found: Any = context
    # Nothing lies deeper than that, however many steps a path has.
    for step in path.split(".", MAX_DEPTH):
        if not isinstance(found, dict) or step not in found:
            return _MISSING
        found = found[step]
    return found


def _object(name: str, text: JsonObject | None) -> dict[str, Any] | None:
    if text is not None:
        check_size(name, text, MAX_CONTEXT_BYTES)  # It is held against every candidate.
    return json_object(name, text)


def _condition(path: str, operator: str, value: Any) -> Condition:
    if operator not in _OPERATORS:
        raise Refused(
            f"context_filter knows the operators {', '.join(_OPERATORS)}, not {operator[:40]!r}"
        )
    if operator in _RANGES and not (_is_number(value) or isinstance(value, str)):
        raise Refused(f"{operator} on {path[:80]!r} needs a number or a text to compare with")
    return Condition(path, operator, value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(a: Any, b: Any) -> bool:
    # true is not 1, also deep inside.
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)
