"""The guard against false duplicates: the numbers, units and denials of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from mnemolog.projections.language.characters import WORD_CHARACTER, clean
from mnemolog.projections.language.numbers import NUMBER, number, unit_at
from mnemolog.projections.language.words import MAX_CHARACTERS

_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
# "One" is mostly a pronoun or an article, and leaving it out still tells it from "two".
_NUMBER_WORDS = (
    {word: i for i, word in enumerate(_ONES[1:], 2)}
    | {word: 10 * i for i, word in enumerate(_TENS, 2)}
    | {"zero": 0, "ten": 10, "eleven": 11, "twelve": 12, "dozen": 12, "fifteen": 15}
    | {"hundred": 100, "thousand": 1000, "million": 1_000_000, "twice": 2, "thrice": 3}
)
_ONES_AFTER_TENS = re.compile(rf"[- ]({'|'.join(_ONES)})(?!\w)", re.IGNORECASE)

_DENIAL = re.compile(
    "not?|never|none|nothing|nobody|nowhere|neither|nor|non|without|cannot|unless"
    "|avoid(?:s|ed|ing)?|forbid(?:s|den)?|prohibited"
    "|(?:do|does|did|ca|is|are|was|were|wo|would|should|could|has|have|must)nt"
    "|nunca|jam[aá]s|sin|ning[uú]n[oa]?|nada|tampoco"
)
_ABBREVIATED_NUMBER = re.compile(r"\. ?\d")
# Words in which the character denies nothing come first and take it away from the denials.
_CHINESE_DENIAL = re.compile(
    "[特分识識辨级級类類区區性判鉴鑑个個派差告离離][别別]|[别別][的人处處名]"
    "|非常|非洲|[无無](?:[论論线線刷穷窮]|人[机機])|未[来來]|[沉淹埋出][没沒]"
    "|不(?:[锈鏽][钢鋼]|[仅僅但断斷管论論])|差不多"
    "|(?P<denial>禁止|[严嚴]禁|避免|[不没沒无無未别別勿非])"
)

_DIGITS = {digit: i for i, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_PLACES = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "萬": 10_000}
_NUMERAL = "〇零一二三四五六七八九十百千万萬两兩"
_COUNTED = (
    "[次个個遍倍轮輪步层層只隻台条條件种種根把块塊号號度秒天米克牛赫伏瓦]"
    "|分[钟鐘]|小[时時]|毫|厘|公[斤里]"
)

_LEXEME = (
    rf"(?P<number>{NUMBER})(?P<suffix>{WORD_CHARACTER}*)"
    rf"|(?P<word>{WORD_CHARACTER}+(?:(?<=\d)\.\d+{WORD_CHARACTER}*)*)"
    r"(?P<nt>(?<=[nN])['’][tT](?!\w))?"
    rf"|百分之(?:(?P<percent>[{_NUMERAL}]{{1,9}})|(?=\d))"
    rf"|第(?P<ordinal>[{_NUMERAL}]{{1,9}})"
    rf"|(?P<numeral>[{_NUMERAL}]{{1,9}})(?={_COUNTED})"
)
_COMPARISONS = {"<": "<", ">": ">", "<=": "<=", ">=": ">=", "≤": "<=", "≥": ">=", "≠": "!="}


@cache
def _lexeme() -> re.Pattern[str]:
    """Compiled when a text is written: that takes milliseconds, and whoever only reads does not
    need it."""
    return re.compile(_LEXEME)


def guard(text: str) -> str:
    """A signature of the numbers, units and denials of a text; empty when it has none.

    Texts with different signatures are not duplicates, however many words they share. The order in
    which things are said, case, and everything else do not count. In the signature, each as often
    as it occurs:

    - a number with its sign, its unit and a comparison before it, in one spelling: `15N`, `15 N`
      and `15 newtons` agree, `12.50` and `12.5`, `three times` and `3 times`, `百分之八十` and
      `80%`; `-5 °C` and `5 °C`, `> 80%` and `< 80%` differ. 1 in words is not counted.
    - a name with a digit in it: `UR5e`, `joint3`, `v1.5`.
    - `not` for each denial: not, n't, no, never, without, unless, avoid, forbidden and the like,
      in Spanish no, nunca, sin, ninguno, in Chinese 不 没 无 未 别 勿 非 禁止 避免.
    """
    cleaned = clean(text[:MAX_CHARACTERS])[:MAX_CHARACTERS]
    parts = [*_stated(cleaned), *_denied_in_chinese(cleaned)]
    return " ".join(sorted(parts))


def _stated(text: str) -> Iterator[str]:
    """Numbers, names with digits, and denials in scripts that put spaces between words."""
    position = 0
    percent = False
    while match := _lexeme().search(text, position):
        position = match.end()
        if digits := match["number"]:
            value = number(digits)
            symbol, end = unit_at(text, match.end("number"))
            if end >= position:
                position = end
            else:
                # Letters that are no unit (3x, 2nd), or a name that begins with a digit (2f85).
                symbol = match["suffix"].casefold()
            if percent and not symbol:
                symbol = "%"
            yield _before(text, match.start()) + value + symbol
        elif word := match["word"]:
            folded = word.casefold()
            if match["nt"] or _denies(folded, text, position):
                yield "not"
            elif folded in _NUMBER_WORDS:
                value, position = _written(folded, text, position)
                symbol, position = unit_at(text, position)
                yield value + symbol
            elif any(character.isdecimal() for character in folded):
                yield folded
        elif match["percent"]:
            yield f"{_chinese(match['percent'])}%"
        elif match["ordinal"]:
            yield str(_chinese(match["ordinal"]))
        # A lone 一 is an article, a lone 千 the beginning of 千克.
        elif (
            (numeral := match["numeral"]) and numeral != "一" and not set(numeral) <= set("百千万")
        ):
            symbol, position = unit_at(text, position)
            yield f"{_chinese(numeral)}{symbol}"
        percent = match.group() == "百分之"


def _before(text: str, start: int) -> str:
    """The sign and the comparison that stand before the number at `start`."""
    sign = ""
    if text[start - 1 : start] in ("-", "−") and not _joins(text[start - 2 : start - 1]):
        sign = "-"
        start -= 1
    ahead = text[max(0, start - 3) : start].rstrip(" ")
    comparison = _COMPARISONS.get(ahead[-2:]) or _COMPARISONS.get(ahead[-1:], "")
    if ahead[-2:] in ("->", "=>"):
        comparison = ""
    return ("!=" if ahead[-2:] == "!=" else comparison) + sign


def _joins(character: str) -> bool:
    """Whether a hyphen after this character is a range or a dash rather than a minus sign."""
    return character.isalnum() or character in tuple(")]%°-_")


def _denies(word: str, text: str, end: int) -> bool:
    if _DENIAL.fullmatch(word) is None:
        return False
    if word == "no":
        return _ABBREVIATED_NUMBER.match(text, end) is None
    return word != "sin" or not text.startswith("(", end)


def _written(word: str, text: str, end: int) -> tuple[str, int]:
    value = _NUMBER_WORDS[word]
    if word in _TENS and (ones := _ONES_AFTER_TENS.match(text, end)):
        return str(value + _ONES.index(ones[1].casefold()) + 1), ones.end()
    return str(value), end


def _denied_in_chinese(text: str) -> list[str]:
    if text.isascii():
        return []
    return ["not" for match in _CHINESE_DENIAL.finditer(text) if match["denial"]]


def _chinese(numeral: str) -> int:
    """三十五 is 35, 两百 is 200; without places, the digits one after another: 二〇 is 20."""
    if not set(numeral) & set(_PLACES):
        return int("".join(str(_DIGITS[digit]) for digit in numeral))
    total = section = digit = 0
    for character in numeral:
        place = _PLACES.get(character)
        if place is None:
            digit = _DIGITS[character]
        elif place == 10_000:
            total, section, digit = (total + section + digit or 1) * place, 0, 0
        else:
            section, digit = section + (digit or 1) * place, 0
    return total + section + digit
