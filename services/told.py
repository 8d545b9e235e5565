"""How the life of a thing is told: which calls touched it, and what each says to a person."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec

from mnemolog.projections.state.view import View

FactRow = dict[str, Any]
"""A fact as people read it: `fact` names it, and its fields are beside."""
FactsOf = Callable[[int], list[FactRow]]
"""What the call at an offset came to."""


class Standing(msgspec.Struct, frozen=True):
    """How a thing is now: for people in lines, and as a value for programs."""

    lines: list[str]
    value: Any


class Thing(ABC):
    """One thing that has a life on the log. Made from what somebody typed; `known` gives it with
    all that the state and the log know of it."""

    kind: str

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def partition(self, tenant: str, partitions: int) -> int: ...

    @abstractmethod
    def known(self, view: View, tenant: str, facts: FactsOf) -> tuple[Thing, set[int]]:
        """It, and the calls that may have touched it."""

    @abstractmethod
    def concerns(self, fact: FactRow) -> bool: ...

    @abstractmethod
    def sentence(self, fact: FactRow) -> str:
        """What an explained fact says of it."""

    def explained(self, fact: FactRow) -> FactRow:
        """The fact with what it leaves out and a reader needs."""
        return fact

    def standing(self, view: View) -> Standing | None:
        """How it is now; None where its life says all."""
        return None

    @property
    def value(self) -> Any:
        """What is known of it, for programs."""
        return {"kind": self.kind}


class ThingKind(msgspec.Struct, frozen=True):
    """`usage` is how one is named, such as `memory:NUMBER`; `read` makes it out of what stands
    behind the colon, None when that cannot be one."""

    kind: str
    usage: str
    read: Callable[[str], Thing | None]


def life_of(view: View, tenant: str, thing: Thing, facts: FactsOf) -> tuple[Thing, list[int]]:
    """The thing with all that is known of it, and the calls that touched it, oldest first."""
    thing, calls = thing.known(view, tenant, facts)
    touching = [call for call in calls if any(thing.concerns(one) for one in facts(call))]
    return thing, sorted(touching)


def number_of(text: str) -> int | None:
    """An id as somebody types it."""
    return int(text) if text.isdecimal() and 0 < int(text) < 2**53 else None
