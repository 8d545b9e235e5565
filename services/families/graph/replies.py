"""How entities, relations and reflections are shown in replies."""

from __future__ import annotations

from typing import Any

from mnemolog.projections.graph import meaning, state
from mnemolog.projections.times import iso, spaced


def shown(entity: state.Entity, observations: list[str]) -> dict[str, Any]:
    return {
        "name": entity.name,
        "entityType": entity.type,
        "observations": list(observations),
    }


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
