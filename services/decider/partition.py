"""One partition's decider: calls in, decisions out, over the state and an overlay."""

from __future__ import annotations

import sqlite3

import structlog

from mnemolog.events.codec import encode_decision
from mnemolog.events.envelope import Decision
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.decider.decide import MAX_DECISION_BYTES, Inputs, decide, failed, too_large
from mnemolog.services.decider.rules import Rules

_log = structlog.get_logger("mnemolog.decider")


class PartitionDecider:
    """Decides a batch inside one open transaction of the state.

    `begin`, `decide` for each call, append the decisions to the log, then `commit`; when the
    append failed, `rollback` leaves the state as if nothing had been decided.
    """

    def __init__(self, state: PartitionState, rules: Rules) -> None:
        self.state = state
        self.rules = rules

    def begin(self) -> None:
        self.state.begin()

    def decide(self, data: bytes, inputs: Inputs) -> tuple[Decision, bytes]:
        """Decide the partition's next call and carry it out on the overlay.

        A call that this program fails on is refused, so that it does not hold up those after it.
        """
        try:
            with self.state.attempt():
                return self._decide(data, inputs)
        except (MemoryError, sqlite3.OperationalError):
            raise  # The machine's trouble, not the call's.
        except Exception as error:
            _log.error("a call could not be decided", error=str(error), exc_info=True)
            head = self.state.head
            return self._carry_out(failed(head, head.next_call, data, error))

    def _decide(self, data: bytes, inputs: Inputs) -> tuple[Decision, bytes]:
        head = self.state.head
        decision = decide(self.state.view, head, head.next_call, data, inputs, self.rules)
        encoded = encode_decision(decision)
        if len(encoded) > MAX_DECISION_BYTES:
            decision = too_large(decision, len(encoded))
            encoded = encode_decision(decision)
        return self._carry_out(decision, encoded)

    def _carry_out(
        self, decision: Decision, encoded: bytes | None = None
    ) -> tuple[Decision, bytes]:
        encoded = encode_decision(decision) if encoded is None else encoded
        counted = self.state.apply(self.state.next_offset, encoded, decision)
        assert counted, "a decision made on the head extends it"
        return decision, encoded

    def commit(self) -> None:
        self.state.commit()

    def rollback(self) -> None:
        self.state.rollback()
