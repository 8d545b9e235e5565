"""Why a text is not JSON that can be read, in words that no library chose."""

from __future__ import annotations

import ast
import json
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemolog.events.depth import is_deeper
from mnemolog.events.json_text import (
    MAX_DIGITS,
    MAX_EXPLAINED,
    quoted,
    shown,
    unreadable,
)

DEEP = "nested too deeply; at most 100 levels are allowed"
HALF = "there is half of a surrogate pair: a character, such as an emoji, was cut in two"
CONTROL = r"there is a control character within quotes; write it as an escape, such as \n"
NAME = "a name in double quotes"

BROKEN = {
    "": "the text ends where a value must come",
    " \n": "the text ends where a value must come",
    "{": f"the text ends where {NAME} must come",
    '{"a"': "the text ends where a colon must come",
    '{"a":': "the text ends where a value must come",
    '{"a": 1': "the text ends where a comma or } must come",
    '{"a": 1,': f"the text ends where {NAME} must come",
    "[1": "the text ends where a comma or ] must come",
    "[1,": "the text ends where a value must come",
    '["a': "the text ends before a closing quote",
    '{"a': "the text ends before a closing quote",
    '"a\\"': "the text ends before a closing quote",
    "grip": "at character 1 there must be a value, not 'g'",
    "{grip": f"at character 2 there must be {NAME}, not 'g'",
    "{'a': 1}": f'at character 2 there must be {NAME}, not "\'"',
    '{"a": 1,}': f"at character 9 there must be {NAME}, not '}}'",
    "[1, 2, ]": "at character 8 there must be a value, not ']'",
    '{"a" 1}': "at character 6 there must be a colon, not '1'",
    '{"a": 1 "b": 2}': "at character 9 there must be a comma or }, not '\"'",
    "[1 2]": "at character 4 there must be a comma or ], not '2'",
    '{"a": [1}': "at character 9 there must be a comma or ], not '}'",
    '{"a": {"b": 1]': "at character 14 there must be a comma or }, not ']'",
    "[01]": "at character 3 there must be a comma or ], not '1'",
    "[1.]": "at character 3 there must be a comma or ], not '.'",
    "[+1]": "at character 2 there must be a value, not '+'",
    "[True]": "at character 2 there must be a value, not 'T'",
    "[\\n1]": "at character 2 there must be a value, not '\\\\'",
    "\ufeff{}": "at character 1 there must be a value, not '\\ufeff'",
    "{} x": "at character 4 the text must end, not go on with 'x'",
    '{"a": 1}}': "at character 9 the text must end, not go on with '}'",
    '["a\nb"]': f"at character 4 {CONTROL}",
    '{"a\t": 1}': f"at character 4 {CONTROL}",
    r'["a\x"]': "at character 4 there is a backslash that begins no escape",
    r'["\u12g4"]': "at character 3 there is a backslash that begins no escape",
    r'["\\\ "]': "at character 5 there is a backslash that begins no escape",
    "[NaN]": "at character 2 there is NaN, which JSON does not have",
    '{"a": -Infinity}': "at character 7 there is -Infinity, which JSON does not have",
    r'["\ud83d"]': f"at character 3 {HALF}",
    r'["\ud83d\ude00 \ude00"]': f"at character 16 {HALF}",
    r'["\\\uD83D\u0041"]': f"at character 5 {HALF}",
    '["\ud83d"]': f"at character 3 {HALF}",
    "[1, 1e400]": "the number at character 5 is too large",
    f"[-{'9' * 400}.5]": "the number at character 2 is too large",
    f'["1e400", {"1" * (MAX_DIGITS + 1)}]': "the number at character 11 has too many digits",
}


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: ascii(text)[:40])
def test_what_is_not_json_is_told_why(text: str) -> None:
    assert unreadable(text) == f"not valid JSON: {BROKEN[text]}"


@pytest.mark.parametrize("rest", ["", "]" * 101, "}", '{"a', "]" * 100])
def test_what_is_too_deep_is_told_so_however_it_goes_on(rest: str) -> None:
    assert unreadable("[" * 101 + rest) == DEEP
    assert unreadable('{"a":' * 101 + rest) == DEEP
    assert unreadable('{"a":[' * 50 + "[" + rest) == DEEP


