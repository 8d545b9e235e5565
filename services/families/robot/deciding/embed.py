"""Vectors that come late: the model was not there when the memory was learned, or is a new one.

The service asks this of itself, through the log like everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemolog.events.arguments import Arguments
from mnemolog.events.codec import Fact
from mnemolog.events.robot import Embedded, MemoryId
from mnemolog.projections.language import content_hash
from mnemolog.projections.robot import state
from mnemolog.services.decider.tool import Decided, Place
from mnemolog.services.families.robot.rules import Context
from mnemolog.services.late import Swept

NAME = "mnemolog.embed_missing"


class Unembedded(Arguments, frozen=True):
    memory_id: MemoryId
    content: str


class EmbedMissing(Arguments, frozen=True):
    """Embed these memories of one space; one whose content has changed meanwhile is left out."""

    space: str
    memories: list[Unembedded]


def ask(space: str, found: Sequence[Swept]) -> EmbedMissing:
    memories = [Unembedded(memory_id=one.number, content=one.text) for one in found]
    return EmbedMissing(space=space, memories=memories)


def place(tenant: str, args: EmbedMissing) -> Place:
    return Place(args.space)


def texts(args: EmbedMissing) -> list[str]:
    return [one.content for one in args.memories]


def decide_embed(ctx: Context, args: EmbedMissing) -> Decided:
    facts: list[Fact] = []
    for one in args.memories:
        place_of_vector = ctx.embeddings.get(one.content)
        memory = state.memory(ctx.state, one.memory_id)
        if place_of_vector is None or memory is None or memory.status != "active":
            continue
        digest = content_hash(one.content)
        if memory.space == args.space and memory.content_hash == digest:
            facts.append(
                Embedded(
                    memory_id=memory.id,
                    version=memory.version,
                    content_hash=digest,
                    confidence=memory.confidence,
                    embedding=place_of_vector,
                    session_id=memory.session,
                )
            )
    return Decided(args.space, facts, {"embedded": len(facts)})
