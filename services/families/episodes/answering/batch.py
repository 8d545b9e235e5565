"""batch_query_episodes and batch_pattern_analysis: many episodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import (
    BatchPatternAnalysis,
    BatchQueryEpisodes,
    EpisodeFilter,
    TimeRange,
)
from mnemolog.projections.episodes import patterns as known
from mnemolog.projections.episodes import state
from mnemolog.projections.episodes.patterns import Pattern, Shown
from mnemolog.projections.episodes.state import Episode, Totals, Wanted
from mnemolog.projections.ranking import wilson
from mnemolog.projections.state.view import View
from mnemolog.services.families.episodes.deciding.tags import clean_tags
from mnemolog.services.families.episodes.lookup import named
from mnemolog.services.families.episodes.problems import invalid
from mnemolog.services.families.episodes.replies import (
    shown_episode,
    shown_pattern,
    shown_reflection,
    shown_step,
)
from mnemolog.services.reader.reader import Read, Reader

PAGE_BYTES = 8 * 1024 * 1024
"""A page ends before it is longer than this, as JSON: half of what a node gives at a time."""
STEPS_AT_ONCE = 50
"""Steps can be long, so few are read at a time."""
ANTI_BELOW = 0.5
"""An anti-pattern fails more often than it succeeds. What succeeds less often and was still asked
for, as often enough, is none: a pattern is never both."""
ADVISED = 3
"""So many sentences each say what to do, and what to avoid."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# --- batch_query_episodes ------------------------------------------------------------------------


def answer_query(reader: Reader, call: Call, args: BatchQueryEpisodes) -> Read:
    """Those with an id in the order in which they were asked for, else the newest first. What is
    counted together is all that match, whichever page is shown."""
    view, place = reader.view, reader.view.space_id(call.space)
    ids = None if args.episode_ids is None else _each(args.episode_ids)
    there = {} if ids is None else state.episodes_called(view, place, ids)
    order = None if ids is None else [there[one].id for one in ids if one in there]
    wanted = _wanted(args.filter or EpisodeFilter(), order)
    page, rows, together = [], [], []
    if place is not None:
        page = _page(view, place, wanted, args)
        rows = _rows(view, page, args)
        together = state.totals(view, place, wanted)
    total = sum(one.count for one in together)
    seen = args.offset + len(rows)
    reply = {
        "requested_count": args.limit if ids is None else len(ids),
        "found_count": len(rows),
        "total_count": total,
        "episodes": rows,
        "statistics": _statistics(together) if args.aggregate_stats else None,
        "not_found": [one for one in ids or [] if one not in there],
        "truncated": len(rows) < len(page),
        "next_offset": seen if rows and seen < total else None,
    }
    return Read(reply, [one.id for one in page[: len(rows)]])


def _each(episode_ids: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(named(one) for one in episode_ids))


def _wanted(asked: EpisodeFilter, numbers: list[int] | None) -> Wanted:
    return Wanted(
        numbers=numbers,
        domain=None if asked.domain is None else asked.domain.strip(),
        task_type=asked.task_type,
        tags=clean_tags(asked.tags or [], "filter.tags"),
        outcome_type="success" if asked.success_only else None,
    )


def _page(view: View, place: int, wanted: Wanted, args: BatchQueryEpisodes) -> list[Episode]:
    if wanted.numbers is None:
        return state.found(view, place, wanted, "newest", args.limit, args.offset)
    found = state.found(view, place, wanted, "newest", len(wanted.numbers))
    by_number = {one.id: one for one in found}
    ordered = [by_number[number] for number in wanted.numbers if number in by_number]
    return ordered[args.offset : args.offset + args.limit]


def _rows(view: View, page: Sequence[Episode], args: BatchQueryEpisodes) -> list[dict[str, Any]]:
    """As many of a page as there is room for, one at least; of one that has no room alone, as many
    of its steps."""
    rows: list[dict[str, Any]] = []
    tags, room = state.tags_of(view, [one.id for one in page]), PAGE_BYTES
    for episode in page:
        row = shown_episode(episode, tags[episode.id])
        if args.include_patterns:
            row["patterns"] = [shown_pattern(one) for one in known.patterns_of(view, episode.id)]
        if args.include_reflections:
            row["reflection"] = shown_reflection(episode)
        room -= len(msgspec.json.encode(row))
        if args.include_steps:
            row["steps"], room = _steps(view, episode, room)
        if room < 0 and rows:
            break
        if room < 0:
            row["steps_truncated"] = True
        rows.append(row)
    return rows


def _steps(view: View, episode: Episode, room: int) -> tuple[list[dict[str, Any]], int]:
    """The steps that there is room for, and how much is left of it: less than none if there was no
    room for one of them."""
    shown: list[dict[str, Any]] = []
    after = 0
    while some := state.steps(view, episode.id, after, STEPS_AT_ONCE):
        for step in some:
            row = shown_step(step)
            room -= len(msgspec.json.encode(row))
            if room < 0:
                return shown, room
            shown.append(row)
        after = some[-1].number
    return shown, room


