"""What is wrong with arguments that do not fit their struct, in one sentence.

msgspec says whether they fit; what it says beyond that is not looked at. The sentence becomes part
of a decision, and that must come out the same when the log is decided anew, whatever version of the
library does it. So the first problem is looked for here, along the struct's types, in the order in
which the library checks: the fields as they were sent, then what is missing.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from mnemolog.events.fields import NO_CONTROLS, NOT_BLANK, UNLISTED, UnknownField
from mnemolog.events.json_text import quoted, shown

_PATTERNS = {
    NOT_BLANK: "that is not blank",
    NO_CONTROLS: "that is not blank and has no control characters",
}
_KINDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    types.NoneType: "null",
}
_SHOWN_NAME = 60


class Shape(Struct, frozen=True):
    """One kind of value that is allowed, with its limits. `of` is its type, or Literal; `inside`
    are the kinds that a list's entries or an object's values may have, `values` those of a
    Literal."""

    of: Any
    limits: tuple[Meta, ...] = ()
    inside: tuple[Shape, ...] = ()
    values: tuple[Any, ...] = ()


class Field(Struct, frozen=True):
    """A struct's field under its name in JSON: of one of these kinds."""

    name: str
    required: bool
    shapes: tuple[Shape, ...]


class Problem(NamedTuple):
    """Where it is, seen from the value that was looked at, and what it is."""

    at: str
    words: str

    @property
    def sentence(self) -> str:
        return f"{self.at} {self.words}"

    @property
    def argument(self) -> str:
        """The argument that it is in."""
        return re.split(r"[.\[]", self.at, maxsplit=1)[0]


def first_problem(kind: type[Struct], raw: dict[str, Any]) -> Problem | None:
    """What is wrong with these arguments, all of which are known; None when nothing is found. Each
    value is looked at once."""
    known = _fields(kind)
    for name, value in raw.items():
        shapes = known[name].shapes
        shape = _fitting(shapes, value)
        if shape is None or _over(shape, value) is not None:
            return Problem(name, f"must be {_allowed(shapes)}, not {shown(value)}")
        found = _inside(shape, value)
        if found is not None:
            return Problem(f"{name}{found.at}", found.words)
    for field in known.values():
        if field.required and field.name not in raw:
            return Problem(field.name, f"is required: {_allowed(field.shapes)}")
    refused = _refused_by_itself(kind, raw)
    return Problem("The call", refused) if refused else None


def unknown_argument(kind: type[Struct], name: str) -> str:
    there_are = ", ".join(_fields(kind)) or "none"
    return f"Unknown argument {_called(name)}; there are {there_are}"


# --- along the types -----------------------------------------------------------------------------


@cache
def _fields(kind: type[Struct]) -> dict[str, Field]:
    return {
        field.encode_name: Field(field.encode_name, field.required, _shapes(field.type))
        for field in msgspec.structs.fields(kind)
    }


