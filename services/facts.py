"""A decision's facts as people read them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mnemolog.events.codec import Fact, tag_of
from mnemolog.services.told import FactRow


def facts_of(facts: Iterable[Fact]) -> list[FactRow]:
    """Each by its name, whichever version of it was written."""
    return [
        {"fact": tag_of(type(fact)).partition("/")[0], **msgspec.to_builtins(fact)}
        for fact in facts
    ]
