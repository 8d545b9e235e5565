"""What an episode was worth.

total = base × efficiency × complexity × quality + learning. Everything is rounded to six places, so
that a reward is the same number wherever it is computed.
"""

from __future__ import annotations

import math
import re

from mnemolog.events.episodes import Reward
from mnemolog.services.families.episodes.deciding.learning.run import Run
from mnemolog.services.families.episodes.rules import EpisodeRules

_COMPLEXITY = {"simple": 1.0, "moderate": 1.1, "complex": 1.2}
_TESTED = re.compile(r"test|coverage", re.IGNORECASE)
PER_PATTERN, MOST_PATTERNS = 0.1, 0.3
DIVERSE, MORE_DIVERSE = 0.1, 0.15
RECOVERED = 0.15
FAST = 0.1
FAST_S = 30.0
MOST_LEARNED = 0.5


def reward(run: Run, patterns: int, rules: EpisodeRules) -> Reward:
    """`patterns` is how many it showed."""
    base = run.success
    efficiency = _efficiency(run, rules)
    complexity = _COMPLEXITY[run.episode.complexity or "simple"]
    quality = _quality(run)
    learning = _learning(run, patterns)
    total = base * efficiency * complexity * quality + learning
    parts = (total, base, efficiency, complexity, quality, learning)
    return Reward(*(round(part, 6) for part in parts))


def _efficiency(run: Run, rules: EpisodeRules) -> float:
    quick = 0.5 + math.exp(-run.seconds / rules.seconds_scale)
    short = 0.5 + math.exp(-len(run.steps) / rules.steps_scale)
    return min(1.5, max(0.5, 0.5 * quick + 0.5 * short))


def _quality(run: Run) -> float:
    quality = 1.0
    artifacts = run.outcome.artifacts
    if any(_TESTED.search(one) for one in artifacts):
        quality += 0.1
    if len(artifacts) >= 3:
        quality += 0.05
    if run.error_rate > 0.3:
        quality -= 0.2
    elif run.error_rate > 0.1:
        quality -= 0.1
    elif run.steps and run.error_rate == 0:
        quality += 0.1
    return min(1.5, max(0.5, quality))


def _learning(run: Run, patterns: int) -> float:
    bonus = min(MOST_PATTERNS, PER_PATTERN * patterns)
    different = len({step.tool for step in run.steps})
    if different >= 5:
        bonus += MORE_DIVERSE
    elif different >= 3:
        bonus += DIVERSE
    if run.recoveries:
        bonus += RECOVERED
    if run.outcome.type == "success" and run.seconds <= FAST_S:
        bonus += FAST
    return min(MOST_LEARNED, bonus)
