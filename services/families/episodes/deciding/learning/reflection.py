"""What an episode's own steps say about it, in sentences made of what they say."""

from __future__ import annotations

from collections import Counter

from mnemolog.events.episodes import Reflection
from mnemolog.services.families.episodes.deciding.learning.run import Run

_LONG = 160
SLOW = 3.0
"""A step is slow when it took more than so many times the median."""


def reflect(run: Run, most: int) -> Reflection:
    """At most so many of each."""
    return Reflection(
        successes=_successes(run)[:most],
        improvements=_improvements(run)[:most],
        insights=_insights(run)[:most],
    )


def _successes(run: Run) -> list[str]:
    outcome = run.outcome
    found = []
    if outcome.verdict and outcome.type != "failure":
        found.append(_cut(outcome.verdict))
    if outcome.type == "partial_success":
        found += [f"Completed: {_cut(one)}" for one in outcome.completed]
    found += [
        f"{then.tool} recovered from the failure of {one.tool}: {_cut(then.action)}"
        for one, then in run.recoveries
    ]
    if run.steps and run.error_rate == 0:
        count = len(run.steps)
        found.append(f"{'The only step' if count == 1 else f'All {count} steps'} succeeded")
    return found


def _improvements(run: Run) -> list[str]:
    outcome = run.outcome
    found = []
    if outcome.reason and outcome.type == "failure":
        details = f" ({_cut(outcome.error_details)})" if outcome.error_details else ""
        found.append(f"Failed: {_cut(outcome.reason)}{details}")
    if outcome.type == "partial_success":
        found += [f"Left to do: {_cut(one)}" for one in outcome.failed]
    failures = Counter(step.tool for step in run.steps if step.failed)
    for tool, count in sorted(failures.items(), key=lambda one: (-one[1], one[0])):
        of = sum(step.tool == tool for step in run.steps)
        found.append(f"{tool} failed in {count} of {of} steps")
    timed = sorted(step.latency_ms for step in run.steps if step.latency_ms is not None)
    if len(timed) >= 3:
        median = timed[len(timed) // 2]
        found += [
            f"Step {step.number} ({step.tool}) took {step.latency_ms} ms, the median {median} ms"
            for step in run.steps
            if step.latency_ms is not None and median and step.latency_ms > SLOW * median
        ]
    return found


def _insights(run: Run) -> list[str]:
    found = []
    tools = run.tools
    if tools:
        found.append(f"Tools in order: {' → '.join(tools[:8])}{' …' if len(tools) > 8 else ''}")
    if run.steps:
        count = f"{len(run.steps)} step{'' if len(run.steps) == 1 else 's'}"
        found.append(f"{count}, {round(100 * run.error_rate)} % failed")
    spent = Counter[str]()
    for step in run.steps:
        spent[step.tool] += step.latency_ms or 0
    total = sum(spent.values())
    if total and len(spent) > 1:
        tool, most = min(spent.items(), key=lambda one: (-one[1], one[0]))
        found.append(f"{tool} took {round(100 * most / total)} % of the time of the steps")
    found += [f"Artifact: {_cut(one)}" for one in run.outcome.artifacts]
    return found


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONG else f"{text[: _LONG - 1].rstrip()}…"
