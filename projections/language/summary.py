"""A memory in a few words, for lists that people read."""

from __future__ import annotations

import unicodedata

MAX_SUMMARY = 27


def human_summary(text: str) -> str:
    """A text of up to 30 characters whole; of a longer one at most 27, cut between words, and
    "...". Chinese, and a single word that is too long, is cut between characters."""
    line = " ".join(text.split())
    if len(line) <= MAX_SUMMARY + 3:
        return line
    cut = MAX_SUMMARY
    while cut and not _may_cut(line, cut):
        cut -= 1
    return (line[:cut].rstrip(" ,;:-([{，、；：（") or line[:MAX_SUMMARY]) + "..."


def _may_cut(line: str, at: int) -> bool:
    """Whether to cut before `line[at]`: at a space or the comma before it, beside an ideograph."""
    before, after = line[at - 1], line[at]
    if unicodedata.combining(after):
        return False
    if after == " " or (line[at + 1] == " " and not after.isalnum()):
        return True
    return any(unicodedata.east_asian_width(character) in "WF" for character in (before, after))
