"""Values for a JSON schema as the tools' are: plain ones, without references."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner),
    max_leaves=8,
)
FEW = 4


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schema allows."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([fitting(one) for one in schema["anyOf"]])
    kind = schema.get("type")
    if kind == "object":
        return _object(schema)
    if kind == "array":
        least = schema.get("minItems", 0)
        most = min(schema.get("maxItems", least + FEW), least + FEW)
        return st.lists(fitting(schema.get("items", {})), min_size=least, max_size=most)
    if kind == "string":
        return _text(schema)
    if kind in ("integer", "number"):
        return _number(schema)
    return st.booleans() if kind == "boolean" else ANYTHING


def nearly(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """An object with the names that the schema has, whose values fit or do not."""
    properties = schema.get("properties", {})
    return st.fixed_dictionaries(
        {}, optional={name: fitting(one) | ANYTHING for name, one in properties.items()}
    )


def _object(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    properties = {name: fitting(one) for name, one in schema.get("properties", {}).items()}
    needed = set(schema.get("required", ()))
    if not properties:
        return st.dictionaries(st.text(max_size=10), ANYTHING, max_size=FEW)
    return st.fixed_dictionaries(
        {name: one for name, one in properties.items() if name in needed},
        optional={name: one for name, one in properties.items() if name not in needed},
    )


def _text(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    least = schema.get("minLength", 0)
    if "pattern" in schema:
        return st.from_regex(schema["pattern"]).filter(lambda text: len(text) < 200)
    return st.text(min_size=least, max_size=min(schema.get("maxLength", 60), least + 60))


def _number(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if schema["type"] == "integer":
        return st.integers(least, most)
    return st.floats(least, most, allow_nan=False, allow_infinity=False)