MANY = 10_000
"""Repetitions that a text may have and still be looked through."""
LARGE = {
    "[" + "1," * MANY: "the text ends where a value must come",
    "[" + "[]," * MANY: "the text ends where a value must come",
    "[" + '[{"a":1}],' * (MANY // 3): "the text ends where a value must come",
    "{" + '"a":0,' * (MANY // 2): f"the text ends where {NAME} must come",
    '"' + r"\"" * MANY: "the text ends before a closing quote",
    '["' + "a" * 3 * MANY: "the text ends before a closing quote",
    "[" + " " * 3 * MANY + "x": f"at character {3 * MANY + 2} there must be a value, not 'x'",
    "[1" + " " * MANY + "x": f"at character {MANY + 3} there must be a comma or ], not 'x'",
    "1" * 3 * MANY: "the number at character 1 has too many digits",
    "1" * 3 * MANY + "e1": "the number at character 1 is too large",
    "[" + "0.5," * MANY + "1e999]": f"the number at character {4 * MANY + 2} is too large",
    '"' + r"\ud83d\ude00" * (MANY // 4) + r'\ud83d"': f"at character {3 * MANY + 2} {HALF}",
}


@pytest.mark.parametrize("text", LARGE, ids=lambda text: f"{text[:6]} ... {text[-6:]}")
def test_a_large_text_is_looked_through_as_well(text: str) -> None:
    assert len(text) <= MAX_EXPLAINED
    assert unreadable(text) == f"not valid JSON: {LARGE[text]}"


def test_a_larger_one_is_not() -> None:
    text = "[" + "1," * MAX_EXPLAINED
    assert unreadable(text) == "not valid JSON"
    assert unreadable("[" * MAX_EXPLAINED * 2) == DEEP


def reads(text: str) -> bool:
    try:
        return not is_deeper(msgspec.json.decode(text), 100)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)
TEXTS = st.builds(
    lambda value, ascii_, indent: json.dumps(value, ensure_ascii=ascii_, indent=indent),
    JSON,
    st.booleans(),
    st.sampled_from([None, 1]),
)
PIECES = st.text(
    alphabet='{}[]:,"\\ \n\tu0123456789.-+eEdDcC8/bfnrtalsNI\x00\x7f\ufeffé😀', max_size=3
)


@given(TEXTS, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2), PIECES), max_size=3))
@example("9" * MAX_DIGITS, [])
@example("-" + "9" * MAX_DIGITS, [])
@example("0." + "9" * 5000, [])
@example("1e-99999999999999999999", [])
@example("0e99999999999999999999", [])
@example("[" * 100 + "]" * 100, [])
@example("[" * 101 + "]" * 101, [])
def test_a_reason_is_found_exactly_where_the_text_is_not_read(
    text: str, edits: list[tuple[int, int, str]]
) -> None:
    for place, removed, piece in edits:
        at = min(place, len(text))
        text = text[:at] + piece + text[at + removed :]
    found = unreadable(text)
    assert (found == "not valid JSON") == reads(text)
    assert len(found) < 200
    # No control characters, halves of characters or ends of lines. Which others can be seen is for
    # each version of Unicode to say.
    assert not {unicodedata.category(one) for one in found} & {"Cc", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("cup", "'cup'"),
        ("it's", '"it\'s"'),
        ('it\'s "it"', "'it\\'s \"it\"'"),
        ("a\\b\n\x00\x85\u2028\U000e0001é", r"'a\\b\n\x00\x85\u2028\U000e0001é'"),
        ("\ufeff😀" * 30, "'" + "\\ufeff😀" * 10 + "\\ufeff..."),
        ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, "a text of 61 characters"),
        (None, "null"),
        (True, "true"),
        (7, "7"),
        (1e300, "1e300"),
        (1.5e-7, "1.5e-7"),
        (0.25, "0.25"),
        (10**100, "1" + "0" * 76 + "..."),
        ([], "[]"),
        ([1, "a\nb", None], '[1,"a\\nb",null]'),
        ([1, 2, 3, 4], "a list of 4"),
        ({}, "{}"),
        ({"a": [{}, []], "b": {"c": "é"}}, '{"a":[{},[]],"b":{"c":"é"}}'),
        ({"a": "x" * 1_000_000}, '{"a":"' + "x" * 71 + "..."),
        ({"x" * 1_000_000: 1}, '{"' + "x" * 75 + "..."),
        ({"a": list(range(300_000))}, '{"a":[' + ",".join(map(str, range(40)))[:71] + "..."),
    ],
)
def test_how_a_value_is_shown(value: Any, words: str) -> None:
    assert shown(value) == words


@given(st.text())
def test_a_quoted_text_can_be_read_back(text: str) -> None:
    assert ast.literal_eval(quoted(text)) == text
