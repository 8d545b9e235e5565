"""Descriptions for the search by meaning, made after the reply: nobody waits for an embedding.

The service asks this of itself, through the log like everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemolog.events.arguments import Arguments
from mnemolog.events.codec import Fact
from mnemolog.events.graph import EntityDescribed, ReflectionEmbedded
from mnemolog.projections.graph import meaning, state
from mnemolog.projections.ports import Waiting
from mnemolog.projections.state.view import View
from mnemolog.services.decider.tool import Decided, Place
from mnemolog.services.families.graph.describing.entity_text import entity_text
from mnemolog.services.families.graph.rules import Context
from mnemolog.services.late import CountTokens, Covers, Ready

NAME = "mnemolog.describe"


class Description(Arguments, frozen=True):
    """How something reads. `covered`: the model covers its script, so it has to have a vector;
    `instead` is what of it the model covers, where that is not all."""

    kind: str
    number: int
    version: int
    text: str
    covered: bool = True
    instead: str = ""

    @property
    def to_embed(self) -> str:
        return self.instead or self.text


class Describe(Arguments, frozen=True):
    """Describe these entities and reflections of one space; what has changed meanwhile, or is
    described already, is left out."""

    space: str
    descriptions: list[Description]


def place(tenant: str, args: Describe) -> Place:
    return Place(args.space)


def texts(args: Describe) -> list[str]:
    return [one.to_embed for one in args.descriptions if one.covered]


def made(view: View, found: Sequence[Waiting], count: CountTokens, covers: Covers) -> list[Ready]:
    """How what was found reads now; what is gone meanwhile is left out."""
    return [
        Ready(one.kind, one.number, len(one.text), one)
        for one in descriptions(view, found, count, covers)
    ]


def ask(space: str, ready: Sequence[Ready]) -> Describe:
    return Describe(space=space, descriptions=[one.item for one in ready])


def descriptions(
    view: View, found: Sequence[Waiting], count: CountTokens, covers: Covers
) -> list[Description]:
    read: list[Description] = []
    for one in found:
        if one.kind == meaning.ENTITY:
            read += [
                _entity(entity, state.observations(view, entity.id), count, covers)
                for entity in state.entities(view, [one.number])
            ]
        elif (space := view.space_id(one.space)) is not None:
            read += [
                Description(
                    kind=one.kind,
                    number=reflection.id,
                    version=1,
                    text=reflection.content,
                    covered=covers(reflection.content),
                )
                for reflection in meaning.reflections(view, space, [one.number])
            ]
    return read


def _entity(
    entity: state.Entity, said: list[str], count: CountTokens, covers: Covers
) -> Description:
    """One observation in another script, or a key of a thousand letters, does not take an
    entity's meaning away: the rest of it is embedded."""
    text, instead = entity_text(entity.name, entity.type, said, count), ""
    covered = covers(text)
    if not covered:
        instead = entity_text(entity.name, entity.type, [one for one in said if covers(one)], count)
        covered = covers(instead)
    return Description(
        kind=meaning.ENTITY,
        number=entity.id,
        version=entity.version,
        text=text,
        covered=covered,
        instead=instead if covered else "",
    )


def decide_describe(ctx: Context, args: Describe) -> Decided:
    facts = [fact for one in args.descriptions if (fact := _fact(ctx, args.space, one)) is not None]
    return Decided(args.space, facts, {"embedded": len(facts)})


def _fact(ctx: Context, space: str, one: Description) -> Fact | None:
    place_of_vector = ctx.embeddings.get(one.to_embed) if one.covered else None
    if ctx.model is None or (one.covered and place_of_vector is None):
        return None
    within = ctx.state.space_id(space)
    model = ctx.model.name
    if within is None or meaning.DESCRIBED.is_described(ctx.state, model, one.kind, one.number):
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
