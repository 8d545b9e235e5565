"""Numbers and units as people write them, brought to one spelling each."""

from __future__ import annotations

import re
from functools import cache

# 1,000 and 12,5 (a decimal comma) and 1.5 and 1.2.3 and 2e-3; never one half of a list as 1,2,3.
NUMBER = (
    r"(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d+)?(?![\d,])"
    r"|(?<!\d,)\d+,\d{1,2}(?![\d,.])"
    r"|\d+(?:\.\d+)*(?:[eE][+-]?\d{1,3}(?!\w))?)"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")

# One symbol per unit, with its other spellings in lower case; a plural s is understood.
_SPELLINGS = {
    "us": "μs|microsecond|微秒",
    "ms": "msec|millisecond|毫秒",
    "s": "sec|second|秒钟|秒",
    "min": "minute|分钟",
    "h": "hr|hour|小时",
    "day": "天",
    "nm": "nanometer|nanometre|纳米",
    "um": "μm|micrometer|micrometre|micron|微米",
    "mm": "millimeter|millimetre|毫米",
    "cm": "centimeter|centimetre|厘米",
    "m": "meter|metre|米",
    "km": "kilometer|kilometre|公里|千米",
    "inch": "inches|英寸",
    "ft": "feet|英尺",
    "mg": "milligram|毫克",
    "g": "gram|克",
    "kg": "kilo|kilogram|公斤|千克",
    "lb": "pound",
    "n": "newton|牛顿|牛",
    "kn": "kilonewton|千牛",
    "mn": "millinewton|毫牛",
    "n·m": "牛·米|牛米",
    "pa": "pascal|帕",
    "hpa": "百帕",
    "kpa": "kilopascal|千帕",
    "bar": "",
    "mbar": "millibar|毫巴",
    "psi": "",
    "°": "deg|degree|度",
    "°c": "c|celsius|摄氏度",
    "°f": "f|fahrenheit|华氏度",
    "k": "kelvin",
    "rad": "radian|弧度",
    "mrad": "milliradian|毫弧度",
    "hz": "hertz|赫兹|赫",
    "khz": "kilohertz|千赫",
    "mhz": "megahertz|兆赫",
    "ghz": "gigahertz",
    "v": "volt|伏特|伏",
    "mv": "millivolt|毫伏",
    "kv": "kilovolt|千伏",
    "a": "amp|ampere|安培",
    "ma": "milliamp|milliampere|毫安",
    "ah": "",
    "mah": "毫安时",
    "w": "watt|瓦特|瓦",
    "mw": "milliwatt|毫瓦",
    "kw": "kilowatt|千瓦",
    "wh": "",
    "kwh": "",
    "j": "joule|焦耳",
    "kj": "kilojoule|千焦",
    "ohm": "ω|欧姆|欧",
    "kohm": "kω|千欧",
    "%": "percent|pct|per cent",
    "‰": "",
    "rpm": "",
    "rps": "",
    "fps": "",
    "db": "decibel|分贝",
    "px": "pixel|像素",
    "l": "liter|litre|升",
    "ml": "milliliter|millilitre|毫升",
    "bit": "",
    "byte": "字节",
    "kb": "kilobyte",
    "mb": "megabyte",
    "gb": "gigabyte",
    "tb": "terabyte",
    "kib": "",
    "mib": "",
    "gib": "",
}
_SYMBOLS = {
    spelling: symbol
    for symbol, spellings in _SPELLINGS.items()
    for spelling in (symbol, *spellings.split("|"))
    if spelling
}
# Milli and mega differ in case alone, and so do nanometres and newton metres.
_CASE_MATTERS = {
    **{mega: f"mega{mega[1:].casefold()}" for mega in ("MN", "MW", "MWh", "MPa", "MJ", "MV", "MΩ")},
    "Nm": "n·m",
}
# After a space a single letter is a unit only as the standard writes it: "5 A", but not "5 a day".
_SPACED_LETTERS = frozenset("NVAWJKCFLsmgh")

# What follows must not be another letter of the word; a Chinese character may follow.
_END = r"(?![^\W\u3400-\u9fff])"
# Case is ignored for the ASCII parts alone: with large classes, compiling that takes long.
_UNIT = (
    "|".join(sorted((s for s in _SYMBOLS if s > "\u3400"), key=len, reverse=True))
    + rf"|(?i:(?:deg(?:rees?)?|°) ?(?P<scale>celsius|fahrenheit|[cf])){_END}"
    + rf"|(?i:per cent|(?P<torque>newton[- ]met(?:er|re)s?)){_END}"
    + rf"|[%‰°]|[A-Za-zμΩω]+{_END}"
)
# The rest of a compound unit: per second squared, times metre, cubed.
_COMPOUND = rf"(?P<joint>[/·*-])?(?P<unit>[A-Za-zμΩω°]+)?\^?(?P<power>-?[23])?{_END}"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when a number is met: that takes milliseconds, and not every text has one."""
    return re.compile(pattern)


def number(digits: str) -> str:
    """One spelling for a number that NUMBER matched: 12.50 is 12.5, 1,000 is 1000, 12,5 is 12.5."""
    if "," in digits:
        thousands = _THOUSANDS.fullmatch(digits)
        digits = digits.replace(",", "" if thousands else ".")
    digits, _, exponent = digits.casefold().partition("e")
    whole, _, fraction = digits.partition(".")
    if "." not in fraction:
        fraction = fraction.rstrip("0")
        digits = (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")
    return f"{digits}e{exponent.lstrip('+')}" if exponent else digits


def unit(spelling: str) -> str | None:
    """The symbol of a unit without regard to case and plural; None when it is not a unit."""
    if spelling in _CASE_MATTERS:
        return _CASE_MATTERS[spelling]
    folded = spelling.casefold()
    found = _SYMBOLS.get(folded)
    if found is None and len(folded) > 3 and folded.endswith("s"):
        found = _SYMBOLS.get(folded[:-1])
    return found


def unit_at(text: str, start: int) -> tuple[str, int]:
    """The symbol of the unit at `start`, a space before it allowed, and where it ends.

    `text` is clean but not case-folded. No unit there: an empty symbol and `start`.
    """
    spaced = text.startswith(" ", start)
    match = _compiled(_UNIT).match(text, start + spaced)
    if match is None:
        return "", start
    spelling = match.group()
    if spaced and len(spelling) == 1 and spelling.isalpha() and spelling.isascii():
        symbol = unit(spelling) if spelling in _SPACED_LETTERS else None
    elif match["scale"]:
        symbol = unit(match["scale"])
    elif match["torque"]:
        symbol = "n·m"
    else:
        symbol = unit(spelling)
    if symbol is None:
        return "", start
    return _compound(text, symbol, match.end())


def _compound(text: str, symbol: str, end: int) -> tuple[str, int]:
    match = _compiled(_COMPOUND).match(text, end)
    if match is None or not match.group():
        return symbol, end
    joint, second, power = match["joint"], match["unit"], match["power"] or ""
    if joint is None:
        return (symbol + power, match.end()) if power and second is None else (symbol, end)
    other = unit(second) if second else None
    if other is None or (joint == "-" and (symbol, other) != ("n", "m")):
        return symbol, end
    return symbol + ("/" if joint == "/" else "·") + other + power, match.end()
