"""Vectors from the model that a space is configured for: made elsewhere, noted here.

The service asks this of itself, through the log like everything else. The vectors are in the call:
who made them may be away when the log is read again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from mnemolog.events.arguments import Arguments
from mnemolog.events.codec import Fact
from mnemolog.events.episodes import MeaningProvided
from mnemolog.projections.episodes import provided
from mnemolog.projections.ports import Choice, Vector
from mnemolog.projections.state.view import View
from mnemolog.services.decider.tool import Decided, Place
from mnemolog.services.families.episodes.describing import describe
from mnemolog.services.families.episodes.describing.describe import Description
from mnemolog.services.families.episodes.rules import Context
from mnemolog.services.late import Ready

NAME = "mnemolog.provide_meanings"


class Meaning(Arguments, frozen=True):
    """`vector` is float16 in base64; None: the model does not cover the text."""

    kind: str
    number: int
    version: int
    vector: str | None = None


class ProvideMeanings(Arguments, frozen=True):
    """Note these vectors of one space; what has changed meanwhile, or was made by a model that the
    space is no longer configured for, is left out."""

    space: str
    model: str
    meanings: list[Meaning]


def place(tenant: str, args: ProvideMeanings) -> Place:
    return Place(args.space)


def waiting(view: View, choice: Choice, limit: int) -> list[Ready]:
    """How what waits reads now."""
    space, ready = view.space_id(choice.space), []
    for one in provided.waiting(view, choice.space, limit):
        found = None if space is None else describe.read(view, space, one.kind, one.number)
        if found is not None:
            text, version = found
            item = Description(kind=one.kind, number=one.number, version=version, text=text)
            ready.append(Ready(one.kind, one.number, len(text), item, one.since))
    return ready


def ask(
    choice: Choice, ready: Sequence[Ready], vectors: Sequence[Vector | None]
) -> ProvideMeanings:
    meanings = [
        Meaning(
            kind=one.kind,
            number=one.number,
            version=one.item.version,
            vector=None if vector is None else base64.b64encode(vector.tobytes()).decode(),
        )
        for one, vector in zip(ready, vectors, strict=True)
    ]
    return ProvideMeanings(space=choice.space, model=choice.name, meanings=meanings)


def decide_provide(ctx: Context, args: ProvideMeanings) -> Decided:
    chosen, space = provided.choice(ctx.state, args.space), ctx.state.space_id(args.space)
    facts: list[Fact] = []
    if chosen is not None and space is not None and chosen.name == args.model:
        for one in args.meanings:
            fact = _fact(ctx, space, chosen, one)
            if fact is not None:
                facts.append(fact)
    return Decided(args.space, facts, {"embedded": len(facts)})


def _fact(ctx: Context, space: int, chosen: Choice, one: Meaning) -> Fact | None:
    if not provided.waits(ctx.state, space, one.kind, one.number):
        return None
    read = describe.read(ctx.state, space, one.kind, one.number)
    if read is None or read[1] != one.version:
        return None
    vector = None if one.vector is None else _bytes(one.vector)
    if vector is not None and len(vector) != 2 * chosen.dims:
        return None
    return MeaningProvided(
        kind=one.kind, number=one.number, version=one.version, model=chosen.name, vector=vector
    )


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
