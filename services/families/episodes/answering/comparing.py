"""batch_compare_episodes: a few episodes side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import BatchCompareEpisodes
from mnemolog.projections.episodes import state
from mnemolog.projections.episodes.state import Episode, Use
from mnemolog.services.families.episodes.lookup import all_existing
from mnemolog.services.families.episodes.problems import invalid
from mnemolog.services.reader.reader import Read, Reader

LEAST = 2
METRICS = ("duration", "reward_score", "step_count")
"""What is compared when nothing else is asked for."""
SEQUENCE_SHOWN = 100


class Compared(msgspec.Struct, frozen=True):
    """An episode with what it did."""

    episode: Episode
    uses: list[Use]

    @property
    def sequence(self) -> list[str]:
        """The tools one after another; the same one several times running is one."""
        found: list[str] = []
        for use in self.uses:
            if not found or found[-1] != use.tool:
                found.append(use.tool)
        return found

    @property
    def tools(self) -> set[str]:
        return {use.tool for use in self.uses}


class Metric(msgspec.Struct, frozen=True):
    """`value` is None for an episode that has none: one that goes on has no reward."""

    words: str
    lower_is_better: bool
    value: Callable[[Compared], float | None]


def answer_compare(reader: Reader, call: Call, args: BatchCompareEpisodes) -> Read:
    found = all_existing(reader.view, call.space, args.episode_ids)
    if len(found) < LEAST:
        issue = f"must name {LEAST} to 10 different episodes"
        raise invalid("episode_ids", issue, args.episode_ids)
    compared = [Compared(one, state.uses(reader.view, one.id)) for one in found]
    names = dict.fromkeys(args.compare_metrics or METRICS)
    rows = [_row(name, _METRICS[name], compared) for name in names]
    reply = {
        "episodes_compared": len(compared),
        "comparisons": rows,
        "insights": _insights(rows, compared) if args.generate_insights else [],
        "approach_comparison": _approaches(compared) if args.compare_approaches else None,
    }
    return Read(reply, [one.id for one in found])


def _latency(one: Compared) -> float | None:
    timed = [use.latency_ms for use in one.uses if use.latency_ms is not None]
    return round(sum(timed) / len(timed), 4) if timed else None


def _error_rate(one: Compared) -> float | None:
    return round(one.episode.failed_steps / one.episode.steps, 4) if one.episode.steps else None


_METRICS = {
    "duration": Metric("duration in ms", True, lambda one: one.episode.duration_ms),
    "reward_score": Metric("reward", False, lambda one: one.episode.reward),
    "step_count": Metric("number of steps", True, lambda one: one.episode.steps),
    "success_rate": Metric("success", False, lambda one: one.episode.success),
    "error_rate": Metric("share of failed steps", True, _error_rate),
    "latency": Metric("mean latency of a step in ms", True, _latency),
}


def _row(name: str, metric: Metric, compared: Sequence[Compared]) -> dict[str, Any]:
    """Of those that do equally well, the one named first is best, and the last worst."""
    values = {one.episode.uuid: metric.value(one) for one in compared}
    known = [(value, uuid) for uuid, value in values.items() if value is not None]
    sign = 1 if metric.lower_is_better else -1
    ordered = sorted(known, key=lambda one: sign * one[0])
    return {
        "metric": name,
        "better": "lower" if metric.lower_is_better else "higher",
        "values": [{"episode_id": uuid, "value": value} for uuid, value in values.items()],
        "best": _place(ordered[0]) if ordered else None,
        "worst": _place(ordered[-1]) if ordered else None,
        "mean": round(sum(value for value, _ in known) / len(known), 4) if known else None,
    }


def _place(one: tuple[float, str]) -> dict[str, Any]:
    return {"episode_id": one[1], "value": one[0]}


# --- approaches ----------------------------------------------------------------------------------


def _approaches(compared: Sequence[Compared]) -> dict[str, Any]:
    return {
        "approaches": [
            {
                "episode_id": one.episode.uuid,
                "task_description": one.episode.description,
                "outcome": one.episode.outcome_type,
                "tool_sequence": one.sequence[:SEQUENCE_SHOWN],
                "distinct_tools": sorted(one.tools - _others(one, compared)),
            }
            for one in compared
        ],
        "shared_tools": sorted(_in_all(compared)),
        "common_start": _start(compared)[:SEQUENCE_SHOWN],
    }


def _others(one: Compared, compared: Sequence[Compared]) -> set[str]:
    return _in_any([other for other in compared if other is not one])


def _in_any(compared: Sequence[Compared]) -> set[str]:
    return set[str]().union(*(one.tools for one in compared))


def _in_all(compared: Sequence[Compared]) -> set[str]:
    return set.intersection(*(one.tools for one in compared)) if compared else set()


def _start(compared: Sequence[Compared]) -> list[str]:
    """The tools that all begin with."""
    beside = zip(*(one.sequence for one in compared), strict=False)
    return [tools[0] for tools in takewhile(lambda tools: len(set(tools)) == 1, beside)]


# --- insights ------------------------------------------------------------------------------------


def _insights(rows: Sequence[dict[str, Any]], compared: Sequence[Compared]) -> list[str]:
    return [*_ended(compared), *_telling(compared), *_spread(rows)]


def _ended(compared: Sequence[Compared]) -> list[str]:
    ended = [one for one in compared if one.episode.outcome_type is not None]
    if not ended:
        return ["None of the episodes has ended yet"]
    good = sum(one.episode.outcome_type == "success" for one in ended)
    return [f"{good} of {len(ended)} completed episodes succeeded"]


def _telling(compared: Sequence[Compared]) -> list[str]:
    """Tools that tell the successes from the failures, where there are both."""
    good = [one for one in compared if one.episode.outcome_type == "success"]
    bad = [one for one in compared if one.episode.outcome_type == "failure"]
    if not good or not bad:
        return []
    in_good, in_bad = _in_any(good), _in_any(bad)
    return [
        *(f"Every success used {tool}, no failure did" for tool in sorted(_in_all(good) - in_bad)),
        *(f"Every failure used {tool}, no success did" for tool in sorted(_in_all(bad) - in_good)),
    ]


def _spread(rows: Sequence[dict[str, Any]]) -> list[str]:
    """How far apart they are, where they are apart."""
    found = []
    for row in rows:
        best, worst = row["best"], row["worst"]
        if best is not None and best["value"] != worst["value"]:
            words = _METRICS[row["metric"]].words
            found.append(
                f"The {row['better']} {words} is better: {_number(best['value'])} in "
                f"{best['episode_id']}, {_number(worst['value'])} in {worst['episode_id']}, "
                f"{_number(row['mean'])} on average"
            )
    return found


def _number(value: float) -> str:
    return f"{round(value, 4):,}"
