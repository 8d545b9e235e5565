"""What a run found out, as data."""

from __future__ import annotations

import statistics
from typing import Literal

import msgspec

LEARN = "learn"
RECALL = "recall"
RECALL_AFTER_LEARN = "recall directly after a learn"
LEARN_AFTER_RECALL = "learn directly after a recall"
OPERATIONS = (LEARN, RECALL, RECALL_AFTER_LEARN, LEARN_AFTER_RECALL)

Verdict = Literal["met", "missed", "not measured"]


class Figure(msgspec.Struct, frozen=True):
    """One operation of one system at one store size; times in milliseconds."""

    system: str
    memories: int
    operation: str
    samples: int
    median_ms: float
    p95_ms: float


class Check(msgspec.Struct, frozen=True):
    """Whether the measured answers were right: how many of how many."""

    system: str
    memories: int
    what: str
    right: int
    total: int


class Start(msgspec.Struct, frozen=True):
    """From the start of a process; medians over `samples` starts, in milliseconds."""

    system: str
    memories: int
    samples: int
    initialize_ms: float
    first_recall_ms: float


class Memory(msgspec.Struct, frozen=True):
    """The largest resident size seen between measured calls, in units of 1,000,000 bytes."""

    system: str
    memories: int
    rss_mb: float


class Goal(msgspec.Struct, frozen=True):
    """A goal, what was measured for it, and whether it is met."""

    text: str
    measured: str
    verdict: Verdict


class Results(msgspec.Struct):
    """Everything one run reports."""

    quick: bool
    machine: dict[str, str]
    client: str
    figures: list[Figure] = []
    checks: list[Check] = []
    starts: list[Start] = []
    memory: list[Memory] = []
    goals: list[Goal] = []
    notes: list[str] = []


def figure(system: str, memories: int, operation: str, milliseconds: list[float]) -> Figure:
    """Summarise samples; there must be at least two."""
    p95 = statistics.quantiles(milliseconds, n=20, method="inclusive")[-1]
    median = statistics.median(milliseconds)
    return Figure(system, memories, operation, len(milliseconds), round(median, 3), round(p95, 3))
