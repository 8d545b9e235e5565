"""One partition's decider: calls in, decisions out, over the state and an overlay."""

from __future__ import annotations

import sqlite3

import msgspec
import structlog

from mnemolog.events.codec import encode_decision
from mnemolog.events.envelope import Decision
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.counted import Counted
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

    def __init__(self, state: PartitionState, deciding: Deciding) -> None:
        self.state = state
        self.deciding = deciding

    def read(self, data: bytes) -> Asked | None:
        return read(self.deciding.catalogue, data, self.state.partitions)

    def decide(self, data: bytes, asked: Asked | None, inputs: Inputs) -> Made:
        """Decide the partition's next call, `data`, and carry it out on the overlay. `asked` is
        the call, read.

        A call that this program fails on is refused, so that it does not hold up those after it.
        """
        head = self.state.head
        try:
            with self.state.attempt():
                decision = self.deciding.decide(
                    self.state.view, head, head.next_call, data, asked, inputs
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
            decision = failed(asked, head, head.next_call, data, error)
            return self._carry_out(decision, encode_decision(decision))

    def _carry_out(self, decision: Decision, encoded: bytes) -> Made:
        offset = self.state.next_offset
        facts = self.state.apply(offset, encoded, decision)
        assert facts is not None, "a decision made on the head extends it"
        return Made(Counted(offset, decision, facts), encoded)
