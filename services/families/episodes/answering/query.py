"""query_memory and query_semantic_memory: past experiences for a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import QueryMemory, QuerySemanticMemory
from mnemolog.projections.episodes import patterns as known
from mnemolog.projections.episodes import provided, state
from mnemolog.projections.episodes.state import EPISODE, Episode, Step
from mnemolog.projections.state.view import View
from mnemolog.services.families.episodes.answering.finding import (
    MAX_FETCH,
    Legs,
    Search,
    chosen,
    search,
)
from mnemolog.services.families.episodes.problems import invalid, unavailable
from mnemolog.services.families.episodes.replies import mean, shown_episode, shown_pattern
from mnemolog.services.reader.reader import Read, Reader, no_model

POOL = 100
"""An order other than by relevance is made among so many of the most relevant."""
SAME_DOMAIN = 0.25
"""By so much more an episode of the domain asked for weighs."""
STEPS_SHOWN = 20
ACTION_SHOWN = 200
PATTERNS_SHOWN = 5
AWAY = "The vector store does not answer; try again soon. query_memory searches by words meanwhile"
SIMILAR = 0.7
"""An episode is similar from here on, unless the caller or the configuration says otherwise."""


class Ranked(msgspec.Struct, frozen=True):
    episode: Episode
    relevance: float


def answer_query(reader: Reader, call: Call, args: QueryMemory) -> Read:
    view = reader.view
    place = view.space_id(call.space)
    if place is None:
        return Read(_reply(view, [], Legs([], [], None)), [])
    found = search(reader, call.space, EPISODE, args.query)
    pool = args.limit if args.sort == "relevance" else max(POOL, args.limit)
    ranked, legs = _relevant(found, place, args, pool)
    if args.sort != "relevance":
        ranked = sorted(ranked, key=_ORDERS[args.sort])
    best = ranked[: args.limit]
    return Read(_reply(view, best, legs), [one.episode.id for one in best], legs.mode)


def answer_semantic(reader: Reader, call: Call, args: QuerySemanticMemory) -> Read:
    """By meaning alone; what has no vector yet is not found. While a provider is away, by words, so
    that an agent that asks then is not left alone; it is told so."""
    view = reader.view
    found, choice = search(reader, call.space, EPISODE, args.query), chosen(reader, call.space)
    if choice is None:
        _check_own_model(reader, found, args.query)
    threshold = _threshold(view, call.space, args)
    rows, why = _similar(found, args, threshold, choice is not None)
    model = choice.name if choice is not None else reader.model.name if reader.model else None
    shown = [_row(view, one, "similarity") for one in rows]
    reply: dict[str, Any] = {
        "episodes": [{**one, "similarity": None} for one in shown] if why else shown,
        "total": len(rows),
        "mode": "bm25_only" if why else "vec_only",
        "model": model,
        "similarity_threshold": threshold,
    }
    if why:
        reply["reason"] = why
    if reader.pending:
        reply["pending"] = reader.pending
    return Read(reply, [one.episode.id for one in rows], reply["mode"])


def _check_own_model(reader: Reader, found: Search, query: str) -> None:
    if reader.model is None or reader.loaded() is None:
        raise unavailable(no_model(reader.model, "query_memory").sentence)
    if found.vector is None:
        issue = f"is in a script that {reader.model.name} does not cover; query_memory takes words"
        raise invalid("query", issue, query)


def _threshold(view: View, space: str, args: QuerySemanticMemory) -> float:
    """What the caller says, else the configuration, else the usual."""
    configured = provided.choice(view, space)
    if args.similarity_threshold is not None:
        return args.similarity_threshold
    given = None if configured is None else configured.similarity_threshold
    return SIMILAR if given is None else given


def _similar(
    found: Search, args: QuerySemanticMemory, threshold: float, is_provided: bool
) -> tuple[list[Ranked], str]:
    """The nearest that are near enough and pass the filters; or what has the query's words, and why
    how similar that is cannot be told."""
    view, place = found.reader.view, found.reader.view.space_id(found.space)
    if place is None:
        return [], ""
    fetch = args.limit * 4
    while True:
        legs = found.legs(fetch) if is_provided else None
        similar = found.nearest(fetch) if legs is None else legs.similar
        if similar is None and legs is not None:
            there = _passing(view, place, legs.words, args)
            return [Ranked(one, 0.0) for one in there][: args.limit], legs.why
        if similar is None:
            raise unavailable(AWAY)
        near = [number for number, score in similar.items() if score >= threshold]
        rows = [Ranked(one, similar[one.id]) for one in _passing(view, place, near, args)]
        # Beyond the last one there is nothing nearer.
        last = min(similar.values(), default=0.0)
        enough = len(rows) >= args.limit or last < threshold
        if enough or len(similar) < fetch or fetch >= MAX_FETCH:
            return rows[: args.limit], ""
        fetch = min(fetch * 4, MAX_FETCH)


def _passing(
    view: View, place: int, numbers: Sequence[int], args: QuerySemanticMemory
) -> list[Episode]:
    """Those of `numbers`, in their order, that pass the filters."""
    domain = None if args.domain is None else args.domain.strip()
    there = state.episodes(view, place, numbers)
    return [
        one
        for number in numbers
        if (one := there.get(number)) is not None
        and domain in (None, one.domain)
        and args.task_type in (None, one.task_type)
    ]


def _relevant(
    found: Search, place: int, args: QueryMemory, count: int
) -> tuple[list[Ranked], Legs]:
    """The `count` most relevant, best first; as many as that whenever there are that many, whatever
    words they use: what neither leg found comes last, that of the domain before the rest, and the
    newest first."""
    view, fetch = found.reader.view, max(POOL, count * 4)
    while True:
        legs = found.legs(fetch, near_alone=True)
        scores = legs.fused
        weighed = {
            one.id: _weighed(scores[one.id], one.domain, args.domain)
            for one in state.kinds(view, place, list(scores))
            if args.task_type in (None, one.task_type)
        }
        exhausted = max(len(legs.words), len(legs.near)) < fetch
        if len(weighed) >= count or exhausted or fetch >= MAX_FETCH:
            break
        fetch = min(fetch * 4, MAX_FETCH)
    best = sorted(weighed, key=lambda number: (-weighed[number], -number))[:count]
    there = state.episodes(view, place, best)
    ranked = [Ranked(there[number], weighed[number]) for number in best]
    for domain in (args.domain.strip(), None):
        if len(ranked) < count:
            have = {one.episode.id for one in ranked}
            wanted = state.Wanted(domain=domain, task_type=args.task_type)
            rest = state.found(view, place, wanted, "newest", count + len(have))
            ranked += [Ranked(one, 0.0) for one in rest if one.id not in have]
            ranked = ranked[:count]
    return _normalised(ranked), legs


def _weighed(score: float, domain: str, asked: str) -> float:
    return score * (1 + SAME_DOMAIN if domain == asked.strip() else 1.0)


def _normalised(ranked: list[Ranked]) -> list[Ranked]:
    """The best has 1.0."""
    most = max((one.relevance for one in ranked), default=0.0) or 1.0
    return [Ranked(one.episode, round(one.relevance / most, 4)) for one in ranked]


_ORDERS: dict[str, Callable[[Ranked], Any]] = {
    "newest": lambda one: (-one.episode.created_at_us, -one.episode.id),
    "oldest": lambda one: (one.episode.created_at_us, one.episode.id),
    "duration": lambda one: (one.episode.duration_ms, -one.relevance, one.episode.id),
    "success": lambda one: (
        -(one.episode.success if one.episode.success is not None else -1.0),
        -(one.episode.reward if one.episode.reward is not None else -1.0),
        -one.relevance,
        one.episode.id,
    ),
}


def _reply(view: View, best: list[Ranked], legs: Legs) -> dict[str, Any]:
    reply = {
        "episodes": [_row(view, one, "relevance_score") for one in best],
        "total": len(best),
        "mode": legs.mode,
        "patterns": _patterns(view, [one.episode for one in best]),
        "insights": _insights(view, [one.episode for one in best]),
    }
    return {**reply, "reason": legs.why} if legs.why else reply


def _row(view: View, one: Ranked, score: str) -> dict[str, Any]:
    episode = one.episode
    return {
        **shown_episode(episode, state.tags(view, episode.id)),
        score: round(one.relevance, 4),
        "steps": [_brief(step) for step in state.outline(view, episode.id, STEPS_SHOWN)],
    }


def _brief(step: Step) -> dict[str, Any]:
    long = len(step.action) > ACTION_SHOWN
    return {
        "step_number": step.number,
        "tool": step.tool,
        "action": f"{step.action[: ACTION_SHOWN - 1]}…" if long else step.action,
        "result_type": step.result_type,
        "latency_ms": step.latency_ms,
    }


def _patterns(view: View, episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """What these episodes show, those shown most often first."""
    shown = [one for episode in episodes for one in known.patterns_of(view, episode.id)]
    found, times = {one.id: one for one in shown}, Counter(one.id for one in shown)
    best = sorted(found.values(), key=lambda one: (-times[one.id], -one.success_rate, one.id))
    return [shown_pattern(one) for one in best[:PATTERNS_SHOWN]]


def _insights(view: View, episodes: Sequence[Episode]) -> dict[str, Any]:
    """What these episodes have in common, counted."""
    ended = [one for one in episodes if one.success is not None]
    tools = state.tools_of(view, [one.id for one in episodes])
    common = sorted(tools.items(), key=lambda one: (-one[1], one[0]))[:PATTERNS_SHOWN]
    return {
        "completed": len(ended),
        "success_rate": mean([one.success for one in ended if one.success is not None]),
        "average_reward": mean([one.reward for one in ended if one.reward is not None]),
        "average_duration_ms": mean([one.duration_ms for one in ended]),
        "common_tools": [{"tool": tool, "episodes": count} for tool, count in common],
    }
