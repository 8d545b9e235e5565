"""How much of one text is in another: a cheap look at words, for texts by the hundred."""

from __future__ import annotations

import re
from collections.abc import Set
from functools import cache, lru_cache

from mnemolog.projections.language.characters import (
    HAN,
    UNSPACED,
    WORD_CHARACTER,
    fold,
    strip_accents,
)

REMEMBERED_LENGTH = 400
LENGTH_RATIO = 2
"""Containment asks for one text to be at least so many times as long as the other."""

_ASCII_WORD = re.compile(r"\w+", re.ASCII)


@cache
def _word() -> re.Pattern[str]:
    """Compiled for the first text that is not ASCII: that takes milliseconds."""
    return re.compile(rf"[{HAN}{UNSPACED}]|{WORD_CHARACTER}+")


def word_set(text: str) -> frozenset[str]:
    """The different words of a text, case and Latin accents folded; of a script without spaces,
    its characters. Several times as fast as `token_set`, which also knows numbers and units."""
    return _remembered(text) if len(text) <= REMEMBERED_LENGTH else _words(text)


def asymmetric(a: str, b: str) -> bool:
    """Whether one text is at least twice as long as the other, and so could contain it."""
    return len(a) >= LENGTH_RATIO * len(b) or len(b) >= LENGTH_RATIO * len(a)


def containment(short: Set[str], long: Set[str]) -> float:
    """The share of the shorter text's words that are in the longer one, 0.0 to 1.0."""
    return len(short & long) / len(short) if short else 0.0


def _words(text: str) -> frozenset[str]:
    if text.isascii():
        return frozenset(_ASCII_WORD.findall(text.lower()))
    return frozenset(_word().findall(strip_accents(fold(text))))


# What an entity says is looked at again with every observation that is added to it.
_remembered = lru_cache(maxsize=2048)(_words)
