"""What a message needs: a scope, and a place among the reads or the writes that are counted."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from mnemolog.services.gateway.tools import Offer
from mnemolog.services.scopes import READ

Kind = Literal["read", "write"]

READING: Final = frozenset(
    (
        "completion/complete",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
    )
)
"""Methods that show what is in the memory. Others show what the service is."""


class Needs(NamedTuple):
    """`scope` None: none."""

    scope: str | None
    kind: Kind


def needs(offer: Offer, method: str, tool: str = "") -> Needs:
    """Of a request of `method`; for `tools/call`, of the `tool`."""
    if method != "tools/call":
        return Needs(READ if method in READING else None, "read")
    found = offer.tools.get(tool)
    # A tool that does not exist is refused, and that is written down.
    return Needs(None, "write") if found is None else Needs(found.scope, found.counts_as)


UNREADABLE: Final = Needs(None, "write")
"""What could not be read as a message is written down, too."""
