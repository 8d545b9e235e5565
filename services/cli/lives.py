"""The life of a thing, in sentences: which facts concern it, and what each says to a person."""

from __future__ import annotations

from typing import Any

import click
import msgspec


class Subject(msgspec.Struct, frozen=True):
    """A memory, relation or reflection by its number, an entity by its name (and the ids it has
    had)."""

    kind: str
    number: int = 0
    name: str = ""
    ids: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return f"{self.kind.capitalize()} {self.name or self.number}"


class SubjectType(click.ParamType):
    """`42` or `memory:42`, `entity:NAME`, `relation:7`, `reflection:5`."""

    name = "thing"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Subject:
        if isinstance(value, Subject):
            return value
        kind, _, rest = value.partition(":") if ":" in value else ("memory", ":", value)
        if kind == "entity" and rest:
            return Subject(kind, name=rest)
        if (
            kind in ("memory", "relation", "reflection")
            and rest.isdecimal()
            and 0 < int(rest) < 2**53
        ):
            return Subject(kind, int(rest))
        return self.fail(
            f"{value!r} is no id: give a memory's number, entity:NAME, relation:NUMBER or "
            "reflection:NUMBER",
            param,
            ctx,
        )


def concerns(fact: dict[str, Any], subject: Subject) -> bool:
    family = "robot." if subject.kind == "memory" else "graph."
    if not fact["fact"].startswith(family):
        return False
    if fact["fact"] == "graph.reflection_added":
        if subject.kind == "reflection":
            return bool(subject.number == fact["reflection_id"])
        ids = subject.ids if subject.kind == "entity" else {subject.number}
        return fact["target_type"] == subject.kind and fact.get("target_id") in ids
    if subject.kind == "memory":
        numbers = {fact.get("memory_id"), fact.get("existing_id"), fact.get("kept")}
        return subject.number in numbers | set(fact.get("superseded", ()))
    if subject.kind == "entity":
        numbers = {fact.get("entity_id"), fact.get("source_id"), fact.get("target_id")}
        numbers |= {part["entity_id"] for part in fact.get("parts", ())}
        return not subject.ids.isdisjoint(numbers)
    kept = [fact["relation"]] if "relation" in fact else fact.get("relations", [])
    return subject.number in {fact.get("relation_id"), *(one["relation_id"] for one in kept)}


def sentence(fact: dict[str, Any], subject: Subject) -> str:
    match fact["fact"]:
        case "robot.memory_learned":
            return f"learned: {fact['content']}"
        case "robot.memory_updated":
            return f"changed to: {fact['content']}"
        case "robot.memory_forgotten":
            return "forgotten"
        case "robot.duplicate_found":
            return f"said again ({fact['method']}, similarity {fact['similarity']:g})"
        case "robot.memories_consolidated" if fact["kept"] == subject.number:
            return f"kept; merged into it: {', '.join(map(str, fact['superseded']))}"
        case "robot.memories_consolidated":
            return f"merged into memory {fact['kept']}"
        case "graph.entity_created":
            return f"created, a {fact['entity_type']}"
        case "graph.entity_type_changed":
            return f"became a {fact['entity_type']}"
        case "graph.observations_added":
            return "\n".join(f"+ {one}" for one in fact["observations"])
        case "graph.observations_removed":
            return "\n".join(f"- {one}" for one in fact["observations"])
        case "graph.entity_split" if fact["entity_id"] in subject.ids:
            parts = [f"{one['moved']} moved to {one['name']}" for one in fact["parts"]]
            return f"split; observations: {', '.join(parts)}"
        case "graph.entity_split":
            moved = sum(one["moved"] for one in fact["parts"] if one["entity_id"] in subject.ids)
            return f"observations moved here from {fact['name']}: {moved}"
        case "graph.entity_deleted" if subject.kind == "entity":
            said = [f"- {one}" for one in fact["observations"]]
            relations = [f"- {_arrow(one)}" for one in fact["relations"]]
            return "\n".join(["deleted; it said:", *said, *relations])
        case "graph.entity_deleted":
            return f"deleted with entity {fact['name']}"
        case "graph.reflection_added" if subject.kind == "reflection":
            mood = f" ({fact['mood']})" if fact.get("mood") else ""
            return f"{fact['author']}{mood}: {fact['content']}"
        case "graph.reflection_added":
            return f"reflection {fact['reflection_id']} by {fact['author']}: {fact['content']}"
        case "graph.relation_created":
            return f"relation {fact['relation_id']} ({fact['relation_type']}) created"
        case "graph.relation_ended":
            return f"relation {fact['relation_id']} ended"
        case "graph.relation_deleted":
            return f"deleted: {_arrow(fact['relation'])}"
        case other:
            return str(other)


def _arrow(relation: dict[str, Any]) -> str:
    return f"{relation['source']} {relation['relation_type']} {relation['target']}"
