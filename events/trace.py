"""W3C trace context: which request of somebody else's, across services, a call belongs to.

What is not well-formed is taken for nothing, as the recommendation says: it is there to find things
again, and no reason to refuse a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from mnemolog.events.envelope import Trace

MAX_PARENT: Final = 256
"""Characters; later versions of the header may have more in it than the first."""
MAX_STATE: Final = 512
MAX_MEMBERS: Final = 32
SAMPLED: Final = 1

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")
_MEMBER = re.compile(
    r"(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
)
_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


def read_trace(parent: Any, state: Any = "") -> Trace | None:
    """From what was sent as `traceparent` and `tracestate`; None unless it is well-formed."""
    if not isinstance(parent, str) or len(parent) > MAX_PARENT:
        return None
    found = _PARENT.fullmatch(parent)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5] is not None):
        return None
    if not int(found[2], 16) or not int(found[3], 16):
        return None
    # What a later version has besides nobody here understands: it goes on as the first version.
    return Trace(f"00-{found[2]}-{found[3]}-{found[4]}", _read_state(state))


def is_trace(trace: Trace) -> bool:
    """Whether it is as `read_trace` makes them."""
    return read_trace(trace.parent, trace.state) == trace


def trace_id(trace: Trace) -> str:
    return trace.parent[3:35]


def _read_state(state: Any) -> str:
    if not isinstance(state, str) or len(state) > MAX_STATE:
        return ""
    members = [one for one in (part.strip(" \t") for part in state.split(",")) if one]
    keys = {one.partition("=")[0] for one in members}
    well_formed = all(_MEMBER.fullmatch(one) for one in members)
    if not well_formed or len(keys) < len(members) or len(members) > MAX_MEMBERS:
        return ""
    return ",".join(members)


# --- what this thread or task is at ---------------------------------------------------------------


def current() -> Trace | None:
    return _current.get()


@contextmanager
def within(trace: Trace | None) -> Iterator[None]:
    """What is asked of others in here is asked for this."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


def headers() -> dict[str, str]:
    """As they are sent along with a request over HTTP."""
    trace = current()
    if trace is None:
        return {}
    found = {"traceparent": trace.parent}
    return {**found, "tracestate": trace.state} if trace.state else found
