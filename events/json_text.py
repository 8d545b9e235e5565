"""JSON as text: why it cannot be read, and how a value is shown to people.

What is said here becomes part of decisions, which must come out the same for ever. So it depends
on nothing that a new version of a library, or of Python, could word otherwise.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from mnemolog.events.depth import MAX_DEPTH, TOO_DEEP

MAX_DIGITS = 4300
"""A whole number of more digits, its sign included, is not read."""
MAX_EXPLAINED = 64 * 1024
"""So many characters of a text are looked through for what is wrong with it: it takes half a second
for each million, and whoever else is served waits."""

_SPACE = r"[ \t\n\r]*"
_OPENED = r'"[^"\\\x00-\x1f]*'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SCALAR = rf'(?:{_OPENED}"|{_NUMBER}|true|false|null)'
_COMMA = rf"{_SPACE},{_SPACE}"

_short_escape = re.compile(r'\\["\\/bfnrt]')
_long_escape = re.compile(r"\\u[0-9a-fA-F]{4}")
_space = re.compile(_SPACE)
_opened = re.compile(_OPENED)
_scalar = re.compile(_SCALAR)
_name = re.compile(rf'{_OPENED}"')
_colon = re.compile(rf"{_SPACE}:{_SPACE}")
# Most of a text is passed over by these. Each match is bounded, and so is the memory it takes.
_entries = re.compile(rf"(?:{_SCALAR}{_COMMA}){{0,500}}")
_members = re.compile(rf'(?:{_OPENED}"{_SPACE}:{_SPACE}{_SCALAR}{_COMMA}){{0,500}}')

_constant = re.compile(r"NaN|-?Infinity")
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_half = re.compile(rf"{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}|[\ud800-\udfff]")
_number = re.compile(rf'"[^"]*"|(?P<number>{_NUMBER})')

# Characters that would not be seen, or would change how others are seen. A list of our own: what
# Python takes for printable grows with Unicode.
_unseen = re.compile(
    r"[\x00-\x1f\x7f-\xa0\xad\u061c\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

_SHOWN_TEXT = 60
_SHOWN_ENTRIES = 3
_SHOWN = 80


def unreadable(text: str) -> str:
    """What a text is that was not taken as JSON: not valid JSON, and why, or nested too deeply. It
    takes a few passes over the text, however it is broken."""
    whole, text = text, text[:MAX_EXPLAINED]
    # Escapes make way for as many other characters: a backslash that is left begins none.
    with_long = _short_escape.sub("__", text)
    plain = _long_escape.sub("______", with_long)
    why = _misshapen(plain, text) or _half_character(with_long) or _unfit_number(plain)
    if why is None or why == TOO_DEEP or len(whole) > len(text):
        return TOO_DEEP if why == TOO_DEEP else "not valid JSON"
    return f"not valid JSON: {why}"


def shown(value: Any) -> str:
    """A value in a sentence, or how large it is."""
    if isinstance(value, str):
        if len(value) > _SHOWN_TEXT:
            return f"a text of {len(value)} characters"
        return _cut(quoted(value))
    if isinstance(value, list) and len(value) > _SHOWN_ENTRIES:
        return f"a list of {len(value)}"
    text = ""
    for piece in _written(value):
        text += piece
        if len(text) > _SHOWN:
            break
    return _cut(text)


def quoted(text: str) -> str:
    """A text in quotes, with escapes for what could not be seen."""
    quote = '"' if "'" in text and '"' not in text else "'"
    text = text.replace("\\", "\\\\").replace(quote, f"\\{quote}")
    return quote + _unseen.sub(_escape, text) + quote


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number > 0xFFFF:
        return f"\\U{number:08x}"
    return _ESCAPES.get(found[0]) or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")


def _written(value: Any) -> Iterator[str]:
    """A value as JSON, piece by piece: of a large one only the beginning is wanted."""
    if isinstance(value, dict):
        between = "{"
        for name, one in value.items():
            yield f"{between}{_written_text(name)}:"
            yield from _written(one)
            between = ","
        yield "}" if value else "{}"
    elif isinstance(value, list):
        between = "["
        for one in value:
            yield between
            yield from _written(one)
            between = ","
        yield "]" if value else "[]"
    elif isinstance(value, str):
        yield _written_text(value)
    elif isinstance(value, float):
        yield repr(value).replace("e+", "e").replace("e-0", "e-")
    else:
        yield json.dumps(value)


def _written_text(text: str) -> str:
    return json.dumps(text[: _SHOWN + 1], ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _misshapen(text: str, given: str) -> str | None:
    """The first place at which a text stops being JSON, or goes too deep. It is looked for in
    `text`, which has no escapes, and shown as it was `given`."""
    within: list[str] = []
    at = _skip(_space, text, 0)
    while True:
        # Here begins a value, or in an object the name of one.
        if within and within[-1] == "}":
            at = _skip(_members, text, at)
            name = _name.match(text, at)
            if name is None:
                return _no_text(text, given, at, "a name in double quotes")
            colon = _colon.match(text, name.end())
            if colon is None:
                return _instead_of(given, _skip(_space, text, name.end()), "a colon")
            at = colon.end()
        elif within:
            at = _skip(_entries, text, at)
        if text.startswith(("[", "{"), at):
            within.append("]" if text[at] == "[" else "}")
            if len(within) > MAX_DEPTH:
                return TOO_DEEP
            at = _skip(_space, text, at + 1)
            if not text.startswith(within[-1], at):
                continue
        else:
            scalar = _scalar.match(text, at)
            if scalar is None:
                return _no_value(text, given, at)
            at = _skip(_space, text, scalar.end())
        while within and text.startswith(within[-1], at):
            within.pop()
            at = _skip(_space, text, at + 1)
        if not within:
            break
        if not text.startswith(",", at):
            return _instead_of(given, at, f"a comma or {within[-1]}")
        at = _skip(_space, text, at + 1)
    if at < len(text):
        return f"at character {at + 1} the text must end, not go on with {quoted(given[at])}"
    return None


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what matches ends; `pattern` also matches nothing."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _no_value(text: str, given: str, at: int) -> str:
    constant = _constant.match(text, at)
    if constant:
        return f"at character {at + 1} there is {constant[0]}, which JSON does not have"
    return _no_text(text, given, at, "a value")


def _no_text(text: str, given: str, at: int, wanted: str) -> str:
    """Why there is no text in quotes here, though one may have been begun."""
    opened = _opened.match(text, at)
    if opened is None:
        return _instead_of(given, at, wanted)
    at = opened.end()
    if at == len(text):
        return "the text ends before a closing quote"
    if text[at] == "\\":
        return f"at character {at + 1} there is a backslash that begins no escape"
    return (
        f"at character {at + 1} there is a control character within quotes; "
        r"write it as an escape, such as \n"
    )


def _instead_of(given: str, at: int, wanted: str) -> str:
    if at == len(given):
        return f"the text ends where {wanted} must come"
    return f"at character {at + 1} there must be {wanted}, not {quoted(given[at])}"


def _half_character(text: str) -> str | None:
    half = _half.search(text)
    if half is None:
        return None
    return (
        f"at character {half.start() + 1} there is half of a surrogate pair: a character, such as "
        "an emoji, was cut in two"
    )


def _unfit_number(text: str) -> str | None:
    for found in _number.finditer(text):
        number = found["number"]
        if number is None:
            continue
        if number.lstrip("-").isdigit():
            if len(number) > MAX_DIGITS:
                return f"the number at character {found.start() + 1} has too many digits"
        elif math.isinf(float(number)):
            return f"the number at character {found.start() + 1} is too large"
    return None
