"""analyze_patterns, search_patterns and recommend_patterns: what past episodes have shown.

A pattern is scored by what it is about, where it was seen, how well it did, and how lately. All of
it is shown with the score, so that a caller sees why.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import exp
from typing import Any

import msgspec

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import AnalyzePatterns, RecommendPatterns, SearchPatterns
from mnemolog.projections.episodes import patterns as known
from mnemolog.projections.episodes.patterns import Pattern
from mnemolog.projections.episodes.state import PATTERN
from mnemolog.projections.ranking import wilson
from mnemolog.projections.times import DAY_US
from mnemolog.services.families.episodes.answering.finding import Legs, search
from mnemolog.services.families.episodes.deciding.tags import clean_tags
from mnemolog.services.families.episodes.replies import shown_pattern
from mnemolog.services.reader.reader import Read, Reader

ANALYSED = 1000
"""Among so many patterns with most evidence the most effective are looked for."""
TOOLS_SHOWN = 5
FETCH, MOST_FETCHED = 50, 1000
"""So many candidates are asked of words and of meaning at least; so many at most, when only those
of a domain count. So a search costs the same however many patterns there are."""
UNRELATED, SPAN = 0.5, 0.4
"""Models of sentences give texts that have nothing in common a cosine of 0.5 to 0.6, and texts that
say the same in other words about 0.9: what lies between is spread over 0 to 1."""
TAGS_WEIGH = 0.5
"""Of how well the context fits, when tags are asked for; the rest is the domain's."""
RECENCY_DAYS = 30.0
RECOMMENDED_FROM = 0.4
"""What is less relevant is not recommended."""
WORTH_IT = 0.5
"""Nor is what succeeds less often than this."""


class Parts(msgspec.Struct, frozen=True):
    """Of a score, each from 0 to 1; or how much each of them weighs."""

    semantic: float
    context: float
    effectiveness: float
    """The least that the success rate may well be, given how much evidence there is: one lucky run
    does not beat twenty."""
    recency: float
    success: float


SEARCH = Parts(0.4, 0.2, 0.2, 0.1, 0.1)
RECOMMEND = Parts(0.35, 0.25, 0.25, 0.1, 0.05)


class Sought(msgspec.Struct, frozen=True):
    """What patterns are compared with."""

    query: str
    domain: str
    tags: Collection[str]
    at_us: int


class Scored(msgspec.Struct, frozen=True):
    pattern: Pattern
    parts: Parts
    relevance: float


def answer_analyze(reader: Reader, call: Call, args: AnalyzePatterns) -> Read:
    """The most effective first; the statistics are of all that succeed so often."""
    view = reader.view
    place = view.space_id(call.space)
    found, total = [], known.Summary(0, None, [])
    if place is not None:
        least = args.min_success_rate
        found = known.patterns_for(view, place, args.task_type, least, ANALYSED)
        total = known.summary(view, place, args.task_type, least, TOOLS_SHOWN)
    best = sorted(found, key=lambda one: (-effectiveness(one), -one.id))[: args.limit]
    rate = total.success_rate
    reply = {
        "patterns": [
            {**shown_pattern(one), "effectiveness": round(effectiveness(one), 4)} for one in best
        ],
        "statistics": {
            "total_patterns": total.count,
            "avg_success_rate": None if rate is None else round(rate, 4),
            "most_common_tools": [{"tool": tool, "patterns": count} for tool, count in total.tools],
        },
    }
    return Read(reply, [one.id for one in best])


def answer_search(reader: Reader, call: Call, args: SearchPatterns) -> Read:
    tags = clean_tags(args.tags or [])
    sought = Sought(args.query, args.domain.strip(), tags, call.received_at_us)
    only = sought.domain if args.filter_by_domain else None
    scored, mode = _scored(reader, call.space, sought, SEARCH, args.limit, only)
    best = [one for one in scored if one.relevance >= args.min_relevance][: args.limit]
    reply = {
        "patterns": [_row(one, "score_parts") for one in best],
        "total": len(best),
        "mode": mode,
    }
    return Read(reply, [one.pattern.id for one in best], mode)


