"""The goals, and the verdict on each from what was measured."""

from __future__ import annotations

from collections.abc import Collection

from benchmarks.results import (
    ADD_STEP,
    BARE_DENO,
    COMPLETE_EPISODE,
    CREATE_ENTITIES,
    CREATE_EPISODE,
    EXECUTE_CODE,
    GATEWAY_OPERATIONS,
    GRAPH_WRITE,
    HTTP_LEARN,
    LEARN,
    QUERY_MEMORY,
    RECALL,
    RECALL_AFTER_LEARN,
    SEARCH_NODES,
    SEARCH_PATTERNS,
    Figure,
    Goal,
    Results,
    Verdict,
)

OURS, PEER = "mnemolog", "robotmem"
GRAPH_PEER = "server-memory"
ON_KAFKA = "mnemolog on Kafka"
GUARDED = "mnemolog, keys and limits"
COMPARED_AT = 3_000
SMALL, LARGE, GROWTH_LIMIT = 300, 30_000, 1.5
SCALE_SMALL, SCALE_LARGE, SCALE_LIMIT = 1_000, 100_000, 2.0
RSS_LIMIT_MB = 600.0
START_LIMIT_MS = 3_000.0
INITIALIZE_LIMIT_MS = 1_000.0
GRAPH_FASTER = (
    (CREATE_ENTITIES, 3_000, 3.0),
    (CREATE_ENTITIES, 30_000, 10.0),
    (SEARCH_NODES, 3_000, 2.0),
)
EPISODE_WRITE_LIMIT = 1.5
CODE_LIMIT = 2.0
KAFKA_LIMIT = 4.0
WRITES_PER_S, WRITERS = 150.0, 32
GUARD_LIMIT_MS = 0.3


def judge(results: Results, families: Collection[str]) -> list[Goal]:
    """One verdict per goal of the families that were run; a goal whose figures are missing is not
    measured, never met."""
    judges = {
        "robot": _robot,
        "graph": _graph,
        "episodes": _episodes,
        "bus": _bus,
        "gateway": _gateway,
    }
    return [goal for name, judge in judges.items() if name in families for goal in judge(results)]


def _robot(results: Results) -> list[Goal]:
    judged = (LEARN, RECALL, RECALL_AFTER_LEARN)
    return [
        *(_no_slower(results, operation) for operation in judged),
        *(_growth(results, op, SMALL, LARGE, GROWTH_LIMIT) for op in judged),
        _growth(results, RECALL, SCALE_SMALL, SCALE_LARGE, SCALE_LIMIT),
        _memory(results),
        _start(results),
        _initialize(results),
    ]


def _graph(results: Results) -> list[Goal]:
    grown = (CREATE_ENTITIES, SEARCH_NODES)
    return [
        *(_faster(results, *wanted) for wanted in GRAPH_FASTER),
        *(_growth(results, op, SMALL, LARGE, GROWTH_LIMIT) for op in grown),
    ]


def _episodes(results: Results) -> list[Goal]:
    grown = (QUERY_MEMORY, SEARCH_PATTERNS)
    return [
        *(_growth(results, op, SMALL, LARGE, GROWTH_LIMIT) for op in grown),
        *(
            _within(results, op, GRAPH_WRITE, COMPARED_AT, EPISODE_WRITE_LIMIT)
            for op in (CREATE_EPISODE, ADD_STEP, COMPLETE_EPISODE)
        ),
        _within(results, EXECUTE_CODE, BARE_DENO, SMALL, CODE_LIMIT),
    ]


def _within(results: Results, operation: str, other: str, size: int, limit: float) -> Goal:
    text = f"{operation} at {size:,}: at most {limit:g} × {other}"
    one, beside = _find(results, OURS, size, operation), _find(results, OURS, size, other)
    if one is None or beside is None:
        return _unmeasured(text)
    ratio = one.median_ms / beside.median_ms
    measured = f"{one.median_ms:.2f} ms against {beside.median_ms:.2f} ms ({ratio:.2f} ×)"
    return Goal(text, measured, _verdict(ratio <= limit))


