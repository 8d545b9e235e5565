"""What an episode shows that others may show, too.

A pattern is told from others by what it is about, its domain and its type of task: the same seen
again is more evidence for it. A failed episode is evidence as well: of what leads nowhere.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from mnemolog.projections.language.words import tokens
from mnemolog.services.families.episodes.deciding.learning.run import Run
from mnemolog.services.families.episodes.rules import EpisodeRules

TOOL_SEQUENCE = "ToolSequence"
DECISION_POINT = "DecisionPoint"
ERROR_RECOVERY = "ErrorRecovery"
CONTEXT_PATTERN = "ContextPattern"

_CHECKS = re.compile(
    r"(?<![a-z])(?:(?:check|test)(?:s|ed|er|ing)?(?![a-z])"
    r"|verif|validat|assert|confirm|inspect|review|decid|decis|compar)"
    r"|检查|验证|校验|测试|确认",
    re.IGNORECASE,
)
"""In an action, or in the name of a tool: `run_tests`. Not in `checkout`."""
_SMALL = "a an and at by for from in is it of on that the then this to with"
_FILLING = frozenset(_SMALL.split())
"""Words that do not tell one check from another."""
_EXAMPLE = 200


class Shown(msgspec.Struct, frozen=True):
    """A pattern as one episode shows it."""

    kind: str
    key: str
    description: str
    text: str
    tools: list[str]


def patterns(run: Run, rules: EpisodeRules) -> list[Shown]:
    """In a fixed order, each once."""
    return [
        *_sequence(run, rules),
        *_once(_decisions(run))[: rules.patterns_of_a_kind],
        *_once(_recoveries(run))[: rules.patterns_of_a_kind],
        *_context(run),
    ]


def _sequence(run: Run, rules: EpisodeRules) -> list[Shown]:
    tools = run.tools[: rules.sequence_tools]
    mostly = 1 - run.error_rate > rules.sequence_steps_ok
    if len(tools) < 2 or not (mostly or run.outcome.type == "failure"):
        return []
    return [_shown(run, TOOL_SEQUENCE, tools, f"Tools in order: {' → '.join(tools)}", tools)]


def _decisions(run: Run) -> list[Shown]:
    """Steps that check something, told by the tool and the words of what they do."""
    return [
        _shown(
            run,
            DECISION_POINT,
            [step.tool, *_told_by(step.action)],
            f"{step.tool}: {_line(step.action)}",
            [step.tool],
        )
        for step in run.steps
        if _CHECKS.search(step.action) or _CHECKS.search(step.tool)
    ]


def _told_by(action: str) -> list[str]:
    """The words that say what is done; which one it is done to, a number, is no part of that."""
    every = set(tokens(action))
    return sorted({one for one in every - _FILLING if not one[0].isdigit()} or every)


def _recoveries(run: Run) -> list[Shown]:
    return [
        _shown(
            run,
            ERROR_RECOVERY,
            [one.tool, (one.result_type or "").lower(), then.tool],
            f"When {one.tool} fails, {then.tool}: {_line(then.action)}",
            [one.tool, then.tool],
        )
        for one, then in run.recoveries
    ]


def _context(run: Run) -> list[Shown]:
    episode = run.episode
    parts = {
        "language": episode.language,
        "framework": episode.framework,
        "complexity": episode.complexity,
    }
    given = {name: value.strip() for name, value in parts.items() if value and value.strip()}
    if not given:
        return []
    words = ", ".join(f"{name} {value}" for name, value in given.items())
    task = episode.task_type.replace("_", " ")
    said = f"{task} in {episode.domain} with {words}"
    about = [f"{name}={value.lower()}" for name, value in given.items()]
    return [_shown(run, CONTEXT_PATTERN, about, said, [])]


def _once(shown: list[Shown]) -> list[Shown]:
    """Of those that are the same, the first."""
    found: dict[str, Shown] = {}
    for one in shown:
        found.setdefault(one.key, one)
    return list(found.values())


def _shown(run: Run, kind: str, about: list[str], description: str, tools: list[str]) -> Shown:
    episode = run.episode
    told = msgspec.json.encode([kind, episode.domain, episode.task_type, about])
    key = hashlib.blake2b(told, digest_size=16).hexdigest()
    words = [episode.domain, episode.task_type.replace("_", " "), *run.tags]
    example = _line(episode.description)
    text = f"{description}\n{' '.join(words)}\nFor example: {example}"
    return Shown(kind, key, description, text, tools)


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _EXAMPLE else f"{text[: _EXAMPLE - 1].rstrip()}…"