def answer_recommend(reader: Reader, call: Call, args: RecommendPatterns) -> Read:
    tags = clean_tags(args.tags or [])
    domain = args.domain.strip()
    sought = Sought(asked_for(args), domain, tags, call.received_at_us)
    scored, mode = _scored(reader, call.space, sought, RECOMMEND, args.limit)
    best = [
        one
        for one in scored
        if one.relevance >= RECOMMENDED_FROM and one.pattern.success_rate >= WORTH_IT
    ][: args.limit]
    reply = {
        "task_description": args.task_description,
        "domain": args.domain,
        "recommendations": [_row(one, "why") for one in best],
        "total": len(best),
        "mode": mode,
    }
    return Read(reply, [one.pattern.id for one in best], mode)


def asked_for(args: RecommendPatterns) -> str:
    """What a task is about, told as a pattern's text tells it: its domain and tags besides."""
    words = [args.domain.strip(), *clean_tags(args.tags or [])]
    return f"{args.task_description.strip()}\n{' '.join(words)}"


def effectiveness(pattern: Pattern) -> float:
    return wilson.lower(pattern.successes, pattern.occurrences)


def _scored(
    reader: Reader,
    space: str,
    sought: Sought,
    weights: Parts,
    limit: int,
    domain: str | None = None,
) -> tuple[list[Scored], str]:
    """The most relevant first, of a `domain` or of all."""
    place = reader.view.space_id(space)
    found, fetch = search(reader, space, PATTERN, sought.query), max(FETCH, 4 * limit)
    while True:
        legs = found.legs(fetch)
        numbers = {*legs.words, *legs.near}
        there = {} if place is None else known.patterns(reader.view, place, numbers)
        wanted = [one for one in there.values() if domain is None or _is_of(one, domain)]
        exhausted = max(len(legs.words), len(legs.near)) < fetch
        if domain is None or len(wanted) >= limit or exhausted or fetch >= MOST_FETCHED:
            break
        fetch = min(4 * fetch, MOST_FETCHED)
    by_rank = Legs(legs.words, [], None).fused
    scored = [_score(one, _semantic(one.id, legs, by_rank), sought, weights) for one in wanted]
    return sorted(scored, key=lambda one: (-one.relevance, -one.pattern.id)), legs.mode


def _score(pattern: Pattern, semantic: float, sought: Sought, weights: Parts) -> Scored:
    age_days = max(0, sought.at_us - pattern.last_at_us) / DAY_US
    parts = Parts(
        semantic=semantic,
        context=_context(pattern, sought),
        effectiveness=effectiveness(pattern),
        recency=exp(-age_days / RECENCY_DAYS),
        success=pattern.success_rate,
    )
    pairs = zip(_values(parts), _values(weights), strict=True)
    return Scored(pattern, parts, sum(part * weight for part, weight in pairs))


def _semantic(number: int, legs: Legs, by_rank: dict[int, float]) -> float:
    """How near it is in meaning; where that cannot be measured, how it does in words."""
    if legs.similar is not None and number in legs.similar:
        return min(1.0, max(0.0, (legs.similar[number] - UNRELATED) / SPAN))
    return by_rank.get(number, 0.0)


def _context(pattern: Pattern, sought: Sought) -> float:
    same = 1.0 if _is_of(pattern, sought.domain) else 0.0
    if not sought.tags:
        return same
    shared = len(set(sought.tags) & set(pattern.tag_names)) / len(sought.tags)
    return (1 - TAGS_WEIGH) * same + TAGS_WEIGH * shared


def _is_of(pattern: Pattern, domain: str) -> bool:
    return pattern.domain.casefold() == domain.casefold()


def _values(parts: Parts) -> Sequence[float]:
    return msgspec.structs.astuple(parts)


def _row(one: Scored, name: str) -> dict[str, Any]:
    parts = msgspec.structs.asdict(one.parts)
    return {
        **shown_pattern(one.pattern),
        "relevance_score": round(one.relevance, 4),
        name: {part: round(value, 4) for part, value in parts.items()},
    }
