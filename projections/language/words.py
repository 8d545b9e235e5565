"""Words: the exact-match form of a text, its tokens, and how much two texts share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Set
from functools import cache, lru_cache
from itertools import islice

from mnemolog.projections.language.characters import (
    HAN,
    UNSPACED,
    WORD_CHARACTER,
    fold,
    strip_accents,
)
from mnemolog.projections.language.numbers import NUMBER, number, unit

MAX_CHARACTERS = 65_536
"""Of a longer text, `tokens`, `token_set` and `guard` read this many characters."""

MAX_TOKENS = 65_536
REMEMBERED_LENGTH = 1_000
MAX_TOKEN_LENGTH = 64
"""A longer word (a key, a data URL) is known by its first characters."""

# What may end a sentence without changing what it says; a question mark changes it.
_ENDINGS = " .。!;,、:"

_LEXEME = re.compile(
    rf"(?P<han>[{HAN}]+)"
    rf"|(?P<unspaced>[{UNSPACED}]+)"
    rf"|(?P<number>{NUMBER})(?P<suffix>{WORD_CHARACTER}*)"
    # A dotted version belongs to its identifier: v1.5.
    rf"|(?P<word>{WORD_CHARACTER}+(?:(?<=\d)\.\d+{WORD_CHARACTER}*)*)"
    rf"(?:['’](?P<clitic>[a-z]{{1,2}})(?!\w))?"
)


def normalise(text: str) -> str:
    """The form in which two texts are the same text: NFKC, case-folded, whitespace collapsed.

    A full stop, exclamation mark, comma, colon or semicolon at the end does not count, unless there
    is nothing else. Accents and all other punctuation count. Idempotent.
    """
    folded = fold(text)
    return folded.rstrip(_ENDINGS) or folded


def content_hash(text: str) -> str:
    """SHA-256 of the normalised text, in hex."""
    return hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).hexdigest()


def tokens(text: str) -> list[str]:
    """The words and numbers of a text in order, with repeats, case and Latin accents folded.

    - `grip_force` gives itself and its parts, so it is found either way; `v1.5`, `UR5e` are whole.
    - A number is in one spelling (12.50 is 12.5) and apart from its unit: `15N` is as `15 N`.
    - Chinese is segmented by dictionary, long words also into the shorter ones in them; unknown
      words fall into characters. Kana, hangul, Thai and the like give pairs of characters.
    - `don't` is `do not`, a possessive s is dropped; there is no stemming and there are no stop
      words.
    """
    return list(_remembered(text) if len(text) <= REMEMBERED_LENGTH else _split(text))


def token_set(text: str) -> frozenset[str]:
    """The different tokens of a text, for `jaccard`."""
    return frozenset(_remembered(text) if len(text) <= REMEMBERED_LENGTH else _split(text))


def _split(text: str) -> tuple[str, ...]:
    folded = fold(text[:MAX_CHARACTERS])[:MAX_CHARACTERS]
    return tuple(token[:MAX_TOKEN_LENGTH] for token in islice(_tokens(folded), MAX_TOKENS))


# One call looks at the same text several times: to find its twin, to store it, to index it.
_remembered = lru_cache(maxsize=256)(_split)


def jaccard(a: Set[str], b: Set[str]) -> float:
    """Shared tokens over all tokens, 0.0 to 1.0; texts without any token share nothing."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def _tokens(folded: str) -> Iterator[str]:
    for match in _LEXEME.finditer(folded):
        kind = match.lastgroup
        if kind == "word" and match.group().isalpha() and match.group().isascii():
            yield match.group()  # most words, by the short way
        elif kind == "han":
            yield from _segmenter()(match.group())
        elif kind == "unspaced":
            yield from _pairs(match.group())
        elif kind == "suffix":
            yield from _quantity(match["number"], match["suffix"])
        else:
            yield from _word(match["word"], match["clitic"])


@cache
def _segmenter() -> Callable[[str], list[str]]:
    # The dictionary costs 0.15 s and 33 MB, and only Chinese needs it.
    import rjieba

    # Without the guessing of unknown words: it glues characters differently in different
    # sentences ("中未" in "仿真中未检查"), and then a query misses the text.
    return lambda run: rjieba.cut_for_search(run, False)


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def _quantity(digits: str, suffix: str) -> Iterator[str]:
    if suffix and unit(suffix) is None:
        yield from _identifier(strip_accents(digits + suffix))
        return
    yield number(digits)
    if suffix:
        yield suffix


def _word(word: str, clitic: str | None) -> Iterator[str]:
    if clitic == "t" and len(word) > 2 and word.endswith("n"):
        yield {"ca": "can", "wo": "will", "sha": "shall"}.get(word[:-1], word[:-1])
        yield "not"
        return
    yield from _identifier(strip_accents(word))
    # One letter is an ending of English; two may be a word of its own, as in l'ai.
    if clitic and len(clitic) == 2 and clitic not in ("re", "ve", "ll"):
        yield clitic


def _identifier(word: str) -> Iterator[str]:
    whole = word.strip("_")
    parts = [part for part in whole.split("_") if part]
    if len(parts) > 1:
        yield whole
    for part in parts:
        yield number(part) if part.isdecimal() else part
