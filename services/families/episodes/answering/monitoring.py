"""health_check, get_metrics and quality_metrics: from what the service and the state know."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import GetMetrics, HealthCheck, QualityMetrics
from mnemolog.projections.episodes import quality
from mnemolog.projections.episodes.quality import Ended
from mnemolog.projections.times import DAY_US, zoned
from mnemolog.services.families.episodes.answering.embeddings import progress
from mnemolog.services.families.episodes.answering.finding import chosen
from mnemolog.services.families.episodes.replies import mean
from mnemolog.services.reader.reader import Read, Reader

_BEGAN_S = time.monotonic()
_RANGES_US = {"24h": DAY_US, "7d": 7 * DAY_US, "30d": 30 * DAY_US, "90d": 90 * DAY_US}
MOVING = 10
"""The moving average is over so many of the last episodes."""
STEADY = 0.05
"""A change by less than this part is none."""
_BOUNDS = (0.2, 0.4, 0.6, 0.8)


class Trend(msgspec.Struct, frozen=True):
    direction: str
    moving_average: float | None
    change_rate: float


def answer_health(reader: Reader, call: Call, args: HealthCheck) -> Read:
    standing = {} if reader.running is None else reader.running.standing()
    reasons = standing.get("reasons", [])
    model = standing.get("model", {}).get("status", "absent")
    away = standing.get("vectors", {}).get("status") == "away"
    reply: dict[str, Any] = {
        "status": "degraded" if reasons else "healthy",
        "components": {
            "storage": "degraded" if reasons else "healthy",
            "cache": "degraded" if away else "healthy",
            "embeddings": "healthy" if model in ("ready", "loading") else "unavailable",
        },
        "timestamp": zoned(call.received_at_us),
    }
    choice = chosen(reader, call.space)
    if choice is not None and reader.models is not None:
        away = bool(reader.models.trouble(choice))
        reply["components"]["embeddings"] = "unavailable" if away else "healthy"
        reply["embeddings"] = {"model": choice.name, **progress(reader, call.space)}
    if reasons:
        reply["reasons"] = reasons
    return Read(reply, [])


def answer_metrics(reader: Reader, call: Call, args: GetMetrics) -> Read:
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "performance": lambda: _performance(reader, call.tenant),
        "episodes": lambda: quality.counts(reader.view, reader.view.space_id(call.space)),
        "system": lambda: _system(reader),
    }
    wanted = parts if args.metric_type == "all" else {args.metric_type: parts[args.metric_type]}
    told = {name: make() for name, make in wanted.items()}
    return Read(
        {"metric_type": args.metric_type, **told, "timestamp": zoned(call.received_at_us)}, []
    )


def answer_quality(reader: Reader, call: Call, args: QualityMetrics) -> Read:
    span = _RANGES_US.get(args.time_range)
    since = None if span is None else call.received_at_us - span
    ended = quality.ended_since(reader.view, reader.view.space_id(call.space), since)
    scores = [one.score for one in ended]
    good = [score for score in scores if score >= args.quality_threshold]
    reply: dict[str, Any] = {
        "average_quality_score": mean(scores),
        "quality_score_distribution": _distribution(scores),
        "total_episodes": len(scores),
        "above_threshold": len(good),
        "noise_rate": round(1 - len(good) / len(scores), 4) if scores else None,
        "time_range": args.time_range,
        "quality_threshold": args.quality_threshold,
        "recommendations": _recommendations(ended, args.quality_threshold),
    }
    if args.include_trends:
        reply["quality_trend"] = msgspec.to_builtins(trend(scores))
    return Read(reply, [])


def trend(scores: Sequence[float]) -> Trend:
    """Of scores from the oldest to the newest: the later half against the earlier one."""
    if not scores:
        return Trend("stable", None, 0.0)
    moving = mean(scores[-MOVING:])
    half = len(scores) // 2
    before, after = mean(scores[:half]), mean(scores[half:])
    if before is None or after is None or len(scores) < 4:
        return Trend("stable", moving, 0.0)
    change = (after - before) / before if before else (1.0 if after else 0.0)
    direction = "stable" if abs(change) < STEADY else "improving" if change > 0 else "declining"
    return Trend(direction, moving, round(change, 4))


def _performance(reader: Reader, tenant: str) -> dict[str, Any]:
    tools = {} if reader.running is None else reader.running.figures_of(tenant)
    return {
        "calls": sum(one["calls"] for one in tools.values()),
        "refused": sum(one["refused"] for one in tools.values()),
        "failed": sum(one["failed"] for one in tools.values()),
        "tools": tools,
    }


def _system(reader: Reader) -> dict[str, Any]:
    standing = {} if reader.running is None else reader.running.standing()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "uptime_seconds": round(time.monotonic() - _BEGAN_S, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_memory_mb": round(used.ru_maxrss / 1024, 1),
        "threads": threading.active_count(),
        "search_mode": standing.get("mode"),
        "embedding_model": standing.get("model", {}).get("name"),
        "embedding_status": standing.get("model", {}).get("status"),
    }


def _distribution(scores: Sequence[float]) -> dict[str, int]:
    bounds = (0.0, *_BOUNDS, 1.0)
    names = [f"{low:.1f}-{high:.1f}" for low, high in pairwise(bounds)]
    counts = dict.fromkeys(names, 0)
    for score in scores:
        counts[names[sum(score >= bound for bound in _BOUNDS)]] += 1
    return counts


def _recommendations(ended: Sequence[Ended], threshold: float) -> list[str]:
    """Sentences about what pulls the scores down, from the figures alone."""
    low = [one for one in ended if one.score < threshold]
    if not low:
        return []
    found = [f"{len(low)} of {len(ended)} episodes are below {threshold:g}"]
    failed = sum(one.success < 1 for one in low)
    bare = sum(one.steps == 0 for one in low)
    faulty = sum(one.steps > 0 and one.failed_steps / one.steps > 0.3 for one in low)
    if failed:
        found.append(f"{failed} of them did not succeed: batch_pattern_analysis tells what they do")
    if bare:
        found.append(f"{bare} of them have no steps: record them with add_episode_step")
    if faulty:
        found.append(f"in {faulty} of them more than 30 % of the steps failed")
    return found
