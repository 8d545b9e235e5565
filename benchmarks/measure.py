"""The measured operations, taken in turns so that the machine's noise hits every target alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol, TypeVar

import msgspec

from benchmarks import corpus
from benchmarks.mcp_client import BenchmarkError, Server, StdioClient
from benchmarks.results import (
    LEARN,
    LEARN_AFTER_RECALL,
    OPERATIONS,
    RECALL,
    RECALL_AFTER_LEARN,
    Start,
    Taken,
)

# Seeds away from the one that stores are prepared with: what is measured is new to every store.
LEARN_SEED, QUERY_SEED, PROBE_SEED, START_SEED = 1001, 1002, 1003, 1004
BLOCK = 10
SETTLE_S = 0.05


class Plan(msgspec.Struct, frozen=True):
    """How much is measured."""

    sizes: tuple[int, ...]
    peer_sizes: tuple[int, ...]
    scale_sizes: tuple[int, int]
    operations: int
    warm_up: int
    starts: int


FULL = Plan((300, 3_000, 30_000), (300, 3_000), (1_000, 100_000), 80, 10, 5)
QUICK = Plan((300,), (300,), (50, 100), 20, 5, 2)


class Pace(Protocol):
    """How many calls of a kind are made, and how many of them before measuring begins."""

    @property
    def operations(self) -> int: ...
    @property
    def warm_up(self) -> int: ...


class Turn(Protocol):
    """What is measured in turns."""

    warming_up: bool

    def note_rss(self) -> None: ...
    def settle(self) -> None:
        """Come to rest, so that the next one is not measured beside this one's work."""
        ...


_Target = TypeVar("_Target", bound=Turn)


class Target(Taken):
    """One running server with a store of a known size, and what was measured on it."""

    def __init__(self, client: StdioClient, size: int) -> None:
        super().__init__(client.server.name, size, OPERATIONS)
        self.client = client
        self.rss_mb = 0.0

    def learn(self, memory: corpus.Memory, operation: str = LEARN) -> int:
        """Time one learn; the id it got."""
        reply = self.client.call("learn", memory.arguments())
        self._keep(operation, reply.milliseconds)
        self._check("learned as new", reply.body.get("status") == "created")
        return int(reply.body.get("memory_id") or reply.body.get("existing_id") or 0)

    def recall(self, query: str, operation: str = RECALL) -> list[int]:
        """Time one recall; the ids it returned."""
        reply = self.client.call("recall", {"query": query, "n": 5})
        self._keep(operation, reply.milliseconds)
        found = [int(memory["id"]) for memory in reply.body["memories"]]
        # "vec_only" is right too: none of the query's words is in the store.
        with_vectors = reply.body.get("mode") in ("hybrid", "vec_only")
        self._check("recalled with vectors", with_vectors)
        self._check("recalled 5 memories", len(found) == 5)
        return found

    def learn_then_recall(self, probe: corpus.Probe) -> None:
        """Time a learn and the recall that follows it, which should find what was just learned."""
        memory_id = self.learn(probe.memory, LEARN_AFTER_RECALL)
        found = self.recall(probe.query, RECALL_AFTER_LEARN)
        self._check("found what was just learned", memory_id in found)

    def note_rss(self) -> None:
        """Keep the largest resident size seen."""
        self.rss_mb = max(self.rss_mb, self.client.rss_mb())

    def settle(self) -> None:
        """Its threads go to sleep before the next target is timed."""
        time.sleep(SETTLE_S)


def measure_operations(targets: Sequence[Target], plan: Plan) -> None:
    """Recalls, then learns, then learns with a recall after each.

    Recalls come first because they leave the stores as they are. Every target gets the same texts
    in the same order.
    """
    count = plan.warm_up + plan.operations
    queries = list(islice(corpus.queries(QUERY_SEED), count))
    memories = list(islice(corpus.memories(LEARN_SEED), count))
    probes = list(islice(corpus.probes(PROBE_SEED), count))
    in_turns(targets, plan, lambda target, i: target.recall(queries[i]))
    in_turns(targets, plan, lambda target, i: target.learn(memories[i]))
    in_turns(targets, plan, lambda target, i: target.learn_then_recall(probes[i]))


def measure_recalls(targets: Sequence[Target], plan: Plan) -> None:
    """Recalls only."""
    queries = list(islice(corpus.queries(QUERY_SEED), plan.warm_up + plan.operations))
    in_turns(targets, plan, lambda target, i: target.recall(queries[i]))


def measure_start(server: Server) -> tuple[float, float]:
    """Start the server once: milliseconds to the initialize reply, and to a first recall reply."""
    query = next(corpus.queries(START_SEED))
    with StdioClient(server) as client:
        initialize_ms = client.initialize()
        client.call("recall", {"query": query, "n": 5})
        return initialize_ms, client.age_ms()


def take_starts(servers: Sequence[Server], samples: int) -> list[list[tuple[float, float]]]:
    """Start each server `samples` times, in turns; what `measure_start` said of each.

    One start before that is not counted: it makes the empty store and warms the disk cache, so
    that a cold start means a new process, not a new disk.
    """
    taken: list[list[tuple[float, float]]] = [[] for _ in servers]
    for attempt in range(samples + 1):
        for server, times in zip(servers, taken, strict=True):
            time.sleep(SETTLE_S)
            measured = measure_start(server)
            if attempt > 0:
                times.append(measured)
    return taken


def measure_starts(servers: Sequence[Server], memories: int, samples: int) -> list[Start]:
    """Start each server `samples` times, in turns; the medians."""
    taken = take_starts(servers, samples)
    return [
        Start(
            server.name,
            memories,
            samples,
            round(statistics.median(initialize for initialize, _ in times), 1),
            round(statistics.median(first for _, first in times), 1),
        )
        for server, times in zip(servers, taken, strict=True)
    ]


def in_turns(
    targets: Sequence[_Target], plan: Pace, operate: Callable[[_Target, int], object]
) -> None:
    """Warm every target up, then measure blocks of calls, the targets in turn."""
    if not targets:
        raise BenchmarkError("There is nothing to measure; choose at least one system.")
    for target in targets:
        target.warming_up = True
        for i in range(plan.warm_up):
            operate(target, i)
        target.warming_up = False
        target.settle()
    for first in range(0, plan.operations, BLOCK):
        # Another target goes first in each round, so that none is always behind the same one.
        turn = first // BLOCK % len(targets)
        for target in [*targets[turn:], *targets[:turn]]:
            for i in range(first, min(first + BLOCK, plan.operations)):
                operate(target, plan.warm_up + i)
            target.note_rss()
            target.settle()
