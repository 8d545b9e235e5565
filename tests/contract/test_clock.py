"""A node whose clock runs ahead for one call: what it decides afterwards is of the present."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

import msgspec

from mnemolog.infra.settings import Settings
from mnemolog.projections.times import DAY_US, iso
from mnemolog.services.api import Answer, Request
from mnemolog.services.node.embedded.node import EmbeddedNode
from tests.families import CATALOGUE

NOW_US = time.time_ns() // 1000
_IDS = itertools.count()


class Clocked:
    """A node and a clock that both it and its gateway go by."""

    def __init__(self, data: Path, **settings: Any) -> None:
        self.now_us = NOW_US
        given = Settings(data=str(data), model="none", **settings)
        self.node = EmbeddedNode(given, CATALOGUE, clock=lambda: self.now_us)

    def call(self, tool: str, key: str | None = None, **arguments: Any) -> Answer:
        return asyncio.run(self.node.call(self._request(tool, key, arguments)))

    def ok(self, tool: str, key: str | None = None, **arguments: Any) -> dict[str, Any]:
        answer = self.call(tool, key, **arguments)
        assert not answer.refused, answer
        return msgspec.json.decode(answer.reply, type=dict[str, Any])

    def _request(self, tool: str, key: str | None, arguments: dict[str, Any]) -> Request:
        return Request(
            tool=tool,
            arguments=msgspec.json.encode(arguments),
            call_id=f"call-{next(_IDS)}",
            received_at_us=self.now_us,
            tenant="default",
            actor="robot",
            idempotency_key=key,
        )

    def memories(self) -> dict[int, dict[str, Any]]:
        found = self.ok("recall", query="cup slips", n=100, min_confidence=0.0)["memories"]
        return {one["id"]: one for one in found}


def test_ten_years_ahead_once_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    one = Clocked(tmp_path)
    try:
        one.ok("learn", insight="cup one slips")
        one.now_us = NOW_US + 3650 * DAY_US
        answer = one.call("learn", insight="cup two slips")
        assert answer.refused and b"3,650 days before" in answer.reply
        assert set(one.memories()) == {1}  # Reads go on.
        one.now_us = NOW_US + 1_000_000
        one.ok("learn", insight="cup three slips hard")
        assert one.memories()[2]["created_at"] == iso(one.now_us)
    finally:
        one.node.close()


def test_one_that_is_accepted_is_not_for_ever(tmp_path: Path) -> None:
    one = Clocked(tmp_path, accept_clock=True)
    try:
        one.ok("learn", insight="cup one slips")
        one.now_us = NOW_US + 3650 * DAY_US
        one.ok("learn", insight="a pan is hot")
        one.now_us = NOW_US + 1_000_000
        one.ok("learn", insight="cup three slips hard")
        assert one.memories()[3]["created_at"] == iso(one.now_us)
    finally:
        one.node.close()


def test_forty_days_ahead_forgets_no_key(tmp_path: Path) -> None:
    one = Clocked(tmp_path)
    try:
        first = one.ok("learn", "mine", insight="cup one slips")
        one.now_us = NOW_US + 40 * DAY_US
        one.ok("learn", "other", insight="a pan is hot")
        one.ok("learn", "third", insight="a kettle whistles")
        one.now_us = NOW_US + 1_000_000
        assert one.ok("learn", "mine", insight="cup one slips") == first
    finally:
        one.node.close()


def test_nothing_fades_below_the_floor(tmp_path: Path) -> None:
    one = Clocked(tmp_path, accept_clock=True)
    try:
        one.ok("learn", insight="cup one slips")
        session = one.ok("start_session")["session_id"]
        one.now_us = NOW_US + 4000 * DAY_US
        assert one.ok("end_session", session_id=session)["decayed_count"] == 1
        assert one.memories()[1]["confidence"] == 0.05
    finally:
        one.node.close()


def test_a_time_that_no_calendar_has_is_shown_and_passes(tmp_path: Path) -> None:
    """As an earlier version let one onto its log."""
    one = Clocked(tmp_path)
    one.node.time._clock = lambda: 0  # One that was never set does not hold anybody back.
    one.node.time._leap = True
    try:
        one.now_us = 2**62
        one.ok("learn", insight="cup one slips")
        assert one.memories()[1]["created_at"].startswith("9999")
    finally:
        one.node.close()
    again = Clocked(tmp_path)
    try:
        again.ok("learn", insight="a cup slips twice when wet")
        assert again.memories()[2]["created_at"][:4] == iso(NOW_US)[:4]
    finally:
        again.node.close()
