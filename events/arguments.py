"""From JSON to a tool's argument struct, or one sentence that says what was wrong.

The struct is the single source: its types and limits make the tool's JSON schema, the check, and
the sentence a caller gets.
"""

from __future__ import annotations

import math
import re
import types
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

MAX_ARGUMENT_BYTES = 1024 * 1024
"""A call's arguments may be this large as JSON; a larger call is refused."""
MAX_DEPTH = 100
"""Levels of nesting in JSON. Far below what the interpreter's stack allows, so that whether a text
can be read never depends on who reads it."""


class Refused(Exception):
    """A call that is not carried out, with the sentence for its caller."""

    def __init__(self, sentence: str, *, code: int | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code


class TooMuch(Refused):
    """A read whose answer would be too large; only whoever answers it can tell."""


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every tool's arguments: unknown ones are refused."""


A = TypeVar("A", bound=Arguments)

UNLISTED: dict[str, Any] = {"unlisted": True}
"""In the schema of a field: what is taken when it comes, and not offered."""

NOT_BLANK = r"\S"
"""Pattern of a text that holds more than white space."""

Name = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=128,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        examples=["default"],
    ),
]
"""A name people choose: 1 to 128 characters, not blank, no control characters."""


def parse(kind: type[A], data: bytes) -> A:
    """The arguments in `data`, or `Refused`."""
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(f"The arguments are not valid JSON: {_lower(str(error))}") from None
    except RecursionError:
        raise _too_deep("The arguments are") from None
    if is_deeper(raw, MAX_DEPTH):
        raise _too_deep("The arguments are")
    if not isinstance(raw, dict):
        raise Refused(f"The arguments must be a JSON object, not {_kind(raw)}")
    required = _required(kind)
    for name in raw:
        if name not in required:
            there_are = ", ".join(required) or "none"
            raise Refused(f"Unknown argument {_show(name)}; there are {there_are}")
    # Some clients send null for every argument that they leave out.
    raw = {name: value for name, value in raw.items() if value is not None or required[name]}
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise Refused(_sentence(kind, raw, str(error))) from None


@cache
def _required(kind: type[Arguments]) -> dict[str, bool]:
    """By name whether an argument must be given."""
    return {field.encode_name: field.required for field in msgspec.structs.fields(kind)}


def json_object(name: str, text: str | dict[str, Any] | None) -> dict[str, Any] | None:
    """The object that a JSON-valued argument holds; None when it was left out or empty."""
    if text is None or (isinstance(text, str) and not text.strip()):
        return None
    if isinstance(text, dict):
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Refused(
            f'{name} must be a JSON object as text, for example {{"a": 1}}; '
            f"it is not valid JSON: {_lower(str(error))}"
        ) from None
    except RecursionError:
        raise _too_deep(f"{name} is") from None
    if is_deeper(value, MAX_DEPTH):
        raise _too_deep(f"{name} is")
    if not isinstance(value, dict):
        raise Refused(f"{name} must be a JSON object, not {_kind(value)}")
    return value


def finite_numbers(name: str, value: Any) -> list[float]:
    """`value` as a non-empty list of finite numbers."""
    ok = isinstance(value, list) and value and all(_is_finite(one) for one in value)
    if not ok:
        raise Refused(f"{name} must be a list of finite numbers, such as [1.3, 0.7, 0.42]")
    return [float(one) for one in value]


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


def _too_deep(what: str) -> Refused:
    return Refused(f"{what} nested too deeply; at most {MAX_DEPTH} levels are allowed")


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _sentence(kind: type[Arguments], raw: dict[str, Any], problem: str) -> str:
    what = problem.split(" - at ")[0]
    place = re.search(r"at `\$\.?([A-Za-z_]\w*)?(.*)`", problem)
    name, deeper = (place[1], place[2]) if place else (None, "")
    missing = re.search(r"missing required field `([^`]+)`", what)
    if missing and name is None:
        return f"{missing[1]} is required: {_allowed(kind, missing[1])}"
    if missing:
        return f"{name}{deeper} needs {missing[1]}"
    if name is None:
        return f"The arguments are not valid: {_lower(problem)}"
    if deeper:
        unknown = re.search(r"contains unknown field `([^`]*)`", what)
        if unknown:
            there_are = ", ".join(_offered(kind, name + deeper))
            return (
                f"{name}{deeper} has the unknown field {_show(unknown[1])}; there are {there_are}"
            )
        return f"{name}{deeper} {_plain(what, _found(raw, name + deeper))}"
    return f"{name} must be {_allowed(kind, name)}, not {_show(raw.get(name))}"