def _bus(results: Results) -> list[Goal]:
    return [_on_kafka(results), _writes(results)]


def _gateway(results: Results) -> list[Goal]:
    return [_guard(results, operation) for operation in GATEWAY_OPERATIONS]


def _guard(results: Results, operation: str) -> Goal:
    text = f"{operation}: keys and limits cost at most {GUARD_LIMIT_MS:g} ms"
    without, guarded = _find(results, OURS, 1, operation), _find(results, GUARDED, 1, operation)
    if without is None or guarded is None:
        return _unmeasured(text)
    cost_ms = guarded.median_ms - without.median_ms
    measured = f"{guarded.median_ms:.2f} ms against {without.median_ms:.2f} ms ({cost_ms:+.2f} ms)"
    return Goal(text, measured, _verdict(cost_ms <= GUARD_LIMIT_MS))


def _faster(results: Results, operation: str, size: int, times: float) -> Goal:
    text = f"{operation} at {size:,}: {times:g} × as fast as {GRAPH_PEER}"
    ours = _find(results, OURS, size, operation)
    peer = _find(results, GRAPH_PEER, size, operation)
    if ours is None or peer is None:
        return _unmeasured(text)
    ratio = peer.median_ms / ours.median_ms
    measured = f"{ours.median_ms:.2f} ms against {peer.median_ms:.2f} ms ({ratio:.1f} × as fast)"
    return Goal(text, measured, _verdict(ratio >= times))


def _on_kafka(results: Results) -> Goal:
    text = f"{HTTP_LEARN}, one client: on Kafka at most {KAFKA_LIMIT:g} × embedded"
    embedded = _find(results, OURS, 1, HTTP_LEARN)
    kafka = _find(results, ON_KAFKA, 1, HTTP_LEARN)
    if embedded is None or kafka is None:
        return _unmeasured(text)
    ratio = kafka.median_ms / embedded.median_ms
    measured = f"{kafka.median_ms:.2f} ms against {embedded.median_ms:.2f} ms ({ratio:.2f} ×)"
    return Goal(text, measured, _verdict(ratio <= KAFKA_LIMIT))


def _writes(results: Results) -> Goal:
    text = f"durable writes on Kafka, one node, {WRITERS} clients: at least {WRITES_PER_S:.0f}/s"
    for rate in results.rates:
        if (rate.system, rate.nodes, rate.clients) == (ON_KAFKA, 1, WRITERS):
            met = rate.writes_per_s >= WRITES_PER_S
            return Goal(text, f"{rate.writes_per_s:.0f}/s", _verdict(met))
    return _unmeasured(text)


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
        if (entry.system, entry.size) == (OURS, SCALE_LARGE):
            return Goal(text, f"{entry.rss_mb:.0f} MB", _verdict(entry.rss_mb < RSS_LIMIT_MB))
    return _unmeasured(text)


def _start(results: Results) -> Goal:
    text = f"start to first recall reply at {SCALE_LARGE:,}: under {START_LIMIT_MS / 1000:g} s"
    for entry in results.starts:
        if (entry.system, entry.size) == (OURS, SCALE_LARGE):
            met = entry.first_recall_ms < START_LIMIT_MS
            return Goal(text, f"{entry.first_recall_ms / 1000:.2f} s", _verdict(met))
    return _unmeasured(text)


def _initialize(results: Results) -> Goal:
    text = f"cold initialize: under {INITIALIZE_LIMIT_MS / 1000:g} s"
    for entry in results.starts:
        if (entry.system, entry.size) == (OURS, 0):
            met = entry.initialize_ms < INITIALIZE_LIMIT_MS
            return Goal(text, f"{entry.initialize_ms:.0f} ms", _verdict(met))
    return _unmeasured(text)


def _find(results: Results, system: str, size: int, operation: str) -> Figure | None:
    for entry in results.figures:
        if (entry.system, entry.size, entry.operation) == (system, size, operation):
            return entry
    return None


def _unmeasured(text: str) -> Goal:
    return Goal(text, "", "not measured")


def _verdict(met: bool) -> Verdict:
    return "met" if met else "missed"
