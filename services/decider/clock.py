"""The time of a decision: the call's, as far as the log and the decider's clock bear it out.

A call carries the time of whoever took it, and a decision's time goes into what it decides: what
fades, what is forgotten. One call under a clock that runs ahead must not make all later ones as
late as itself. So a time further ahead of the decider's clock than `AHEAD_US` is a mistake, also
when it is the log's: then the decider's own holds, and time steps back. A clock that is itself far
ahead shows against the log: then nothing is decided, until somebody says that so much time has
passed indeed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from mnemolog.events.arguments import Refused
from mnemolog.projections.times import DAY_US, iso

AHEAD_US: Final = 60 * 1_000_000
"""How far a gateway's clock may be ahead of the decider's."""
LEAP_US: Final = 366 * DAY_US
"""How much later than everything before it a call may be."""
NOT_BEFORE_US: Final = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp()) * 1_000_000
"""A clock that shows a time before this program was written was never set: it says nothing, and
neither does a log that went by it."""


class DecisionTime:
    """For all partitions of a node. `clock` gives the time here; `leap` allows any."""

    def __init__(self, clock: Callable[[], int], *, leap: bool = False) -> None:
        self._clock = clock
        self._leap = leap
        self._newest_us = 0

    def seen(self, at_us: int) -> None:
        """A decision of this time is on the log."""
        self._newest_us = max(self._newest_us, at_us)

    def of(self, received_at_us: int, head_us: int) -> int:
        """The time of a decision about a call, after one of `head_us`; `Refused` when the clock
        cannot be believed."""
        now_us = self._clock()
        at_us = max(received_at_us, head_us)
        if NOT_BEFORE_US <= now_us < at_us - AHEAD_US:
            at_us = max(
                one if one <= now_us + AHEAD_US else now_us for one in (received_at_us, head_us)
            )
        newest_us = max(self._newest_us, head_us)
        if NOT_BEFORE_US <= newest_us < at_us - LEAP_US and not self._leap:
            days = (at_us - newest_us) // DAY_US
            raise Refused(
                f"The clock shows {iso(at_us)} UTC, and the newest record of the log is of "
                f"{iso(newest_us)}, {days:,} days before: nothing is decided. Set the clock; if it "
                "is right, start mnemolog once with MNEMOLOG_ACCEPT_CLOCK=true"
            )
        return at_us
