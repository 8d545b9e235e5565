"""How entities, relations and reflections are shown in replies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mnemolog.projections.graph import meaning, state
from mnemolog.projections.state.view import View
from mnemolog.projections.times import iso, spaced


def shown(entity: state.Entity, observations: list[str]) -> dict[str, Any]:
    return {
        "name": entity.name,
        "entityType": entity.type,
        "observations": list(observations),
    }


def changed(entities: Iterable[state.Entity]) -> list[Any]:
    """What a decision keeps of a reply that shows entities."""
    return [[one.id, one.name, one.type] for one in entities]


def show_changed(view: View, kept: dict[str, Any]) -> dict[str, Any]:
    """The reply that shows them, as they are. One that was deleted meanwhile has nothing to say. A
    decision of an earlier version has the whole reply."""
    if "changed_one" in kept:
        return {"entity": _now(view, kept["changed_one"])[0]}
    return {"entities": _now(view, kept["changed"])} if "changed" in kept else kept


def _now(view: View, kept: list[Any]) -> list[dict[str, Any]]:
    """As many observations as an answer holds; an entity that has more of them says so."""
    ids = [number for number, _, _ in kept]
    there = {one.id: one for one in state.entities(view, ids)}
    long = state.observed_characters(view, ids)
    room, rows = state.MAX_ANSWER_CHARACTERS, []
    for one in kept:
        entity = there.get(one[0]) or state.Entity(*one)
        room -= long.get(entity.id, 0)
        row = shown(entity, state.observations(view, entity.id) if room >= 0 else [])
        rows.append(row if room >= 0 else {**row, "omitted": "open_nodes shows its observations"})
    return rows


def shown_relation(relation: state.Relation, *, ended: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": relation.id,
        "from": relation.source,
        "to": relation.target,
        "relationType": relation.type,
    }
    if ended:
        found["active"] = relation.ended_at_us is None
        at_us = relation.ended_at_us
        found["ended_at"] = None if at_us is None else iso(at_us)
    return found


def shown_reflection(one: meaning.Reflection) -> dict[str, Any]:
    return {
        "id": one.id,
        "target_type": one.target_type,
        "target_id": one.target_id,
        "author": one.author,
        "content": one.content,
        "mood": one.mood,
        "created_at": spaced(one.created_at_us),
    }
