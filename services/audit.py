"""Audit: is the log whole, and what happened to a thing, by whose call, when and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from mnemolog.events.chain import Head, extend, void_reason
from mnemolog.events.codec import NewerVersion, Undecodable, decode_call, decode_decision
from mnemolog.events.envelope import Call, Decision, sha256
from mnemolog.events.language import Facts
from mnemolog.services.api import Progress
from mnemolog.services.facts import facts_of
from mnemolog.services.node.following.follow import BATCH, ReadableLog


class PartitionReport(msgspec.Struct):
    """What a walk along one partition's chain found. `problems` is empty when it is whole."""

    partition: int
    calls: int
    decisions: int
    counting: int = 0
    void: int = 0
    refused: int = 0
    undecided: int = 0
    head: str = ""
    problems: list[str] = []


class Known(msgspec.Struct, frozen=True):
    """Where the state of a partition says that the chain stood."""

    next_offset: int
    hash: bytes


def verify(
    log: ReadableLog, known: dict[int, Known], progress: Progress | None = None
) -> list[PartitionReport]:
    """Walk every partition's chain and compare it with the calls, and with what the state knows.

    A record that was changed, removed or swapped breaks the chain after it; a change to the last
    decision shows against the state's head.
    """
    ends = [log.end(p) for p in range(log.partitions)]
    total, done = sum(end.decisions for end in ends), 0
    reports = []
    for partition, end in enumerate(ends):
        report = PartitionReport(partition, end.calls, end.decisions)
        walk = _Walk(log, report, known.get(partition))
        for start in range(0, end.decisions, BATCH):
            walk.batch(start, min(BATCH, end.decisions - start))
            done += min(BATCH, end.decisions - start)
            if progress is not None:
                progress(done, total)
        walk.finish()
        reports.append(report)
    return reports


class _Walk:
    def __init__(self, log: ReadableLog, report: PartitionReport, known: Known | None) -> None:
        self.log = log
        self.report = report
        self.known = known
        self.head = Head()
        self.next_offset = 0
        self.void_run = 0

    def problem(self, sentence: str) -> None:
        if len(self.report.problems) < 20:
            self.report.problems.append(sentence)

    def batch(self, start: int, count: int) -> None:
        partition = self.report.partition
        decisions = self.log.decisions(partition, start, count)
        calls = {
            one.offset: one.data for one in self.log.calls(partition, self.head.next_call, count)
        }
        for stored in decisions:
            if stored.offset != self.next_offset:
                self.problem(
                    f"decisions {self.next_offset} to {stored.offset - 1} are missing from the log"
                )
            self.next_offset = stored.offset + 1
            try:
                decision = decode_decision(stored.data)
            except (Undecodable, NewerVersion) as error:
                self.problem(f"decision {stored.offset} cannot be read: {error}")
                continue
            reason = void_reason(self.head, decision)
            if reason is not None:
                self.report.void += 1
                self.void_run += 1
                continue
            self.void_run = 0
            self._check_call(stored.offset, decision, calls.get(decision.call_offset))
            self.head = extend(self.head, decision, stored.data)
            self.report.counting += 1
            self.report.refused += decision.refused
            self._check_known()

    def finish(self) -> None:
        report = self.report
        if self.next_offset < report.decisions:
            self.problem(f"decisions from {self.next_offset} on are missing from the log")
        if self.known is not None and self.known.next_offset > self.next_offset:
            self.problem(
                f"the state has seen {self.known.next_offset} decisions, the log has only "
                f"{self.next_offset}: its end was removed"
            )
        report.undecided = report.calls - self.head.next_call
        if self.void_run and report.undecided > 0:
            self.problem(
                f"the chain ends at decision {self.next_offset - self.void_run - 1}: none of the "
                f"{self.void_run} decisions after it follows from it; it or one of them was changed"
            )
        elif report.undecided < 0:
            self.problem(f"{-report.undecided} calls that were decided are missing from the log")
        report.head = self.head.hash.hex()

    def _check_call(self, offset: int, decision: Decision, call: bytes | None) -> None:
        if call is None:
            self.problem(f"call {decision.call_offset} is missing from the log")
        elif sha256(call) != decision.call_hash:
            self.problem(
                f"call {decision.call_offset} is not the one that decision {offset} was made for: "
                "it was changed or swapped"
            )

    def _check_known(self) -> None:
        known = self.known
        if (
            known is not None
            and known.next_offset == self.next_offset
            and (known.hash != self.head.hash)
        ):
            self.problem(
                f"decision {self.next_offset - 1} is not the one that the state was made from: it "
                "was changed"
            )


class Entry(msgspec.Struct, frozen=True):
    """One call and what it came to."""

    at_us: int
    call: Call
    decision: Decision
    facts: list[dict[str, Any]]

    @property
    def reply(self) -> Any:
        return msgspec.json.decode(self.decision.reply) if self.decision.reply else None


def entry_of(
    log: ReadableLog, facts: Facts, partition: int, call_offset: int, void: Collection[int]
) -> Entry | None:
    """The call at `call_offset` with its counting decision; None while it is undecided. `void` are
    the offsets of decisions that do not count: the state knows them."""
    stored = log.calls(partition, call_offset, 1)
    if not stored:
        return None
    call_hash = sha256(stored[0].data)
    start = call_offset
    # Void decisions only ever push the counting one further back.
    while batch := log.decisions(partition, start, 32):
        for one in batch:
            if one.offset in void:
                continue
            decision = decode_decision(one.data)
            if decision.call_offset == call_offset and decision.call_hash == call_hash:
                rows = facts_of(facts.decode(decision.facts))
                return Entry(decision.at_us, decode_call(stored[0].data), decision, rows)
        start = batch[-1].offset + 1
    return None


def latest(
    log: ReadableLog,
    facts: Facts,
    partition: int,
    void: Collection[int],
    *,
    refused_only: bool = False,
) -> Iterator[Entry]:
    """Calls with their outcome, newest first."""
    for offset in range(log.end(partition).calls - 1, -1, -1):
        entry = entry_of(log, facts, partition, offset, void)
        if entry is not None and (entry.decision.refused or not refused_only):
            yield entry
