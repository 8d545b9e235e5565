"""What a call was at, part by part, for whoever has traces taken. Switched off, as it is unless an
endpoint is set, nothing is loaded for it, and each place asks one question.

A part's time is told when it is over. So it does not matter on which thread, in which batch or in
which process it was done: the call knows its trace, on the log too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Protocol

from mnemolog.events.envelope import Call, Trace

Value = str | int
"""Of an attribute: never anything that a client chose, nor who it is."""


class Span(Protocol):
    @property
    def trace(self) -> Trace:
        """For those who do a part of it."""
        ...

    def end(self, outcome: str) -> None: ...


class Spans(Protocol):
    """Where traces are taken; all methods may be called from several threads, and wait for
    nobody."""

    def begin(self, name: str, parent: Trace | None, attributes: dict[str, Value]) -> Span | None:
        """None: this one is not taken."""
        ...

    def note(
        self,
        name: str,
        parent: Trace,
        began_ns: int,
        ended_ns: int,
        attributes: dict[str, Value],
    ) -> None: ...

    def close(self) -> None: ...


_spans: Spans | None = None
_OFF: Final = nullcontext()


def use(spans: Spans | None) -> None:
    global _spans
    _spans = spans


def close() -> None:
    """What was noted is sent, if that takes no more than a moment."""
    if _spans is not None:
        _spans.close()
    use(None)


def begin(name: str, parent: Trace | None, **attributes: Value) -> Span | None:
    return None if _spans is None else _spans.begin(name, parent, attributes)


def part(name: str, *calls: Call, **attributes: Value) -> AbstractContextManager[None]:
    """Around what is done for some calls."""
    return _OFF if _spans is None else _part(_spans, name, calls, attributes)


def part_of(name: str, trace: Trace | None, **attributes: Value) -> AbstractContextManager[None]:
    """Around what is done for a trace."""
    if _spans is None or trace is None:
        return _OFF
    return _part_of(_spans, name, trace, attributes)


@contextmanager
def _part(
    spans: Spans, name: str, calls: tuple[Call, ...], attributes: dict[str, Value]
) -> Iterator[None]:
    began_ns = time.time_ns()
    try:
        yield
    finally:
        ended_ns = time.time_ns()
        for call in calls:
            if call.trace is not None:
                of = {"call": call.id, **attributes}
                spans.note(name, call.trace, began_ns, ended_ns, of)


@contextmanager
def _part_of(spans: Spans, name: str, trace: Trace, attributes: dict[str, Value]) -> Iterator[None]:
    began_ns = time.time_ns()
    try:
        yield
    finally:
        spans.note(name, trace, began_ns, time.time_ns(), attributes)
