"""The episodes family's part of the state: how good episodes are, in figures."""

from __future__ import annotations

from typing import Any

import msgspec

from mnemolog.projections.state.view import View

SUCCESS_SHARE, STEPS_SHARE, RECORDED_SHARE = 0.5, 0.3, 0.2


class Ended(msgspec.Struct, frozen=True):
    """What of a completed episode makes its quality."""

    success: float
    steps: int
    failed_steps: int

    @property
    def score(self) -> float:
        """From 0 to 1: how far it succeeded, how few of its steps failed, and whether its steps
        were recorded at all."""
        if not self.steps:
            return round(SUCCESS_SHARE * self.success, 4)
        went_well = 1 - self.failed_steps / self.steps
        return round(SUCCESS_SHARE * self.success + STEPS_SHARE * went_well + RECORDED_SHARE, 4)


def ended_since(view: View, space: int | None, since_us: int | None) -> list[Ended]:
    """Episodes completed since then, in the order in which they were."""
    rows = view.all(
        "SELECT success, steps, failed_steps FROM episode WHERE space = ?"
        " AND completed_at_us >= ? ORDER BY completed_at_us, id",
        space,
        0 if since_us is None else since_us,
    )
    return [Ended(*row) for row in rows]


def counts(view: View, space: int | None) -> dict[str, Any]:
    """How many episodes, steps, patterns and relationships there are, and how episodes ended."""
    row = view.one(
        "SELECT count(*), count(completed_at_us), coalesce(sum(steps), 0), avg(reward),"
        " avg(success), avg(completed_at_us - created_at_us) FROM episode WHERE space = ?",
        space,
    )
    total, completed, steps, reward, success, took_us = row
    ways = view.all(
        "SELECT outcome_type, count(*) FROM episode WHERE space = ? AND outcome_type IS NOT NULL"
        " GROUP BY outcome_type ORDER BY outcome_type",
        space,
    )
    return {
        "total": total,
        "active": total - completed,
        "completed": completed,
        "outcomes": dict(ways),
        "success_rate": None if success is None else round(success, 4),
        "average_reward": None if reward is None else round(reward, 4),
        "average_duration_ms": None if took_us is None else round(took_us / 1000, 1),
        "steps": steps,
        "patterns": view.one("SELECT count(*) FROM pattern WHERE space = ?", space)[0],
        "relationships": view.one("SELECT count(*) FROM relationship WHERE space = ?", space)[0],
    }
