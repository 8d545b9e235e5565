"""Descriptions for the search by meaning, made after the reply: nobody waits for an embedding.

The service asks this of itself, through the log like everything else.
"""

from __future__ import annotations

from collections.abc import Callable

from events.arguments import Arguments
from events.codec import Fact
from events.graph import EntityDescribed, ReflectionEmbedded
from projections.entity_text import Count, entity_text
from projections.state import graph as state
from projections.state import meaning
from projections.state.store import View
from services.decider.tool import Context, Decided, Place

NAME = "mnemolog.describe"


class Description(Arguments, frozen=True):
    """How something reads. `covered`: the model covers its script, so it has to have a vector."""

    kind: str
    number: int
    version: int
    text: str
    covered: bool = True


class Describe(Arguments, frozen=True):
    """Describe these entities and reflections of one space; what has changed meanwhile, or is
    described already, is left out."""

    space: str
    descriptions: list[Description]


def place(tenant: str, args: Describe) -> Place:
    return Place(args.space)


def texts(args: Describe) -> list[str]:
    return [one.text for one in args.descriptions if one.covered]


def describe(
    view: View, found: list[meaning.Undescribed], count: Count, covers: Callable[[str], bool]
) -> list[Description]:
    """How what was found reads now; what is gone meanwhile is left out."""
    made = []
    for one in found:
        space = view.space_id(one.space)
        if space is None:
            continue
        if one.kind == meaning.ENTITY:
            known = state.entities(view, [one.number])
            if not known:
                continue
            entity = known[0]
            said = state.observations(view, entity.id)
            text, version = entity_text(entity.name, entity.type, said, count), entity.version
        else:
            (reflection,) = meaning.reflections(view, space, [one.number])
            text, version = reflection.content, 1
        made.append(
            Description(
                kind=one.kind,
                number=one.number,
                version=version,
                text=text,
                covered=covers(text),
            )
        )
    return made


def decide_describe(ctx: Context, args: Describe) -> Decided:
    facts = [fact for one in args.descriptions if (fact := _fact(ctx, args.space, one)) is not None]
    return Decided(args.space, facts, {"embedded": len(facts)})


def _fact(ctx: Context, space: str, one: Description) -> Fact | None:
    place_of_vector = ctx.embeddings.get(one.text) if one.covered else None
    if ctx.model is None or (one.covered and place_of_vector is None):
        return None
    within = ctx.state.space_id(space)
    model = ctx.model.name
    if within is None or meaning.is_described(ctx.state, model, one.kind, one.number):
        return None
    if one.kind == meaning.ENTITY:
        used = state.used(ctx.state, within, [one.number]).get(one.number)
        if used is None or used.entity.version != one.version:
            return None
        return EntityDescribed(
            entity_id=one.number,
            version=one.version,
            text=one.text,
            model=model,
            embedding=place_of_vector,
        )
    known = meaning.reflections(ctx.state, within, [one.number])
    if not known or known[0].content != one.text:
        return None
    return ReflectionEmbedded(reflection_id=one.number, model=model, embedding=place_of_vector)
