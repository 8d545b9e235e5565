"""The goals, and the verdict on each from what was measured."""

from __future__ import annotations

from benchmarks.results import (
    LEARN,
    RECALL,
    RECALL_AFTER_LEARN,
    Figure,
    Goal,
    Results,
    Verdict,
)

OURS, PEER = "mnemolog", "robotmem"
COMPARED_AT = 3_000
SMALL, LARGE, GROWTH_LIMIT = 300, 30_000, 1.5
SCALE_SMALL, SCALE_LARGE, SCALE_LIMIT = 1_000, 100_000, 2.0
RSS_LIMIT_MB = 600.0
START_LIMIT_MS = 3_000.0
INITIALIZE_LIMIT_MS = 1_000.0


def judge(results: Results) -> list[Goal]:
    """One verdict per goal; a goal whose figures are missing is not measured, never met."""
    judged = (LEARN, RECALL, RECALL_AFTER_LEARN)
    return [
        *(_no_slower(results, operation) for operation in judged),
        *(_growth(results, op, SMALL, LARGE, GROWTH_LIMIT) for op in judged),
        _growth(results, RECALL, SCALE_SMALL, SCALE_LARGE, SCALE_LIMIT),
        _memory(results),
        _start(results),
        _initialize(results),
    ]


def _no_slower(results: Results, operation: str) -> Goal:
    text = f"{operation} at {COMPARED_AT:,}: no slower than {PEER}"
    ours = _find(results, OURS, COMPARED_AT, operation)
    peer = _find(results, PEER, COMPARED_AT, operation)
    if ours is None or peer is None:
        return _unmeasured(text)
    ratio = ours.median_ms / peer.median_ms
    measured = f"{ours.median_ms:.2f} ms against {peer.median_ms:.2f} ms ({ratio:.2f} ×)"
    return Goal(text, measured, _verdict(ratio <= 1.0))


def _growth(results: Results, operation: str, small: int, large: int, limit: float) -> Goal:
    text = f"{operation} at {large:,}: at most {limit:g} × its time at {small:,}"
    before = _find(results, OURS, small, operation)
    after = _find(results, OURS, large, operation)
    if before is None or after is None:
        return _unmeasured(text)
    ratio = after.median_ms / before.median_ms
    measured = f"{after.median_ms:.2f} ms against {before.median_ms:.2f} ms ({ratio:.2f} ×)"
    return Goal(text, measured, _verdict(ratio <= limit))


def _memory(results: Results) -> Goal:
    text = f"resident memory at {SCALE_LARGE:,}: under {RSS_LIMIT_MB:.0f} MB"
    for entry in results.memory:
        if (entry.system, entry.memories) == (OURS, SCALE_LARGE):
            return Goal(text, f"{entry.rss_mb:.0f} MB", _verdict(entry.rss_mb < RSS_LIMIT_MB))
    return _unmeasured(text)


def _start(results: Results) -> Goal:
    text = f"start to first recall reply at {SCALE_LARGE:,}: under {START_LIMIT_MS / 1000:g} s"
    for entry in results.starts:
        if (entry.system, entry.memories) == (OURS, SCALE_LARGE):
            met = entry.first_recall_ms < START_LIMIT_MS
            return Goal(text, f"{entry.first_recall_ms / 1000:.2f} s", _verdict(met))
    return _unmeasured(text)


def _initialize(results: Results) -> Goal:
    text = f"cold initialize: under {INITIALIZE_LIMIT_MS / 1000:g} s"
    for entry in results.starts:
        if (entry.system, entry.memories) == (OURS, 0):
            met = entry.initialize_ms < INITIALIZE_LIMIT_MS
            return Goal(text, f"{entry.initialize_ms:.0f} ms", _verdict(met))
    return _unmeasured(text)


def _find(results: Results, system: str, memories: int, operation: str) -> Figure | None:
    for entry in results.figures:
        if (entry.system, entry.memories, entry.operation) == (system, memories, operation):
            return entry
    return None


def _unmeasured(text: str) -> Goal:
    return Goal(text, "", "not measured")


def _verdict(met: bool) -> Verdict:
    return "met" if met else "missed"
