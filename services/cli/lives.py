"""The life of a thing, in sentences: which facts concern it, and what each says to a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
import msgspec

from mnemolog.projections.state import graph as state
from mnemolog.projections.state.store import View

Fact = dict[str, Any]


class Relation(msgspec.Struct, frozen=True):
    """What a relation says, or said until it was deleted, and whether it was ended."""

    source: str
    target: str
    relation_type: str
    ended: bool = False


class Subject(msgspec.Struct, frozen=True):
    """A memory, relation or reflection by its number, an entity by its name (and the ids it has
    had). `relations` are by number all that an entity has had, or the relation itself."""

    kind: str
    number: int = 0
    name: str = ""
    ids: frozenset[int] = frozenset()
    relations: dict[int, Relation] = {}

    def __str__(self) -> str:
        known = f"{self.kind.capitalize()} {self.name or self.number}"
        said = self.relations.get(self.number)
        return known if said is None else f"{known}: {_arrow(msgspec.to_builtins(said))}"


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


def life_of(
    view: View, tenant: str, subject: Subject, facts: Callable[[int], list[Fact]]
) -> tuple[Subject, list[int]]:
    """The subject with all that is known of it, and the calls that touched it, oldest first.

    `facts` tells what a call came to. What became of an entity's relations is found by their
    numbers, which are in the facts that created them.
    """
    ids, numbers, standing = subject.ids, set[int](), list[state.Relation]()
    if subject.kind == "entity":
        name = state.named(state.graph_space(tenant), subject.name)
        ids = frozenset(
            fact["entity_id"]
            for fact in _all(facts, _calls(view, name))
            if fact["fact"] == "graph.entity_created" and fact["name"] == subject.name
        )
        calls = _calls(view, *[f"entity:{number}" for number in ids])
        numbers = {
            fact["relation_id"]
            for fact in _all(facts, calls)
            if fact["fact"] == "graph.relation_created"
            and not ids.isdisjoint((fact["source_id"], fact["target_id"]))
        }
        calls |= _calls(view, *[f"relation:{number}" for number in numbers])
        standing = state.relations_of(view, ids, ended=True)
    else:
        calls = _calls(view, f"{subject.kind}:{subject.number}")
        if subject.kind == "relation":
            numbers = {subject.number}
            found = state.relation(view, subject.number)
            standing = [] if found is None else [found[0]]
    relations = _said(_all(facts, calls), numbers, standing)
    subject = msgspec.structs.replace(subject, ids=ids, relations=relations)
    touching = [call for call in calls if any(concerns(one, subject) for one in facts(call))]
    return subject, sorted(touching)


def concerns(fact: Fact, subject: Subject) -> bool:
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
        if not subject.ids.isdisjoint(numbers):
            return True
    touched = {fact.get("relation_id"), *(one["relation_id"] for one in _kept(fact))}
    own = {subject.number} if subject.kind == "relation" else subject.relations.keys()
    return not touched.isdisjoint(own)


def explained(fact: Fact, subject: Subject) -> Fact:
    """The fact with what it leaves out about the subject's relations: what one that was created or
    ended says, and whether one that was deleted with an entity had been ended."""
    relations = subject.relations
    match fact["fact"]:
        case "graph.relation_created" | "graph.relation_ended" if fact["relation_id"] in relations:
            said = relations[fact["relation_id"]]
            names = {"source": said.source, "target": said.target}
            return {**fact, **names, "relation_type": said.relation_type}
        case "graph.entity_deleted":
            kept = [
                {**one, "ended": relations[one["relation_id"]].ended}
                if one["relation_id"] in relations
                else one
                for one in fact["relations"]
            ]
            return {**fact, "relations": kept}
        case _:
            return fact


def sentence(fact: Fact, subject: Subject) -> str:
    """What an explained fact says to a person."""
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
        case "graph.entity_deleted" if fact["entity_id"] in subject.ids:
            said = [f"- {one}" for one in fact["observations"]]
            said += [f"- {_arrow(one)}" for one in fact["relations"]]
            return "\n".join(["deleted; it said:", *said]) if said else "deleted"
        case "graph.entity_deleted":
            own = [one for one in fact["relations"] if one["relation_id"] in subject.relations]
            return "\n".join(f"{_relation(one)} deleted with entity {fact['name']}" for one in own)
        case "graph.reflection_added" if subject.kind == "reflection":
            mood = f" ({fact['mood']})" if fact.get("mood") else ""
            return f"{fact['author']}{mood}: {fact['content']}"
        case "graph.reflection_added":
            return f"reflection {fact['reflection_id']} by {fact['author']}: {fact['content']}"
        case "graph.relation_created":
            return f"{_relation(fact)} created"
        case "graph.relation_ended":
            return f"{_relation(fact)} ended"
        case "graph.relation_deleted":
            return f"{_relation(fact['relation'])} deleted"
        case other:
            return str(other)


def _calls(view: View, *subjects: str) -> set[int]:
    sql = "SELECT call_offset FROM audit WHERE subject = ?"
    return {row[0] for subject in subjects for row in view.all(sql, subject)}


def _all(facts: Callable[[int], list[Fact]], calls: Iterable[int]) -> list[Fact]:
    return [fact for call in sorted(calls) for fact in facts(call)]


def _said(
    facts: list[Fact], numbers: set[int], standing: Iterable[state.Relation]
) -> dict[int, Relation]:
    """What the relations say: the state knows those that stand, the log what the others said."""
    said = {one.id: Relation(one.source, one.target, one.type) for one in standing}
    for kept in (one for fact in facts for one in _kept(fact)):
        relation = Relation(kept["source"], kept["target"], kept["relation_type"])
        said[kept["relation_id"]] = relation
    ended = {one["relation_id"] for one in facts if one["fact"] == "graph.relation_ended"}
    return {
        number: msgspec.structs.replace(said[number], ended=number in ended)
        for number in sorted(numbers & said.keys())
    }


def _kept(fact: Fact) -> list[dict[str, Any]]:
    """The relations that are gone with a fact, as it keeps them."""
    match fact:
        case {"fact": "graph.relation_deleted", "relation": one}:
            return [one]
        case {"fact": "graph.entity_deleted", "relations": kept}:
            return list(kept)
        case _:
            return []


def _relation(one: dict[str, Any]) -> str:
    said = f": {_arrow(one)}" if "source" in one else ""
    return f"relation {one['relation_id']}{said}"


def _arrow(relation: dict[str, Any]) -> str:
    ended = " (ended)" if relation.get("ended") else ""
    return f"{relation['source']} {relation['relation_type']} {relation['target']}{ended}"
