"""Which decisions count.

A decision counts only if it extends its partition's chain (it names the hash of the last counting
decision) and its call is the next undecided one. Everything else is void, to everybody, by this
rule alone: a displaced decider that goes on writing does no harm.
"""

from __future__ import annotations

import msgspec

from mnemolog.events.envelope import GENESIS, Decision, sha256


class Head(msgspec.Struct, frozen=True):
    """The end of one partition's chain: where the next counting decision has to fit."""

    hash: bytes = GENESIS
    next_call: int = 0
    at_us: int = 0


def void_reason(head: Head, decision: Decision) -> str | None:
    """Why `decision` does not count after `head`; None when it does."""
    if decision.previous != head.hash:
        return "it does not follow the last counting decision"
    if decision.call_offset != head.next_call:
        return f"its call is number {decision.call_offset}, the next undecided is {head.next_call}"
    return None


def extend(head: Head, decision: Decision, data: bytes) -> Head:
    """The head after a counting decision whose bytes are `data`."""
    return Head(sha256(data), decision.call_offset + 1, decision.at_us)
