"""The end of a server: what lasts is told of it, and what is not done in time is told of."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Collection

from mnemolog.services.gateway.calls import Calls

GRACE_S = 10
"""How long requests and calls under way may take to finish at shutdown, all together."""


class Ends:
    """`ending` is set at the beginning of the end; `tools` are the names that are told apart."""

    def __init__(self, ending: asyncio.Event, calls: Calls, tools: Collection[str]) -> None:
        self._ending = ending
        self._calls = calls
        self._tools = tools
        self.within_s = GRACE_S
        self._at_s: float | None = None

    @property
    def left_s(self) -> float:
        return self.within_s if self._at_s is None else max(0.0, self._at_s - time.monotonic())

    def begin(self) -> asyncio.TimerHandle:
        """What is under way when the time is up is told on stderr, unless that is cancelled."""
        self._at_s = time.monotonic() + self.within_s
        self._ending.set()
        return asyncio.get_running_loop().call_later(self.within_s, self._tell)

    def _tell(self) -> None:
        found: Counter[str] = Counter()
        for tool, count in self._calls.under_way().items():
            # Names that clients make up are not for the operator's eyes.
            found[tool if tool in self._tools else "unknown"] += count
        if not found:
            return
        by_tool = ", ".join(f"{tool} {count}" for tool, count in sorted(found.items()))
        sys.stderr.write(
            f"mnemolog: calls that were not finished within {self.within_s:g} s: {found.total()} "
            f"({by_tool}). Reads are given up; a write may still be carried out, and asking again "
            "under its idempotency key tells what became of it\n"
        )
        sys.stderr.flush()
