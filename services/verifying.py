"""Is the log whole? A walk along the chain of every partition.

Every decision names the hash of the one before it and of its call, so a record that was changed,
removed, swapped or put between shows where a decision follows it. What nothing follows is compared
with what is known from elsewhere: the state beside the log, and heads that somebody noted before.
The hashes have no key: who writes everything anew from a record on, and the state with it, is found
out by a noted head alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from mnemolog.events.chain import Head, extend
from mnemolog.events.codec import NewerVersion, Undecodable, decode_call, decode_decision
from mnemolog.events.envelope import Decision, sha256
from mnemolog.events.log import LogDamaged, LogError, Stored
from mnemolog.services.api import Progress
from mnemolog.services.node.following.follow import BATCH, DAMAGED, ReadableLog, counts

MAX_PROBLEMS = 20
MIN_HEAD = 16
"""So many digits of a head's hash are enough to name it."""


@runtime_checkable
class Embedded(Protocol):
    """A log of one process, which writes a call and its decision together, and beside each record
    the space that it belongs to."""

    def spaces(self, partition: int, start: int, limit: int) -> list[tuple[str, int, str, bytes]]:
        """Table, offset, space and bytes of records."""
        ...


class PartitionReport(msgspec.Struct):
    """What a walk along one partition's chain found. `problems` is empty when it is whole; `notes`
    are what is no proof of anything, and worth a look."""

    partition: int
    calls: int
    decisions: int
    counting: int = 0
    void: int = 0
    refused: int = 0
    undecided: int = 0
    head: str = ""
    problems: list[str] = []
    notes: list[str] = []


class Known(msgspec.Struct, frozen=True):
    """Where the state of a partition says that the chain stood."""

    next_offset: int
    hash: bytes


def verify(
    log: ReadableLog,
    known: dict[int, Known],
    progress: Progress | None = None,
    *,
    expected: Sequence[str] = (),
) -> list[PartitionReport]:
    """Walk every partition's chain and compare it with the calls, with what the state knows, and
    with the heads that are `expected` on it (of any partition, by their first digits)."""
    ends = [log.end(p) for p in range(log.partitions)]
    total, done = sum(end.decisions for end in ends), 0
    reports, missing = [], [one.lower() for one in expected]
    for partition, end in enumerate(ends):
        report = PartitionReport(partition, end.calls, end.decisions)
        walk = _Walk(log, report, known.get(partition), missing)
        for start in range(0, max(end.calls, end.decisions), BATCH):
            walk.batch(start, min(BATCH, max(0, end.decisions - start)))
            walk.spaces(start)
            done += min(BATCH, max(0, end.decisions - start))
            if progress is not None:
                progress(done, total)
        walk.finish()
        reports.append(report)
    for one in missing:
        reports[0].problems.append(
            f"the head {one} is on no chain: the log was changed before it, or cut off, or is "
            "another one"
        )
    return reports


class _Walk:
    def __init__(
        self, log: ReadableLog, report: PartitionReport, known: Known | None, missing: list[str]
    ) -> None:
        self.log = log
        self.report = report
        self.known = known
        self.missing = missing
        self.head = Head()
        self.next_offset = 0
        self.lost = False
        """Past a place where the chain broke, what does not follow is told once."""

    def problem(self, sentence: str) -> None:
        if len(self.report.problems) < MAX_PROBLEMS:
            self.report.problems.append(sentence)

    def batch(self, start: int, count: int) -> None:
        partition = self.report.partition
        decisions = self.log.decisions(partition, start, count) if count else []
        calls = {
            one.offset: one.data for one in self.log.calls(partition, self.head.next_call, count)
        }
        for stored in decisions:
            if stored.offset != self.next_offset:
                self.problem(
                    f"decisions {self.next_offset} to {stored.offset - 1} are missing from the log"
                )
            self.next_offset = stored.offset + 1
            self._decision(stored, calls)

    def _decision(self, stored: Stored, calls: dict[int, bytes]) -> None:
        report = self.report
        try:
            decision = decode_decision(stored.data)
        except (Undecodable, NewerVersion) as error:
            self.problem(f"decision {stored.offset} cannot be read: {error}")
            return
        if not self._counts(stored.offset, decision):
            report.void += 1
            return
        self.lost = False
        self._check_call(stored.offset, decision, calls.get(decision.call_offset))
        self.head = extend(self.head, decision, stored.data)
        report.counting += 1
        report.refused += decision.refused
        self._check_known()

    def _counts(self, offset: int, decision: Decision) -> bool:
        if self.lost and decision.previous != self.head.hash:
            return False
        try:
            return counts(self.log, self.report.partition, self.head, offset, decision)
        except LogDamaged as error:
            sentence = str(error).removesuffix(f" {DAMAGED}")
            self.problem(f"{sentence[0].lower()}{sentence[1:]}")
            self.lost = True
            return False

    def spaces(self, start: int) -> None:
        """What lies beside a record, compared with what is in it."""
        if not isinstance(self.log, Embedded):
            return
        for table, offset, space, data in self.log.spaces(self.report.partition, start, BATCH):
            try:
                own = (decode_call if table == "calls" else decode_decision)(data).space
            except (Undecodable, NewerVersion):
                continue
            if own != space:
                self.problem(
                    f"{table[:-1]} {offset} lies in the log as one of the space {space!r}, and is "
                    f"of {own!r}"
                )

    def finish(self) -> None:
        report, known = self.report, self.known
        if self.next_offset < report.decisions:
            self.problem(f"decisions from {self.next_offset} on are missing from the log")
        if known is not None and known.next_offset > self.next_offset:
            self.problem(
                f"the state has seen {known.next_offset} decisions, the log has only "
                f"{self.next_offset}: its end was removed"
            )
        elif known is not None and known.next_offset < self.next_offset:
            report.notes.append(
                f"{self.next_offset - known.next_offset} decisions are newer than the state: after "
                "the service was killed some are; otherwise somebody else wrote them"
            )
        report.undecided = report.calls - self.head.next_call
        if report.undecided < 0:
            self.problem(f"{-report.undecided} calls that were decided are missing from the log")
        elif report.undecided and isinstance(self.log, Embedded) and not report.problems:
            report.notes.append(
                f"{report.undecided} calls have no decision: a process that has the log to itself "
                "writes both together, so somebody else wrote them"
            )
        if report.void and isinstance(self.log, Embedded):
            report.notes.append(
                f"{report.void} decisions are void, which comes from deciders that were displaced: "
                "a process that has the log to itself leaves none"
            )
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
        head = self.head.hash.hex()
        for one in [one for one in self.missing if head.startswith(one)]:
            self.missing.remove(one)
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


def readable_head(text: str) -> str:
    """A head as somebody noted it."""
    if not re.fullmatch(rf"[0-9a-fA-F]{{{MIN_HEAD},64}}", text):
        raise LogError(
            f"A head is {MIN_HEAD} to 64 digits of a hash, as `mnemolog audit verify` shows it, "
            f"not {text[:80]!r}"
        )
    return text
