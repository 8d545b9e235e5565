"""What is embedded after the reply: what of a family waits for a vector, and who notes it.

Nobody waits for an embedding that need not be there when a call is answered. The state knows what
waits; a thread of the node embeds it and has the decider note it, through the log like everything
else. There are three ways to wait:

- a `Queue`: the newest change first, and a search may wait for its end;
- a `Sweep`: what a model has not embedded yet is gone through once, in the order of the ids;
- `Provided`: for the model that a space is configured for, which may be a provider elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mnemolog.events.arguments import Arguments
from mnemolog.events.codec import Fact
from mnemolog.projections.ports import Choice, Vector, Waiting
from mnemolog.projections.state.view import View

Covers = Callable[[str], bool]
"""Whether the model covers the script of a text."""
CountTokens = Callable[[str], int]
"""How many tokens a text takes by a model's own tokenizer, what it puts round any text included."""


class Ready(msgspec.Struct, frozen=True):
    """Something that can be embedded now; `characters` is how long its text is, `since` tells the
    change."""

    kind: str
    number: int
    characters: int
    item: Any
    since: int = 0


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """`asks` are facts that leave something to be described, `notes` those that describe it; `tool`
    is the internal tool that notes. `waiting` gives the newest changes first; `made` how they read
    now, without what is gone meanwhile; `ask` the arguments of a call for some of one space."""

    kinds: tuple[str, ...]
    asks: tuple[type[Fact], ...]
    notes: tuple[type[Fact], ...]
    tool: str
    waiting: Callable[[View, str, int], list[Waiting]]
    count: Callable[[View, str], int]
    count_in: Callable[[View, str, str, str], int]
    waits_since: Callable[[View, str, Waiting], bool]
    last_noted: Callable[[View, str], int]
    made: Callable[[View, Sequence[Waiting], CountTokens, Covers], list[Ready]]
    ask: Callable[[str, Sequence[Ready]], Arguments]


class Swept(msgspec.Struct, frozen=True):
    """Something that has no vector yet, and its text."""

    number: int
    space: str
    text: str


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """`page` gives so many past an id that a model has no vector of; `ask` the arguments of a call
    of `tool` for some of one space."""

    tool: str
    page: Callable[[View, str, int, int], list[Swept]]
    count: Callable[[View, str], int]
    ask: Callable[[str, Sequence[Swept]], Arguments]


class Provided(msgspec.Struct, frozen=True, kw_only=True):
    """`choice` is what a space is configured for, `choices` what those spaces are that have
    something waiting. `waiting` gives the newest changes of a space first, each `Ready` with an
    `item` that has its `text`; `ask` the arguments of a call of `tool` with their vectors, None for
    what the model does not cover. `asks` are facts that leave something to be embedded."""

    tool: str
    asks: tuple[type[Fact], ...]
    choice: Callable[[View, str], Choice | None]
    choices: Callable[[View], list[Choice]]
    waiting: Callable[[View, Choice, int], list[Ready]]
    ask: Callable[[Choice, Sequence[Ready], Sequence[Vector | None]], Arguments]
