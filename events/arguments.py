"""From JSON to a tool's argument struct, or one sentence that says what was wrong.

The struct is the single source: its types and limits make the tool's JSON schema, the check, and
the sentence a caller gets. What finds the words for that sentence is loaded when a call is refused:
no other needs it, and it would take a large part of the time until a client is greeted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec

from mnemolog.events.depth import MAX_DEPTH as MAX_DEPTH
from mnemolog.events.depth import TOO_DEEP
from mnemolog.events.depth import is_deeper as is_deeper
from mnemolog.events.fields import NO_CONTROLS as NO_CONTROLS
from mnemolog.events.fields import NOT_BLANK as NOT_BLANK
from mnemolog.events.fields import UNLISTED as UNLISTED
from mnemolog.events.fields import UnknownField as UnknownField

MAX_ARGUMENT_BYTES = 1024 * 1024
"""A call's arguments may be this large as JSON; a larger call is refused."""
DO_NOT_FIT = "The arguments do not fit the tool; its schema says what it takes"
"""For what msgspec refuses and we find nothing wrong with."""


class Refused(Exception):
    """A call that is not carried out, with the sentence for its caller. `code` is a JSON-RPC error
    code where it has to be one, and `data` what such an error says besides."""

    def __init__(
        self, sentence: str, *, code: int | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
        self.data = data or {}


class Unfit(Refused):
    """Arguments that do not fit the tool: which of them, what is wrong with it, and what it was."""

    def __init__(self, field: str, issue: str, value: Any, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field
        self.issue = issue
        self.value = value


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every tool's arguments: unknown ones are refused."""


A = TypeVar("A", bound=Arguments)

Name = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=128, pattern=NO_CONTROLS, examples=["default"]),
]
"""A name people choose: 1 to 128 characters, not blank, no control characters."""


def parse(kind: type[A], data: bytes) -> A:
    """The arguments in `data`, or `Refused`."""
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise Refused(f"The arguments are {_unreadable_bytes(data)}") from None
    if is_deeper(raw, MAX_DEPTH):
        raise Refused(f"The arguments are {TOO_DEEP}")
    if not isinstance(raw, dict):
        raise Refused(f"The arguments must be a JSON object, not {_kind(raw)}")
    required = _required(kind)
    for name in raw:
        if name not in required:
            raise _unknown(kind, name, raw[name])
    # Some clients send null for every argument that they leave out.
    raw = {name: value for name, value in raw.items() if value is not None or required[name]}
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        raise _problem(kind, raw) from None


@cache
def _required(kind: type[Arguments]) -> dict[str, bool]:
    """By name whether an argument must be given."""
    return {field.encode_name: field.required for field in msgspec.structs.fields(kind)}


def _unknown(kind: type[Arguments], name: str, value: Any) -> Unfit:
    from mnemolog.events.problems import unknown_argument

    sentence = unknown_argument(kind, name)
    return Unfit(name, sentence, value, sentence)


def _problem(kind: type[Arguments], raw: dict[str, Any]) -> Unfit:
    from mnemolog.events.problems import first_problem

    found = first_problem(kind, raw)
    if found is None:
        return Unfit("", DO_NOT_FIT, None, DO_NOT_FIT)
    return Unfit(found.at, found.words, raw.get(found.argument), found.sentence)


def _unreadable(text: str) -> str:
    from mnemolog.events.json_text import unreadable

    return unreadable(text)


def _unreadable_bytes(data: bytes) -> str:
    try:
        return _unreadable(data.decode())
    except UnicodeDecodeError as error:
        return f"not valid JSON: byte {error.start + 1} is not valid UTF-8"


def json_object(name: str, text: str | dict[str, Any] | None) -> dict[str, Any] | None:
    """The object that a JSON-valued argument holds; None when it was left out or empty."""
    if text is None or (isinstance(text, str) and not text.strip()):
        return None
    if isinstance(text, dict):
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        why = _unreadable(text)
        if why == TOO_DEEP:
            raise Refused(f"{name} is {TOO_DEEP}") from None
        raise Refused(
            f'{name} must be a JSON object as text, for example {{"a": 1}}; it is {why}'
        ) from None
    if is_deeper(value, MAX_DEPTH):
        raise Refused(f"{name} is {TOO_DEEP}")
    if not isinstance(value, dict):
        raise Refused(f"{name} must be a JSON object, not {_kind(value)}")
    return value


def check_size(name: str, value: str | dict[str, Any], most: int) -> None:
    """Refuses a JSON-valued argument of more than `most` bytes."""
    # A lone surrogate is not what is asked about here.
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
    else:
        data = msgspec.json.encode(value)
    if len(data) > most:
        raise Refused(
            f"{name} has {len(data):,} bytes as JSON text; at most {most:,} are taken: leave out "
            "what nobody will look for"
        )


def finite_numbers(name: str, value: Any) -> list[float]:
    """`value` as a non-empty list of finite numbers."""
    ok = isinstance(value, list) and value and all(is_finite(one) for one in value)
    if not ok:
        raise Refused(f"{name} must be a list of finite numbers, such as [1.3, 0.7, 0.42]")
    return [float(one) for one in value]


def is_finite(value: Any) -> bool:
    """Whether it is a number, neither true nor false, that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _kind(value: Any) -> str:
    names = {str: "text", list: "a list", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")
