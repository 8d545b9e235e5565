"""What the audit shows of a call when several decided it."""

from __future__ import annotations

from pathlib import Path

from mnemolog.events.codec import encode_call, encode_decision
from mnemolog.events.envelope import GENESIS, Call, Decision, sha256
from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.audit import entry_of, latest
from mnemolog.services.node.following.follow import follow_state
from tests.families import FACTS, PROJECTED


def test_a_call_is_shown_with_the_decision_that_counts(tmp_path: Path) -> None:
    """A decider that was displaced decided two calls at once: its second lies before the one that
    counts."""
    calls = [encode_call(_call(i)) for i in range(2)]
    first = _decided(calls, 0, GENESIS, "first")
    displaced = _decided(calls, 0, GENESIS, "displaced")
    second = _decided(calls, 1, sha256(first), "second")
    decisions = [first, displaced, _decided(calls, 1, sha256(displaced), "displaced"), second]
    log = SqliteLog(tmp_path / "log.db")
    state = PartitionState(None, 0, 1, PROJECTED)
    log.append(0, [("s", one) for one in calls], [("s", one) for one in decisions])
    follow_state(log, state)
    void = state.view.voids()
    assert void == {1, 2}
    for offset, reply in enumerate(("first", "second")):
        entry = entry_of(log, FACTS, 0, offset, void)
        assert entry is not None and entry.reply == reply
    assert [one.reply for one in latest(log, FACTS, 0, void)] == ["second", "first"]
    log.shut()


def _call(number: int) -> Call:
    return Call(id=f"c{number}", tool="?", arguments=b"{}", space="s", received_at_us=1)


def _decided(calls: list[bytes], offset: int, previous: bytes, reply: str) -> bytes:
    return encode_decision(
        Decision(
            call_id=f"c{offset}",
            call_offset=offset,
            call_hash=sha256(calls[offset]),
            previous=previous,
            at_us=offset + 1,
            tool="?",
            tenant="default",
            space="s",
            reply=f'"{reply}"'.encode(),
        )
    )