def _plain(what: str, found: str) -> str:
    """The validator's words on something deep inside, for people; `found` is what is there."""
    longest = re.search(r"`(\w+)` of length <= (\d+)", what)
    if longest:
        few, unit = ("a list", "entries") if longest[1] == "array" else ("text", "characters")
        return f"must be {few} of at most {longest[2]} {unit}, not {found}"
    if "matching regex" in what or "of length >= 1" in what:
        return "must not be empty or blank"
    wanted = re.match(r"Expected `([^`]+)`, got", what)
    if wanted:
        kinds = [_kind_named(one) for one in wanted[1].split(" | ") if one != "null"]
        return f"must be {' or '.join(kinds)}, not {found}"
    if "Invalid enum value" in what:
        return f"cannot be {found}"
    return f"is not valid: {_lower(what).replace('`', '')}"


def _found(raw: dict[str, Any], path: str) -> str:
    """What is at `path`, such as `entities[0].name`."""
    value: Any = raw
    for index, key in re.findall(r"\[(\d+)\]|(\w+)", path):
        try:
            value = value[int(index)] if index else value[key]
        except (LookupError, TypeError):
            return "that"
    return _show(value)


def _offered(kind: type[Arguments], path: str) -> list[str]:
    """The fields of what is at `path`."""
    inside: type[msgspec.Struct] = kind
    for name in re.findall(r"[A-Za-z_]\w*", path):
        inside = _structs(_hint(inside, name))[0]
    names = inside.__struct_encode_fields__
    return [name for name in names if not _is_unlisted(_hint(inside, name))]


def _structs(hint: Any) -> list[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [found for one in get_args(hint) for found in _structs(one)]


def _is_unlisted(hint: Any) -> bool:
    metas = [one for one in get_args(hint) if isinstance(one, msgspec.Meta)]
    return any(meta.extra_json_schema == UNLISTED for meta in metas)


def _allowed(kind: type[Arguments], name: str) -> str:
    return _describe(_hint(kind, name))


def _hint(kind: type[msgspec.Struct], name: str) -> Any:
    """The type of the field that is called `name` in JSON."""
    field = kind.__struct_fields__[kind.__struct_encode_fields__.index(name)]
    return get_type_hints(kind, include_extras=True)[field]


def _describe(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Annotated:
        base, *metas = get_args(hint)
        words = _describe(base)
        for meta in metas:
            if isinstance(meta, msgspec.Meta):
                words += _limits(meta, of_list=words.startswith("a list"))
        return words
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(one) for one in get_args(hint) if one is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(str(one) for one in get_args(hint))
    if origin is list:
        return "a list"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "an object"
    names = {
        str: "text",
        int: "a whole number",
        float: "a number",
        bool: "true or false",
    }
    return names.get(hint, "an object")


def _limits(meta: msgspec.Meta, *, of_list: bool) -> str:
    words = ""
    if meta.ge is not None and meta.le is not None:
        words += f" from {meta.ge} to {meta.le}"
    elif meta.ge is not None:
        words += f" of at least {meta.ge}"
    if meta.gt is not None:
        words += f" greater than {meta.gt}"
        words += f" and up to {meta.le}" if meta.le is not None else ""
    unit = "entries" if of_list else "characters"
    if meta.min_length is not None and meta.max_length is not None:
        words += f" of {meta.min_length} to {meta.max_length} {unit}"
    elif meta.min_length is not None:
        words += f" of at least {meta.min_length} {unit}"
    elif meta.max_length is not None:
        words += f" of at most {meta.max_length} {unit}"
    if meta.pattern is not None:
        blank = meta.pattern == NOT_BLANK
        words += (
            " that is not blank" if blank else " that is not blank and has no control characters"
        )
    return words


def _show(value: Any) -> str:
    if isinstance(value, str) and len(value) > 60:
        return f"a text of {len(value)} characters"
    if isinstance(value, list) and len(value) > 3:
        return f"a list of {len(value)}"
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:77] + "..."


def _kind(value: Any) -> str:
    names = {str: "text", list: "a list", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _kind_named(name: str) -> str:
    """The validator's word for a kind of value, for people."""
    names = {
        "str": "text",
        "array": "a list",
        "object": "an object",
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
    }
    return names.get(name, name)


def _lower(text: str) -> str:
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
