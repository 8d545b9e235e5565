"""The lives of entities, relations and reflections, in sentences.

What became of an entity's relations is found by their numbers, which are in the facts that created
them. What a relation says is known from the state while it stands, and from the log afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from mnemolog.events.ids import partition_of_id, partition_of_space
from mnemolog.projections.graph import state
from mnemolog.projections.state.view import View
from mnemolog.services.told import FactRow, FactsOf, Thing, ThingKind, number_of


class Said(msgspec.Struct, frozen=True):
    """What a relation says, or said until it was deleted, and whether it was ended."""

    source: str
    target: str
    relation_type: str
    ended: bool = False


class _GraphLife(Thing):
    """`number` is that of a relation or reflection; an entity has a name, and the `ids` it has had.
    `relations` are by number all that an entity has had, or the relation itself."""

    def __init__(self, number: int = 0, name: str = "") -> None:
        self.number = number
        self.name = name
        self.ids: frozenset[int] = frozenset()
        self.relations: dict[int, Said] = {}

    def __str__(self) -> str:
        known = f"{self.kind.capitalize()} {self.name or self.number}"
        said = self.relations.get(self.number)
        return known if said is None else f"{known}: {_arrow(msgspec.to_builtins(said))}"

    def partition(self, tenant: str, partitions: int) -> int:
        return partition_of_id(self.number, partitions)

    def known(self, view: View, tenant: str, facts: FactsOf) -> tuple[Thing, set[int]]:
        return self, view.touching(f"{self.kind}:{self.number}")

    @property
    def value(self) -> Any:
        return {
            "kind": self.kind,
            "number": self.number,
            "name": self.name,
            "ids": sorted(self.ids),
            "relations": msgspec.to_builtins(self.relations),
        }

    def concerns(self, fact: FactRow) -> bool:
        if not fact["fact"].startswith("graph."):
            return False
        if fact["fact"] == "graph.reflection_added":
            return self._is_reflected(fact)
        touched = {fact.get("relation_id"), *(one["relation_id"] for one in _kept(fact))}
        return not touched.isdisjoint(self.relations)

    def _is_reflected(self, fact: FactRow) -> bool:
        return bool(fact["target_type"] == self.kind and fact.get("target_id") == self.number)

    def explained(self, fact: FactRow) -> FactRow:
        """With what it leaves out about the relations: what one that was created or ended says,
        and whether one that was deleted with an entity had been ended."""
        relations = self.relations
        match fact["fact"]:
            case "graph.relation_created" | "graph.relation_ended" if (
                fact["relation_id"] in relations
            ):
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

    def sentence(self, fact: FactRow) -> str:
        match fact["fact"]:
            case "graph.entity_created":
                return f"created, a {fact['entity_type']}"
            case "graph.entity_type_changed":
                return f"became a {fact['entity_type']}"
            case "graph.observations_added":
                return "\n".join(f"+ {one}" for one in fact["observations"])
            case "graph.observations_removed":
                return "\n".join(f"- {one}" for one in fact["observations"])
            case "graph.entity_split" if fact["entity_id"] in self.ids:
                parts = [f"{one['moved']} moved to {one['name']}" for one in fact["parts"]]
                return f"split; observations: {', '.join(parts)}"
            case "graph.entity_split":
                moved = sum(one["moved"] for one in fact["parts"] if one["entity_id"] in self.ids)
                return f"observations moved here from {fact['name']}: {moved}"
            case "graph.entity_deleted" if fact["entity_id"] in self.ids:
                said = [f"- {one}" for one in fact["observations"]]
                said += [f"- {_arrow(one)}" for one in fact["relations"]]
                return "\n".join(["deleted; it said:", *said]) if said else "deleted"
            case "graph.entity_deleted":
                own = [one for one in fact["relations"] if one["relation_id"] in self.relations]
                return "\n".join(
                    f"{_relation(one)} deleted with entity {fact['name']}" for one in own
                )
            case "graph.reflection_added" if isinstance(self, ReflectionLife):
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


class EntityLife(_GraphLife):
    kind = "entity"

    def partition(self, tenant: str, partitions: int) -> int:
        return partition_of_space(state.graph_space(tenant), partitions)

    def known(self, view: View, tenant: str, facts: FactsOf) -> tuple[Thing, set[int]]:
        name = state.named(state.graph_space(tenant), self.name)
        self.ids = frozenset(
            fact["entity_id"]
            for fact in _all(facts, view.touching(name))
            if fact["fact"] == "graph.entity_created" and fact["name"] == self.name
        )
        calls = view.touching(*[f"entity:{number}" for number in self.ids])
        numbers = {
            fact["relation_id"]
            for fact in _all(facts, calls)
            if fact["fact"] == "graph.relation_created"
            and not self.ids.isdisjoint((fact["source_id"], fact["target_id"]))
        }
        calls |= view.touching(*[f"relation:{number}" for number in numbers])
        standing = state.relations_of(view, self.ids, ended=True)
        self.relations = _said(_all(facts, calls), numbers, standing)
        return self, calls

    def concerns(self, fact: FactRow) -> bool:
        if fact["fact"].startswith("graph.") and fact["fact"] != "graph.reflection_added":
            numbers = {fact.get("entity_id"), fact.get("source_id"), fact.get("target_id")}
            numbers |= {part["entity_id"] for part in fact.get("parts", ())}
            if not self.ids.isdisjoint(numbers):
                return True
        return super().concerns(fact)

    def _is_reflected(self, fact: FactRow) -> bool:
        return fact["target_type"] == self.kind and fact.get("target_id") in self.ids


class RelationLife(_GraphLife):
    kind = "relation"

    def known(self, view: View, tenant: str, facts: FactsOf) -> tuple[Thing, set[int]]:
        _, calls = super().known(view, tenant, facts)
        found = state.relation(view, self.number)
        standing = [] if found is None else [found[0]]
        self.relations = _said(_all(facts, calls), {self.number}, standing)
        return self, calls

    def concerns(self, fact: FactRow) -> bool:
        return fact.get("relation_id") == self.number or super().concerns(fact)


class ReflectionLife(_GraphLife):
    kind = "reflection"

    def _is_reflected(self, fact: FactRow) -> bool:
        return bool(self.number == fact["reflection_id"])


def _all(facts: FactsOf, calls: Iterable[int]) -> list[FactRow]:
    return [fact for call in sorted(calls) for fact in facts(call)]


def _said(
    facts: list[FactRow], numbers: set[int], standing: Iterable[state.Relation]
) -> dict[int, Said]:
    """What the relations say: the state knows those that stand, the log what the others said."""
    said = {one.id: Said(one.source, one.target, one.type) for one in standing}
    for kept in (one for fact in facts for one in _kept(fact)):
        relation = Said(kept["source"], kept["target"], kept["relation_type"])
        said[kept["relation_id"]] = relation
    ended = {one["relation_id"] for one in facts if one["fact"] == "graph.relation_ended"}
    return {
        number: msgspec.structs.replace(said[number], ended=number in ended)
        for number in sorted(numbers & said.keys())
    }


def _kept(fact: FactRow) -> list[dict[str, Any]]:
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


def _numbered(kind: type[_GraphLife]) -> Callable[[str], Thing | None]:
    def read(text: str) -> Thing | None:
        number = number_of(text)
        return None if number is None else kind(number)

    return read


THINGS = (
    ThingKind("entity", "entity:NAME", lambda name: EntityLife(name=name) if name else None),
    ThingKind("relation", "relation:NUMBER", _numbered(RelationLife)),
    ThingKind("reflection", "reflection:NUMBER", _numbered(ReflectionLife)),
)
