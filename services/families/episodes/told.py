"""The lives of episodes and patterns, in sentences.

Facts name episodes, patterns and relationships by their numbers. What those are is known from the
state while they are there, and from the log afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from mnemolog.events.ids import partition_of_id, partition_of_session, partition_of_space
from mnemolog.projections.episodes import state
from mnemolog.projections.state.view import View
from mnemolog.services.families.episodes.lookup import named
from mnemolog.services.families.episodes.replies import pattern_id
from mnemolog.services.told import FactRow, FactsOf, Thing, ThingKind, number_of


class Link(msgspec.Struct, frozen=True):
    """A relationship between the episodes of these numbers, as it is or was."""

    id: str
    source: int
    target: int
    type: str


class EpisodeLife(Thing):
    """`names` are by number the ids of this episode and of those it was related to, `links` its
    relationships and `shown` its patterns, all that it has ever had."""

    kind = "episode"

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.number = 0
        self.description = ""
        self.names: dict[int, str] = {}
        self.links: dict[int, Link] = {}
        self.shown: dict[int, str] = {}

    def __str__(self) -> str:
        return f"Episode {self.uuid}" + (f": {self.description}" if self.description else "")

    def partition(self, tenant: str, partitions: int) -> int:
        found = partition_of_session(self.uuid, partitions)
        return (
            partition_of_space(state.episodes_space(tenant), partitions) if found is None else found
        )

    def known(self, view: View, tenant: str, facts: FactsOf) -> tuple[Thing, set[int]]:
        for fact in _all(facts, view.touching(f"episode:{self.uuid}")):
            if fact["fact"] == "episodes.episode_created" and fact["episode_id"] == self.uuid:
                self.number, self.description = fact["number"], fact["task_description"]
        if not self.number:
            return self, set()
        calls = view.touching(f"episode:{self.number}")
        told = [fact for fact in _all(facts, calls) if self._is_about(fact)]
        self.links = _links(told)
        ends = {end for one in self.links.values() for end in (one.source, one.target)}
        self.names = _names(view, facts, ends) | {self.number: self.uuid}
        seen = [one["pattern"] for one in told if one["fact"] == "episodes.pattern_seen"]
        self.shown = _patterns(view, seen, facts)
        return self, calls

    @property
    def value(self) -> Any:
        return {
            "kind": self.kind,
            "id": self.uuid,
            "number": self.number,
            "task_description": self.description,
        }

    def concerns(self, fact: FactRow) -> bool:
        return self._is_about(fact) or not set(self.links).isdisjoint(_taken_along(fact))

    def _is_about(self, fact: FactRow) -> bool:
        if not fact["fact"].startswith("episodes.") or not self.number:
            return False
        numbers = (fact.get("number"), fact.get("source"), fact.get("target"))
        return fact["fact"] != "episodes.episode_embedded" and self.number in numbers

    def explained(self, fact: FactRow) -> FactRow:
        """With what the numbers in it stand for."""
        match fact["fact"]:
            case "episodes.pattern_seen" if fact["pattern"] in self.shown:
                return {**fact, "description": self.shown[fact["pattern"]]}
            case "episodes.relationship_added" | "episodes.relationship_removed":
                ends = {"source_id": fact["source"], "target_id": fact["target"]}
                return {**fact, **{name: self._name(number) for name, number in ends.items()}}
            case "episodes.episode_deleted":
                lost = {one: self.links[one] for one in _taken_along(fact) if one in self.links}
                return {**fact, "relationships": [self._arrow(one) for one in lost.values()]}
            case _:
                return fact

    def sentence(self, fact: FactRow) -> str:
        match fact["fact"]:
            case "episodes.episode_created":
                return _begun(fact)
            case "episodes.step_added":
                return _step(fact)
            case "episodes.episode_completed":
                return _ended(fact)
            case "episodes.episode_tagged":
                added = (f"+ {one}" for one in fact.get("added", ()))
                removed = (f"- {one}" for one in fact.get("removed", ()))
                return "\n".join(["tags:", *added, *removed])
            case "episodes.pattern_seen":
                said = f": {fact['description']}" if "description" in fact else ""
                return f"shows {pattern_id(fact['pattern'])}{said}"
            case "episodes.relationship_added":
                why = f" ({fact['reason']})" if fact.get("reason") else ""
                return f"{_relationship(fact)} added{why}"
            case "episodes.relationship_removed":
                return f"{_relationship(fact)} removed"
            case "episodes.episode_deleted" if fact["number"] == self.number:
                return "\n".join([_deleted(fact), *(f"- {one}" for one in fact["relationships"])])
            case "episodes.episode_deleted":
                gone = f"deleted with episode {fact['episode_id']}"
                return "\n".join(f"relationship {one} {gone}" for one in fact["relationships"])
            case other:
                return str(other)

    def _arrow(self, one: Link) -> str:
        return f"{one.id}: {self._name(one.source)} {one.type} {self._name(one.target)}"

    def _name(self, number: int) -> str:
        return self.names.get(number, str(number))


class PatternLife(Thing):
    """`names` are by number the ids of the episodes that showed it."""

    kind = "pattern"

    def __init__(self, number: int) -> None:
        self.number = number
        self.description = ""
        self.names: dict[int, str] = {}

    def __str__(self) -> str:
        known = f"Pattern {pattern_id(self.number)}"
        return f"{known}: {self.description}" if self.description else known

    def partition(self, tenant: str, partitions: int) -> int:
        return partition_of_id(self.number, partitions)

    def known(self, view: View, tenant: str, facts: FactsOf) -> tuple[Thing, set[int]]:
        calls = view.touching(f"pattern:{self.number}")
        told = _all(facts, calls)
        self.description = _patterns(view, [self.number], facts).get(self.number, "")
        seen = [
            one["number"]
            for one in told
            if one["fact"] == "episodes.pattern_seen" and one["pattern"] == self.number
        ]
        known = _names(view, facts, seen)
        self.names = {number: known.get(number, str(number)) for number in seen}
        return self, calls

    @property
    def value(self) -> Any:
        return {
            "kind": self.kind,
            "id": pattern_id(self.number),
            "description": self.description,
            "episodes": sorted(self.names.values()),
        }

    def concerns(self, fact: FactRow) -> bool:
        match fact["fact"]:
            case "episodes.pattern_found" | "episodes.pattern_seen":
                return bool(fact["pattern"] == self.number)
            case "episodes.episode_deleted":
                return fact["number"] in self.names
            case _:
                return False

    def explained(self, fact: FactRow) -> FactRow:
        if fact["fact"] == "episodes.pattern_seen":
            return {**fact, "episode_id": self.names[fact["number"]]}
        return fact

    def sentence(self, fact: FactRow) -> str:
        match fact["fact"]:
            case "episodes.pattern_found":
                return f"found: {_found(fact)}"
            case "episodes.pattern_seen":
                return f"shown by episode {fact['episode_id']}, success {fact['success']:g}"
            case "episodes.episode_deleted" if self.number in fact.get("patterns", ()):
                return f"gone with episode {fact['episode_id']}, which alone showed it"
            case "episodes.episode_deleted":
                return f"no longer shown by episode {fact['episode_id']}, which was deleted"
            case other:
                return str(other)


# --- what numbers stand for ----------------------------------------------------------------------


def _all(facts: FactsOf, calls: Iterable[int]) -> list[FactRow]:
    return [fact for call in sorted(calls) for fact in facts(call)]


def _links(told: list[FactRow]) -> dict[int, Link]:
    return {
        one["relationship"]: Link(
            one["relationship_id"], one["source"], one["target"], one["relationship_type"]
        )
        for one in told
        if one["fact"] == "episodes.relationship_added"
    }


def _names(view: View, facts: FactsOf, numbers: Iterable[int]) -> dict[int, str]:
    """The ids of episodes: the state knows those that are there, the log those that are gone."""
    wanted = set(numbers)
    found = state.names(view, wanted)
    for number in wanted - found.keys():
        # What touched it first is what began it.
        for fact in _all(facts, sorted(view.touching(f"episode:{number}"))[:1]):
            if fact["fact"] == "episodes.episode_created" and fact["number"] == number:
                found[number] = fact["episode_id"]
    return found


def _patterns(view: View, numbers: Iterable[int], facts: FactsOf) -> dict[int, str]:
    found = {}
    for number in numbers:
        for fact in _all(facts, view.touching(f"pattern:{number}")):
            if fact["fact"] == "episodes.pattern_found" and fact["pattern"] == number:
                found[number] = _found(fact)
    return found


def _taken_along(fact: FactRow) -> list[int]:
    """The relationships that are gone with an episode."""
    deleted = fact["fact"] == "episodes.episode_deleted"
    return list(fact.get("relationships", ())) if deleted else []


# --- sentences -----------------------------------------------------------------------------------


def _begun(fact: FactRow) -> str:
    given = [
        fact.get("language"),
        fact.get("framework"),
        fact.get("complexity"),
        *fact.get("tags", ()),
    ]
    more = "".join(f", {one}" for one in given if one)
    return f"begun: {fact['task_description']} ({_task(fact)}{more})"


def _step(fact: FactRow) -> str:
    took = "" if fact.get("latency_ms") is None else f"{fact['latency_ms']:,} ms"
    how = ", ".join(one for one in (fact.get("result_type"), took) if one)
    said = f"step {fact['step_number']}, {fact['tool']}: {fact['action']}"
    return f"{said} ({how})" if how else said


def _ended(fact: FactRow) -> str:
    outcome = fact["outcome"]
    said = [outcome.get(name) for name in ("verdict", "reason", "error_details")]
    lines = [f"completed: {outcome['type']}, reward {fact['reward']['total']:g}"]
    lines += [one for one in said if one]
    lines += [f"+ {one}" for one in outcome.get("completed", ())]
    lines += [f"- {one}" for one in outcome.get("failed", ())]
    lines += [f"artifact: {one}" for one in outcome.get("artifacts", ())]
    return "\n".join(lines)


def _deleted(fact: FactRow) -> str:
    status = f"{fact['status']}, {fact['outcome']}" if fact.get("outcome") else fact["status"]
    steps = f"{fact['steps']} step{'' if fact['steps'] == 1 else 's'}"
    return f"deleted; it was: {fact['task_description']} ({status}, {steps})"


def _relationship(fact: FactRow) -> str:
    ends = f"{fact['source_id']} {fact['relationship_type']} {fact['target_id']}"
    return f"relationship {fact['relationship_id']}: {ends}"


def _found(fact: FactRow) -> str:
    return f"{fact['kind']}: {fact['description']} ({_task(fact)})"


def _task(fact: FactRow) -> str:
    return f"{fact['task_type'].replace('_', ' ')} in {fact['domain']}"


# --- what is typed -------------------------------------------------------------------------------


def _episode(text: str) -> Thing | None:
    return EpisodeLife(named(text)) if text.strip() else None


def _pattern(text: str) -> Thing | None:
    number = number_of(text.removeprefix("pattern-"))
    return None if number is None else PatternLife(number)


THINGS = (
    ThingKind("episode", "episode:UUID", _episode),
    ThingKind("pattern", "pattern:NUMBER", _pattern),
)