def _statistics(together: Sequence[Totals]) -> dict[str, Any]:
    """The means are of episodes that have ended."""
    ended = [one for one in together if one.outcome_type is not None]
    count = sum(one.count for one in ended)
    return {
        "count": sum(one.count for one in together),
        "completed": count,
        "success_rate": _mean(sum(one.success for one in ended), count),
        "average_reward": _mean(sum(one.reward for one in ended), count),
        "average_duration_ms": _mean(sum(one.duration_ms for one in ended), count),
        "average_steps": _mean(sum(one.steps for one in ended), count),
        "by_outcome": {one.outcome_type or "active": one.count for one in together},
    }


def _mean(total: float, count: int) -> float | None:
    return round(total / count, 4) if count else None


# --- batch_pattern_analysis ----------------------------------------------------------------------


class Judged(msgspec.Struct, frozen=True):
    """A pattern by what was seen of it within the time."""

    pattern: Pattern
    shown: Shown


def answer_analysis(reader: Reader, call: Call, args: BatchPatternAnalysis) -> Read:
    """What few episodes showed counts as not found. Of each kind at most `limit`, the surest
    first."""
    since_us, until_us = _within(args.time_range or TimeRange())
    view, place = reader.view, reader.view.space_id(call.space)
    domain = args.domain.strip()
    seen: list[Shown] = []
    together: list[Totals] = []
    good: list[Judged] = []
    bad: list[Judged] = []
    if place is not None:
        seen = known.shown_between(
            view, place, domain, args.task_type, since_us, until_us, args.min_episodes
        )
        wanted = Wanted(
            domain=domain,
            task_type=args.task_type,
            completed=True,
            ended_since_us=since_us,
            ended_until_us=until_us,
        )
        together = state.totals(view, place, wanted)
        good, bad = _told_apart(view, place, seen, args)
    reply = {
        "domain": domain,
        "episodes_analyzed": sum(one.count for one in together),
        "total_patterns_found": len(seen),
        "successful_patterns": [_row(one) for one in good],
        "anti_patterns": [_row(one) for one in bad],
        "recommendations": _advice(together, seen, good, bad, args.min_episodes),
    }
    return Read(reply, [one.pattern.id for one in (*good, *bad)])


def _within(asked: TimeRange) -> tuple[int | None, int | None]:
    since_us, until_us = _moment("start", asked.start), _moment("end", asked.end)
    if since_us is not None and until_us is not None and since_us >= until_us:
        issue = f"must be before the end, {asked.end}"
        raise invalid("time_range.start", issue, asked.start)
    return since_us, until_us


def _moment(name: str, text: str | None) -> int | None:
    """Microseconds since 1970; a time that names no zone is UTC."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        issue = "must be a date or time in ISO 8601, such as 2026-02-01T10:30:00Z"
        raise invalid(f"time_range.{name}", issue, text) from None
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(microseconds=1)


def _told_apart(
    view: View, place: int, seen: Sequence[Shown], args: BatchPatternAnalysis
) -> tuple[list[Judged], list[Judged]]:
    """What leads to success and what does not, the surest first."""
    anti_below = min(ANTI_BELOW, args.min_success_rate) if args.include_anti_patterns else 0.0
    good = [one for one in seen if one.success_rate >= args.min_success_rate - 1e-9]
    bad = [one for one in seen if one.success_rate < anti_below - 1e-9]
    good = sorted(good, key=lambda one: (-_least(one), one.pattern))[: args.limit]
    bad = sorted(bad, key=lambda one: (_most(one), one.pattern))[: args.limit]
    there = known.patterns(view, place, [one.pattern for one in (*good, *bad)])
    return (
        [Judged(there[one.pattern], one) for one in good if one.pattern in there],
        [Judged(there[one.pattern], one) for one in bad if one.pattern in there],
    )


def _least(one: Shown) -> float:
    return wilson.lower(one.successes, one.episodes)


def _most(one: Shown) -> float:
    return wilson.upper(one.successes, one.episodes)


def _row(one: Judged) -> dict[str, Any]:
    """Its evidence is what was seen within the time."""
    return {
        **shown_pattern(one.pattern),
        "occurrences": one.shown.episodes,
        "success_rate": round(one.shown.success_rate, 4),
        "success_rate_low": round(_least(one.shown), 4),
        "success_rate_high": round(_most(one.shown), 4),
    }


def _advice(
    together: Sequence[Totals],
    seen: Sequence[Shown],
    good: Sequence[Judged],
    bad: Sequence[Judged],
    min_episodes: int,
) -> list[str]:
    count = sum(one.count for one in together)
    if not seen:
        return [
            f"No pattern was seen in {min_episodes} or more of the {count} episodes yet: more of "
            "them, or a lower min_episodes, would tell more"
        ]
    rate = sum(one.success for one in together) / count if count else 0.0
    if not good and not bad:
        return [f"None of the {len(seen)} patterns stands out from {_percent(rate)} success in all"]
    return [
        *(f"Do: {_said(one, rate)}" for one in good[:ADVISED]),
        *(f"Avoid: {_said(one, rate)}" for one in bad[:ADVISED]),
    ]


def _said(one: Judged, rate: float) -> str:
    return (
        f"{one.pattern.description} — {_percent(one.shown.success_rate)} success in "
        f"{one.shown.episodes} episodes, {_percent(rate)} in all"
    )


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"
