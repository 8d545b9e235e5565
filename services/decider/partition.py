"""One partition's decider: calls in, decisions out, over the state and an overlay."""

from __future__ import annotations

import sqlite3

import msgspec
import structlog
from msgspec.structs import replace

from mnemolog.events.arguments import Refused
from mnemolog.events.chain import Head
from mnemolog.events.codec import encode_decision
from mnemolog.events.envelope import Decision
from mnemolog.projections.state.store import PartitionState
from mnemolog.services import tracing
from mnemolog.services.counted import Counted
from mnemolog.services.decider.clock import DecisionTime
from mnemolog.services.decider.decide import (
    MAX_DECISION_BYTES,
    Deciding,
    Inputs,
    failed,
    read,
    too_large,
)
from mnemolog.services.decider.tool import Asked

_log = structlog.get_logger("mnemolog.decider")


class Made(msgspec.Struct, frozen=True):
    """A decision that was made and carried out on the overlay, and its bytes."""

    counted: Counted
    encoded: bytes

    @property
    def row(self) -> tuple[str, bytes]:
        """As the log takes it."""
        return self.counted.decision.space, self.encoded


class PartitionDecider:
    """Decides a batch inside one open transaction of the state.

    Begin on the state, `decide` each call, append the decisions to the log, then commit the state;
    when the append failed, its rollback leaves it as if nothing had been decided.
    """

    def __init__(
        self, state: PartitionState, deciding: Deciding, time: DecisionTime | None = None
    ) -> None:
        """Without `time` a decision's is the later of its call's and the one's before it."""
        self.state = state
        self.deciding = deciding
        self._time = time
        if time is not None:
            time.seen(state.head.at_us)

    def read(self, data: bytes) -> Asked | None:
        return read(self.deciding.catalogue, data, self.state.partitions)

    def decide(self, data: bytes, asked: Asked | None, inputs: Inputs) -> Made:
        """Decide the partition's next call, `data`, and carry it out on the overlay. `asked` is
        the call, read.

        A call that this program fails on is refused, so that it does not hold up those after it.
        """
        calls = () if asked is None else (asked.call,)
        with tracing.part("decide", *calls, partition=self.state.partition):
            return self._decide(data, asked, inputs)

    def _decide(self, data: bytes, asked: Asked | None, inputs: Inputs) -> Made:
        head = self.state.head
        at_us, asked = self._timed(head, asked)
        try:
            with self.state.attempt():
                decision = self.deciding.decide(
                    self.state.view, head, head.next_call, data, asked, inputs, at_us
                )
                encoded = encode_decision(decision)
                if len(encoded) > MAX_DECISION_BYTES:
                    decision = too_large(decision, len(encoded))
                    encoded = encode_decision(decision)
                return self._carry_out(decision, encoded)
        except (MemoryError, sqlite3.OperationalError):
            raise  # The machine's trouble, not the call's.
        except Exception as error:
            _log.error("a call could not be decided", error=str(error), exc_info=True)
            decision = failed(asked, head, head.next_call, data, at_us, error)
            return self._carry_out(decision, encode_decision(decision))

    def _timed(self, head: Head, asked: Asked | None) -> tuple[int, Asked | None]:
        """The decision's time, and the call, which is refused when its time cannot be believed; a
        read that was answered is not."""
        if asked is None:
            return head.at_us, None
        received_at_us = asked.call.received_at_us
        if self._time is None:
            return max(received_at_us, head.at_us), asked
        try:
            at_us = self._time.of(received_at_us, head.at_us)
        except Refused as refused:
            if asked.call.answered is None and asked.refused is None:
                asked = replace(asked, refused=refused)
            return head.at_us, asked
        self._time.seen(at_us)
        return at_us, asked

    def _carry_out(self, decision: Decision, encoded: bytes) -> Made:
        offset = self.state.next_offset
        facts = self.state.apply(offset, encoded, decision)
        assert facts is not None, "a decision made on the head extends it"
        return Made(Counted(offset, decision, facts), encoded)
