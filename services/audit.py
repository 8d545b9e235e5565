"""Audit: what happened to a thing, by whose call, when and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from mnemolog.events.codec import decode_call, decode_decision
from mnemolog.events.envelope import Call, Decision, sha256
from mnemolog.events.language import Facts
from mnemolog.services.facts import facts_of
from mnemolog.services.node.following.follow import ReadableLog


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
