"""Reading the whole graph for an export: page by page, of bounded size, in the order of the ids."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mnemolog.events.arguments import Arguments
from mnemolog.events.envelope import Call
from mnemolog.events.graph import Cursor
from mnemolog.projections.graph import state
from mnemolog.services.families.graph.replies import shown
from mnemolog.services.reader.reader import Read, Reader

NAME = "mnemolog.export_graph"
PAGE = 500
PAGE_BYTES = 2 * 1024 * 1024


class ExportGraph(Arguments, frozen=True):
    """A page of the entities, or of the relations that hold between those up to `until`: what was
    created after the entities were read is not half exported. The last page counts what a memory
    file cannot hold."""

    what: Literal["entities", "relations"]
    after: Cursor = 0
    until: Annotated[int, Meta(ge=0)] = 0


def answer_export(reader: Reader, call: Call, args: ExportGraph) -> Read:
    space = reader.view.space_id(call.space)
    if space is None:
        return Read({"rows": [], "after": args.after, "more": False}, [])
    if args.what == "entities":
        return _entities(reader, space, args.after)
    found = state.relations_page(reader.view, space, args.after, args.until, PAGE + 1)
    rows = [
        {"from": one.source, "to": one.target, "relationType": one.type} for one in found[:PAGE]
    ]
    last = found[:PAGE][-1].id if rows else args.after
    reply: dict[str, Any] = {"rows": rows, "after": last, "more": len(found) > PAGE}
    if not reply["more"]:
        ended, reflections = state.left_out(reader.view, space)
        reply["left_out"] = {"ended relations": ended, "reflections": reflections}
    return Read(reply, [])


def _entities(reader: Reader, space: int, after: int) -> Read:
    """At least one, however large it is."""
    ids = state.page(reader.view, space, after, PAGE + 1)
    more = len(ids) > PAGE
    rows: list[dict[str, Any]] = []
    size = 0
    for entity in state.entities(reader.view, ids[:PAGE]):
        row = shown(entity, state.observations(reader.view, entity.id))
        size += len(msgspec.json.encode(row))
        if rows and size > PAGE_BYTES:
            more = True
            break
        rows.append(row)
        after = entity.id
    return Read({"rows": rows, "after": after, "more": more}, [])
