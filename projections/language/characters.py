"""Unicode: cleaning a text, folding accents, and telling the scripts apart."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable


def _runs(numbers: Iterable[int]) -> list[range]:
    """Growing numbers as ranges: a class of ranges compiles much faster than one of characters."""
    runs: list[range] = []
    for n in numbers:
        if runs and runs[-1].stop == n:
            runs[-1] = range(runs[-1].start, n + 1)
        else:
            runs.append(range(n, n + 1))
    return runs


# Written without spaces, segmented by dictionary: Chinese characters, of Japanese too.
HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Written without spaces, or with words that grow endings: kana, hangul, Thai, Lao, Burmese, Khmer.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff"
    "\u3131-\u318e\u31f0-\u31ff\ua960-\ua97f\uac00-\ud7ff"
)
# Vowel signs and accents of scripts such as Devanagari or Arabic are no \w to Python, but belong to
# the word they stand in.
MARKS = "".join(
    f"{chr(run[0])}-{chr(run[-1])}"
    for run in _runs(c for c in range(0x300, 0x1E00) if unicodedata.category(chr(c))[0] == "M")
)

# A character of a word that is neither Han nor of an unspaced script; digits and "_" included.
WORD_CHARACTER = rf"(?:[^\W{HAN}{UNSPACED}]|[{MARKS}])"

_INVISIBLE = re.compile("[\u00ad\ufeff\u2060\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufe00-\ufe0f]")
# Normalising sorts a run of combining marks in quadratic time; real text has no such runs.
_SYMBOL_RUN = re.compile(r"([^\w\s\x00-\x7f]{64})[^\w\s\x00-\x7f]+")

_LATIN_WITHOUT_DECOMPOSITION = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
)
_ACCENTS: dict[int, str | None] = {
    **{
        c: unicodedata.normalize("NFKD", chr(c))[0]
        for c in [*range(0xC0, 0x250), *range(0x1E00, 0x1F00)]
        if unicodedata.decomposition(chr(c))
    },
    **_LATIN_WITHOUT_DECOMPOSITION,
    **dict.fromkeys(range(0x300, 0x370)),
}


def clean(text: str) -> str:
    """NFKC, invisible characters removed, every whitespace one space, stripped; case is kept.

    Of a run of over 64 symbols that are neither words nor ASCII, 64 are kept.
    """
    if not text.isascii():
        text = _SYMBOL_RUN.sub(r"\1", _INVISIBLE.sub("", text))
        text = _SYMBOL_RUN.sub(r"\1", unicodedata.normalize("NFKC", text))
    return " ".join(text.split())


def fold(text: str) -> str:
    """`clean` without regard to case."""
    if text.isascii():
        return clean(text.lower())
    return clean(clean(text).casefold())


def strip_accents(folded: str) -> str:
    """Latin letters without their accents; other scripts, where marks tell words apart, as is."""
    return folded if folded.isascii() else folded.translate(_ACCENTS)
