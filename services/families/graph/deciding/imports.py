"""Deciding on imports: one begins, brings its chunks, and is done.

The file is read at the edge, by the node that the call came to. What was in it goes through the
log as calls of the service's own, a chunk each, so that the log holds what was imported; `migrate`
itself is decided last, with what came of it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mnemolog.events.arguments import Arguments, Refused
from mnemolog.events.codec import Fact
from mnemolog.events.graph import (
    EntityCreated,
    EntityInput,
    GraphImported,
    Migrate,
    ObservationsAdded,
    RelationCreated,
    RelationInput,
)
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.graph.deciding.entities import merge
from mnemolog.services.families.graph.deciding.relations import UnknownEntity, relate
from mnemolog.services.families.graph.rules import Context

BEGIN = "mnemolog.begin_import"
CHUNK = "mnemolog.import_graph"
MAX_CHUNK = 1000
SHOWN_NAME = 80

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class BeginImport(Arguments, frozen=True):
    """Begin to import a file. `key` is what the outcome of the `migrate` call will be kept under,
    and tells whether it was carried out before."""

    sha256: Sha256
    key: str


class ImportGraph(Arguments, frozen=True):
    """Some lines of a file. Relations may name what was in the graph before this call."""

    sha256: Sha256
    first_line: int
    entities: Annotated[list[EntityInput], Meta(max_length=MAX_CHUNK)] = []
    relations: Annotated[list[RelationInput], Meta(max_length=MAX_CHUNK)] = []


class Began(msgspec.Struct, frozen=True):
    """The reply to `BeginImport`. `decided`: the call that asks was carried out before."""

    decided: bool


class Brought(msgspec.Struct, frozen=True):
    """The reply to `ImportGraph`: how much was new, and by its place in the call each relation
    that could not be made, with the entity it lacks."""

    entities: int = 0
    observations: int = 0
    relations: int = 0
    missing: dict[int, str] = {}


class File(msgspec.Struct, frozen=True):
    name: str
    sha256: str


class Imported(msgspec.Struct, frozen=True):
    """The part of the reply to `migrate` that the log is about."""

    entities_imported: int
    relations_imported: int
    errors: int
    skipped: int
    file: File


def decide_begin(ctx: Context, args: BeginImport) -> Decided:
    space = ctx.call.space
    decided = ctx.state.outcome(ctx.call.tenant, space, args.key) is not None
    return Decided(space, [], Began(decided))


def decide_import(ctx: Context, args: ImportGraph) -> Decided:
    space = ctx.call.space
    place = ctx.state.space_id(space)
    facts = merge(ctx, place, args.entities).facts
    entities = sum(isinstance(fact, EntityCreated) for fact in facts)
    added = [len(fact.observations) for fact in facts if isinstance(fact, ObservationsAdded)]
    related = relate(ctx, place, args.relations)
    made: list[Fact] = [one for one in related if isinstance(one, RelationCreated)]
    missing = {
        at: one.name[:SHOWN_NAME]
        for at, one in enumerate(related)
        if isinstance(one, UnknownEntity)
    }
    return Decided(space, [*facts, *made], Brought(entities, sum(added), len(made), missing))


def decide_migrate(ctx: Context, args: Migrate) -> Decided:
    answered = ctx.call.answered
    if answered is None or not answered.reply:
        raise Refused("An import is carried out before it is decided; this call was not")
    try:
        reply: dict[str, Any] = msgspec.json.decode(answered.reply, type=dict[str, Any])
        if "error" in reply:
            raise Refused(str(reply["error"]))
        imported = msgspec.convert(reply, Imported)
    except msgspec.MsgspecError:
        raise Refused("What came of this import was recorded in a form that is not known") from None
    fact = GraphImported(
        sha256=imported.file.sha256,
        source=imported.file.name,
        entities=imported.entities_imported,
        relations=imported.relations_imported,
        errors=imported.errors,
        skipped=imported.skipped,
    )
    return Decided(ctx.call.space, [fact], reply)