def _shapes(hint: Any, limits: tuple[Meta, ...] = ()) -> tuple[Shape, ...]:
    """The kinds of values that a type allows; more than one in a union."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        own = tuple(one for one in parts[1:] if isinstance(one, Meta))
        return _shapes(parts[0], (*own, *limits))
    if origin in (Union, types.UnionType):
        return tuple(shape for one in parts for shape in _shapes(one, limits))
    if origin is Literal:
        return (Shape(Literal, limits, values=parts),)
    if origin in (list, dict):
        inside = () if parts[-1] is Any else _shapes(parts[-1])
        return (Shape(origin, limits, inside),)
    return (Shape(hint, limits),)


def _in_value(shapes: tuple[Shape, ...], value: Any) -> Problem | None:
    shape = _fitting(shapes, value)
    if shape is None:
        kinds = [_kind(one) for one in shapes if one.of is not types.NoneType]
        return Problem("", f"must be {' or '.join(kinds)}, not {shown(value)}")
    words = _over(shape, value)
    return Problem("", words) if words else _inside(shape, value)


def _inside(shape: Shape, value: Any) -> Problem | None:
    """The first problem within a value that is itself as it should be."""
    if _is_struct(shape.of):
        return _in_struct(shape.of, value)
    if not shape.inside:
        return None
    entries: Iterable[tuple[Any, Any]]
    entries = enumerate(value) if shape.of is list else value.items()
    for key, one in entries:
        found = _in_value(shape.inside, one)
        if found is not None:
            place = _called(key) if isinstance(key, str) else str(key)
            return Problem(f"[{place}]{found.at}", found.words)
    return None


def _in_struct(kind: type[Struct], raw: dict[str, Any]) -> Problem | None:
    known = _fields(kind)
    for name, value in raw.items():
        if name in known:
            found = _in_value(known[name].shapes, value)
            if found is not None:
                return Problem(f".{name}{found.at}", found.words)
        elif kind.__struct_config__.forbid_unknown_fields:
            return Problem("", _unknown(kind, name))
    for field in known.values():
        if field.required and field.name not in raw:
            return Problem("", f"needs {field.name}")
    refused = _refused_by_itself(kind, raw)
    return Problem("", refused) if refused else None


def _refused_by_itself(kind: type[Struct], raw: dict[str, Any]) -> str | None:
    """What a struct's own check says, when every field is as it should be. The check sees what is
    within the fields as it came."""
    if not hasattr(kind, "__post_init__"):
        return None
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    try:
        kind(**{field: raw[name] for field, name in names if name in raw})
    except UnknownField as error:
        return _unknown(kind, error.name)
    except (TypeError, ValueError):
        return None  # In words that are not meant for callers.
    return None


def _fitting(shapes: tuple[Shape, ...], value: Any) -> Shape | None:
    """The kind that a value is of, its limits aside."""
    for shape in shapes:
        if _is(value, shape):
            return shape
    return None


def _is(value: Any, shape: Shape) -> bool:
    of = shape.of
    if of is Any:
        return True
    if of is Literal:
        return any(type(one) is type(value) for one in shape.values)
    if of in (int, float) and isinstance(value, bool):
        return False
    if of is float:
        return isinstance(value, (int, float))
    if of is dict or _is_struct(of):
        return isinstance(value, dict)
    # A type that is not known here takes everything: what is wrong is said without it.
    return of not in _KINDS or isinstance(value, of)


def _is_struct(of: Any) -> bool:
    return isinstance(of, type) and issubclass(of, Struct)


# --- limits --------------------------------------------------------------------------------------


def _over(shape: Shape, value: Any) -> str | None:
    """Which limit of its kind a value does not keep to."""
    if shape.of is Literal:
        kept = value in shape.values
        return None if kept else f"must be {_described(shape)}, not {shown(value)}"
    for limits in shape.limits:
        if shape.of in (str, list, dict):
            words = _over_size(shape, limits, value)
            if words:
                return words
    if shape.of in (int, float) and not _is_within(shape, value):
        return f"must be {_described(shape)}, not {shown(value)}"
    return None


def _over_size(shape: Shape, limits: Meta, value: Any) -> str | None:
    size = len(value)
    if limits.min_length is not None and size < limits.min_length:
        if limits.min_length == 1:
            return "must not be empty or blank" if shape.of is str else "must not be empty"
        return f"must be {_described(shape)}, not {shown(value)}"
    if limits.max_length is not None and size > limits.max_length:
        most = f"at most {limits.max_length} {_unit(shape)}"
        return f"must be {_kind(shape)} of {most}, not {shown(value)}"
    if limits.pattern is not None and re.search(limits.pattern, value) is None:
        if limits.pattern == NOT_BLANK or not value.strip():
            return "must not be empty or blank"
        return f"must be {_described(shape)}, not {shown(value)}"
    return None


def _is_within(shape: Shape, value: int | float) -> bool:
    try:
        number = float(value) if shape.of is float else value
    except OverflowError:
        return False
    return all(
        (one.ge is None or number >= one.ge)
        and (one.gt is None or number > one.gt)
        and (one.le is None or number <= one.le)
        and (one.lt is None or number < one.lt)
        and (one.multiple_of is None or number % one.multiple_of == 0)
        for one in shape.limits
    )


# --- in words ------------------------------------------------------------------------------------


def _allowed(shapes: tuple[Shape, ...]) -> str:
    return " or ".join(_described(one) for one in shapes if one.of is not types.NoneType)


def _described(shape: Shape) -> str:
    return " ".join(
        [_kind(shape), *(words for one in shape.limits for words in _limits(shape, one))]
    )


def _kind(shape: Shape) -> str:
    if shape.of is Literal:
        return "one of " + ", ".join(str(one) for one in shape.values if one is not None)
    return _KINDS.get(shape.of, "an object")


def _unit(shape: Shape) -> str:
    return {str: "characters", list: "entries"}.get(shape.of, "fields")


def _limits(shape: Shape, meta: Meta) -> list[str]:
    words = []
    if meta.ge is not None and meta.le is not None:
        words.append(f"from {meta.ge} to {meta.le}")
    elif meta.gt is not None and meta.le is not None:
        words.append(f"greater than {meta.gt} and up to {meta.le}")
    else:
        bounds = [
            ("of at least", meta.ge),
            ("greater than", meta.gt),
            ("of at most", meta.le),
            ("less than", meta.lt),
        ]
        words.append(" and ".join(f"{name} {bound}" for name, bound in bounds if bound is not None))
    if meta.multiple_of is not None:
        words.append(f"divisible by {meta.multiple_of}")
    sizes = [str(one) for one in (meta.min_length, meta.max_length) if one is not None]
    if len(sizes) == 2:
        words.append(f"of {sizes[0]} to {sizes[1]} {_unit(shape)}")
    elif sizes:
        bound = "least" if meta.max_length is None else "most"
        words.append(f"of at {bound} {sizes[0]} {_unit(shape)}")
    if meta.pattern is not None:
        words.append(_PATTERNS.get(meta.pattern, f"that matches {meta.pattern}"))
    return [one for one in words if one]


def _unknown(kind: type[Struct], name: str) -> str:
    offered = [field.name for field in _fields(kind).values() if not _is_unlisted(field)]
    return f"has the unknown field {_called(name)}; there are {', '.join(offered) or 'none'}"


def _is_unlisted(field: Field) -> bool:
    return any(one.extra_json_schema == UNLISTED for shape in field.shapes for one in shape.limits)


def _called(name: str) -> str:
    """A name that somebody chose, or its beginning."""
    return quoted(name if len(name) <= _SHOWN_NAME else name[: _SHOWN_NAME - 3] + "...")
