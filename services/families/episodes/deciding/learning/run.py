"""An episode as it is learned from, once it has ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mnemolog.events.episodes import Outcome
from mnemolog.projections.episodes.state import Episode, Step


class Run(msgspec.Struct, frozen=True):
    """`seconds` is how long it took."""

    episode: Episode
    steps: Sequence[Step]
    tags: Sequence[str]
    outcome: Outcome
    seconds: float

    @property
    def success(self) -> float:
        """The share of it that succeeded: 1, 0, or what was completed of what was tried."""
        if self.outcome.type != "partial_success":
            return 1.0 if self.outcome.type == "success" else 0.0
        done, failed = len(self.outcome.completed), len(self.outcome.failed)
        return done / (done + failed) if done + failed else 0.5

    @property
    def error_rate(self) -> float:
        return sum(step.failed for step in self.steps) / len(self.steps) if self.steps else 0.0

    @property
    def tools(self) -> list[str]:
        """Those that were used, one after another; the same one several times running is one."""
        found: list[str] = []
        for step in self.steps:
            if not found or found[-1] != step.tool:
                found.append(step.tool)
        return found

    @property
    def recoveries(self) -> list[tuple[Step, Step]]:
        """Steps that failed, each with the one right after it that did not."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return [(one, then) for one, then in pairs if one.failed and not then.failed]
