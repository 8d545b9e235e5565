"""What a run found out, as data."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

LEARN = "learn"
RECALL = "recall"
RECALL_AFTER_LEARN = "recall directly after a learn"
LEARN_AFTER_RECALL = "learn directly after a recall"
OPERATIONS = (LEARN, RECALL, RECALL_AFTER_LEARN, LEARN_AFTER_RECALL)

CREATE_ENTITIES = "create_entities"
SEARCH_NODES = "search_nodes"
OPEN_NODES = "open_nodes"
ADD_OBSERVATIONS = "add_observations"
CREATE_RELATIONS = "create_relations"
SEARCH_SEMANTIC = "search_semantic"
GRAPH_OPERATIONS = (
    CREATE_ENTITIES,
    SEARCH_NODES,
    OPEN_NODES,
    ADD_OBSERVATIONS,
    CREATE_RELATIONS,
    SEARCH_SEMANTIC,
)

QUERY_MEMORY = "query_memory"
SEARCH_PATTERNS = "search_patterns"
CREATE_EPISODE = "create_episode"
ADD_STEP = "add_episode_step"
COMPLETE_EPISODE = "complete_episode"
GRAPH_WRITE = "create_entities, beside episodes"
EXECUTE_CODE = "execute_agent_code"
BARE_DENO = "deno run of the same file"
EPISODE_OPERATIONS = (
    QUERY_MEMORY,
    SEARCH_PATTERNS,
    CREATE_EPISODE,
    ADD_STEP,
    COMPLETE_EPISODE,
    GRAPH_WRITE,
    EXECUTE_CODE,
    BARE_DENO,
)

HTTP_LEARN = "learn over HTTP"
HTTP_RECALL = "recall right after it, same node"
RECALL_ELSEWHERE = "recall right after it, other node"
BUS_OPERATIONS = (HTTP_LEARN, HTTP_RECALL, RECALL_ELSEWHERE)

HTTP_CREATE = "create_entities over HTTP"
HTTP_OPEN = "open_nodes over HTTP"
GATEWAY_OPERATIONS = (HTTP_CREATE, HTTP_OPEN)

INITIALIZE = "start to the initialize reply"
FIRST_RECALL = "start to the first recall's reply"
MANY_LEARNS = "learn over HTTP, many clients"

Verdict = Literal["met", "missed", "not measured"]
Difference = Literal["faster", "within 5 %", "unclear", "slower"]


class Figure(msgspec.Struct, frozen=True):
    """One operation of one system at one store size, in memories, entities or nodes; ms."""

    system: str
    size: int
    operation: str
    samples: int
    median_ms: float
    p95_ms: float


class Check(msgspec.Struct, frozen=True):
    """Whether the measured answers were right: how many of how many."""

    system: str
    size: int
    what: str
    right: int
    total: int


class Start(msgspec.Struct, frozen=True):
    """From the start of a process; medians over `samples` starts, in milliseconds."""

    system: str
    size: int
    samples: int
    initialize_ms: float
    first_recall_ms: float


class Memory(msgspec.Struct, frozen=True):
    """The largest resident size seen between measured calls, in units of 1,000,000 bytes."""

    system: str
    size: int
    rss_mb: float


class Rate(msgspec.Struct, frozen=True):
    """Durable writes by `clients` at once, spread over `nodes` processes; times as callers wait.

    `cores` is the processor time per second that the nodes, the broker and the clients took."""

    system: str
    nodes: int
    clients: int
    seconds: float
    writes_per_s: float
    median_ms: float
    p95_ms: float
    cores: dict[str, float]


class Goal(msgspec.Struct, frozen=True):
    """A goal, what was measured for it, and whether it is met."""

    text: str
    measured: str
    verdict: Verdict


class Comparison(msgspec.Struct, frozen=True):
    """One operation of this version beside another one: medians in milliseconds, the median ratio
    of the same call with its 95 % interval, and what follows from that."""

    operation: str
    size: int
    samples: int
    this_ms: float
    beside_ms: float
    ratio: float
    low: float
    high: float
    difference: Difference


class Results(msgspec.Struct):
    """Everything one run reports."""

    quick: bool
    machine: dict[str, str]
    client: str
    figures: list[Figure] = []
    checks: list[Check] = []
    starts: list[Start] = []
    memory: list[Memory] = []
    rates: list[Rate] = []
    goals: list[Goal] = []
    comparisons: list[Comparison] = []
    notes: list[str] = []


def figure(system: str, size: int, operation: str, milliseconds: list[float]) -> Figure:
    """Summarise samples; there must be at least two."""
    p95 = statistics.quantiles(milliseconds, n=20, method="inclusive")[-1]
    median = statistics.median(milliseconds)
    return Figure(system, size, operation, len(milliseconds), round(median, 3), round(p95, 3))


class Taken:
    """What was measured on one target: times by operation, and how many answers were right."""

    def __init__(self, system: str, size: int, operations: Sequence[str]) -> None:
        self.system = system
        self.size = size
        self.warming_up = False
        """While it is, times are not kept; wrong answers count even then."""
        self.milliseconds: dict[str, list[float]] = {name: [] for name in operations}
        self._right: dict[str, int] = {}
        self._total: dict[str, int] = {}

    def figures(self) -> list[Figure]:
        """A figure for each operation that was measured."""
        taken = self.milliseconds.items()
        return [figure(self.system, self.size, name, ms) for name, ms in taken if ms]

    def checks(self) -> list[Check]:
        """How many answers were right, by kind."""
        return [
            Check(self.system, self.size, what, self._right[what], total)
            for what, total in self._total.items()
        ]

    def _keep(self, operation: str, milliseconds: float) -> None:
        if not self.warming_up:
            self.milliseconds[operation].append(milliseconds)

    def _check(self, what: str, right: bool) -> None:
        self._right[what] = self._right.get(what, 0) + right
        self._total[what] = self._total.get(what, 0) + 1
