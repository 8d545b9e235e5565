"""Vectors of episodes and patterns, made after the reply: nobody waits for an embedding.

The service asks this of itself, through the log like everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemolog.events.arguments import Arguments
from mnemolog.events.codec import Fact
from mnemolog.events.episodes import EpisodeEmbedded, PatternEmbedded
from mnemolog.projections.episodes import patterns, state
from mnemolog.projections.episodes.state import DESCRIBED, EPISODE
from mnemolog.projections.episodes.text import about
from mnemolog.projections.ports import Waiting
from mnemolog.projections.state.view import View
from mnemolog.services.decider.tool import Decided, Place
from mnemolog.services.families.episodes.rules import Context
from mnemolog.services.late import CountTokens, Covers, Ready

NAME = "mnemolog.describe_episodes"


class Description(Arguments, frozen=True):
    """How something reads. `covered`: the model covers its script."""

    kind: str
    number: int
    version: int
    text: str
    covered: bool = True


class DescribeEpisodes(Arguments, frozen=True):
    """Describe these episodes and patterns of one space; what has changed meanwhile, or is
    described already, is left out."""

    space: str
    descriptions: list[Description]


def place(tenant: str, args: DescribeEpisodes) -> Place:
    return Place(args.space)


def texts(args: DescribeEpisodes) -> list[str]:
    return [one.text for one in args.descriptions if one.covered]


def made(view: View, found: Sequence[Waiting], count: CountTokens, covers: Covers) -> list[Ready]:
    """How what was found reads now; what is gone meanwhile is left out."""
    ready = []
    for one in found:
        space = view.space_id(one.space)
        reads = None if space is None else read(view, space, one.kind, one.number)
        if reads is not None:
            text, version = reads
            item = Description(
                kind=one.kind, number=one.number, version=version, text=text, covered=covers(text)
            )
            ready.append(Ready(one.kind, one.number, len(text), item))
    return ready


def ask(space: str, ready: Sequence[Ready]) -> DescribeEpisodes:
    return DescribeEpisodes(space=space, descriptions=[one.item for one in ready])


def decide_describe(ctx: Context, args: DescribeEpisodes) -> Decided:
    facts = [fact for one in args.descriptions if (fact := _fact(ctx, args.space, one)) is not None]
    return Decided(args.space, facts, {"embedded": len(facts)})


def read(view: View, space: int, kind: str, number: int) -> tuple[str, int] | None:
    """The text of a thing and its version; None: it is gone."""
    if kind == EPISODE:
        one = state.episodes(view, space, [number]).get(number)
        if one is None:
            return None
        tags = state.tags(view, number)
        text = about(one.description, one.domain, one.task_type, one.language, one.framework, tags)
        return text, one.version
    pattern = patterns.patterns(view, space, [number]).get(number)
    return None if pattern is None else (pattern.text, 1)


def _fact(ctx: Context, space: str, one: Description) -> Fact | None:
    embedding = ctx.embeddings.get(one.text) if one.covered else None
    if ctx.model is None or (one.covered and embedding is None):
        return None
    within, model = ctx.state.space_id(space), ctx.model.name
    if within is None or DESCRIBED.is_described(ctx.state, model, one.kind, one.number):
        return None
    if read(ctx.state, within, one.kind, one.number) != (one.text, one.version):
        return None
    if one.kind == EPISODE:
        return EpisodeEmbedded(
            number=one.number, version=one.version, model=model, embedding=embedding
        )
    return PatternEmbedded(pattern=one.number, model=model, embedding=embedding)
