"""How often each tenant calls what, and how long that takes: since the start, in bounded room."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Any

MAX_TENANTS = 256
"""The one that called longest ago is forgotten."""
KEPT = 200
"""Of the last so many calls of a tool it is known how long they took."""


class _Tool:
    def __init__(self) -> None:
        self.calls = 0
        self.refused = 0
        self.failed = 0
        self.seconds: deque[float] = deque(maxlen=KEPT)


class Figures:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tenants: OrderedDict[str, dict[str, _Tool]] = OrderedDict()

    def met(self, tenant: str, tool: str, seconds: float, *, refused: bool, failed: bool) -> None:
        with self._lock:
            tools = self._tenants.setdefault(tenant, {})
            self._tenants.move_to_end(tenant)
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
            one = tools.setdefault(tool, _Tool())
            one.calls += 1
            one.refused += refused
            one.failed += failed
            one.seconds.append(seconds)

    def of(self, tenant: str) -> dict[str, dict[str, Any]]:
        """By tool, in alphabetical order."""
        with self._lock:
            found = {
                name: (one.calls, one.refused, one.failed, sorted(one.seconds))
                for name, one in self._tenants.get(tenant, {}).items()
            }
        return {
            name: {
                "calls": calls,
                "refused": refused,
                "failed": failed,
                "p50_ms": _ms(took, 0.5),
                "p95_ms": _ms(took, 0.95),
            }
            for name, (calls, refused, failed, took) in sorted(found.items())
        }


def _ms(took: list[float], share: float) -> float:
    return round(took[min(len(took) - 1, int(share * len(took)))] * 1000, 3)
