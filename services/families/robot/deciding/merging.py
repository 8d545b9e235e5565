"""Which memories of a session say much the same, and are merged into one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

import msgspec

from mnemolog.projections.language import jaccard, token_set
from mnemolog.projections.robot.state import Brief
from mnemolog.services.families.robot.rules import RobotRules


class Merge(msgspec.Struct, frozen=True):
    """Memories that say much the same: one is kept, the others point to it."""

    kept: int
    superseded: list[int]
    similarities: list[float]


def merge(eligible: Sequence[Brief], rules: RobotRules) -> list[Merge]:
    """Which memories are merged into which, within one category each.

    The most trusted memory is taken first and gathers what is similar to it, so every superseded
    memory really is similar to the one that is kept; a chain of small steps merges nothing.

    Only memories that share one of their rarest words are compared. Once that would take more than
    `rules.consolidate_comparisons`, the memories that are left stay as they are.
    """
    if len(eligible) < rules.consolidate_from:
        return []
    words = {one.id: token_set(one.content) for one in eligible}
    telling = _telling(eligible, words, rules.consolidate_jaccard)
    sharing: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for one in eligible:
        for word in telling[one.id]:
            sharing[one.category, word].append(one.id)
    waiting = {one.id for one in eligible}
    merges = []
    left = rules.consolidate_comparisons
    for kept in sorted(eligible, key=_trust, reverse=True):
        if kept.id not in waiting:
            continue
        waiting.remove(kept.id)
        candidates: set[int] = set()
        for word in telling[kept.id]:
            # Who no longer waits is dropped here, so that nobody is passed over again and again.
            still = [number for number in sharing[kept.category, word] if number in waiting]
            sharing[kept.category, word] = still
            candidates.update(still)
        left -= len(candidates)
        if left < 0:
            break
        close = {
            number: similarity
            for number in sorted(candidates)
            if (similarity := jaccard(words[kept.id], words[number])) > rules.consolidate_jaccard
        }
        if close:
            merges.append(Merge(kept.id, list(close), list(close.values())))
            waiting -= close.keys()
    return merges


def _trust(one: Brief) -> tuple[float, int, int, int]:
    return one.confidence, one.access_count, one.created_at_us, one.id


def _telling(
    eligible: Sequence[Brief], words: dict[int, frozenset[str]], above: float
) -> dict[int, list[str]]:
    """By memory so many of its words, the rarest of its category first, that two memories which are
    more than `above` similar have one of them in common.

    Of n words such a pair shares at least `least(n)`. In one order of all words, the first that
    both have is therefore followed by `least(n) - 1` more in each, and is among the first
    n - least(n) + 1 of each.
    """
    rarity = Counter((one.category, word) for one in eligible for word in words[one.id])

    @cache
    def least(n: int) -> int:
        return next((shared for shared in range(1, n + 1) if shared / n > above), n + 1)

    found = {}
    for one in eligible:
        ordered = sorted(words[one.id], key=lambda word: (rarity[one.category, word], word))
        found[one.id] = ordered[: len(ordered) - least(len(ordered)) + 1]
    return found
