"""Random lives in which only such facts happen as could have been decided.

A life is made from steps: what is to happen, and two numbers that say to what and how. A step that
makes no sense where it comes (to forget when nothing is known) is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import strategies as st

from mnemolog.events.graph import (
    EntitiesAccessed,
    EntitiesCoOccurred,
    EntityTypeChanged,
    GraphImported,
    RelationDeleted,
    RelationEnded,
    RelationKept,
)
from mnemolog.events.ids import session_id
from mnemolog.events.robot import DuplicateFound, MemoriesConsolidated
from tests.spec.given import (
    MODEL,
    NORTH,
    Given,
    at_cosine,
    days,
    ended,
    forgotten,
    happened,
    learned,
    perceived,
    recalled,
    started,
    unit,
)
from tests.spec.given_graph import created, observed, related, stated
from tests.spec.projections.episode_words import (
    CHOSEN,
    begun,
    completed,
    configured,
    executed,
    gone,
    linked,
    meant,
    pattern_meant,
    provided,
    seen,
    stepped,
    tagged,
    unlinked,
)
from tests.spec.projections.episode_words import found as pattern_found
from tests.spec.projections.words import (
    decayed,
    deleted,
    described,
    embedded,
    reflected,
    reflection_embedded,
    unsaid,
    updated,
)

Step = tuple[str, int, int]

# Few of everything, so that the same things happen to the same memories.
COLLECTIONS = ("default", "kitchen")
TEXTS = ("wet tray", "the wet tray slips", "never lift a wet tray", "15N", "12N", "抓取杯子", "wet")
VECTORS = (None, NORTH, at_cosine(0.9), unit(0, 1))
NAMES = ("A", "B", "á", "tool")
KINDS = ("Tool", "Task", "tool")
SAID = ("x", "X", "A", "tool", "抓取力", "a longer one")
RELATIONS = ("uses", "contains")
MODELS = (MODEL.name, "other")


def steps(*names: str) -> st.SearchStrategy[list[Step]]:
    numbers = st.integers(0, 11)
    return st.lists(st.tuples(st.sampled_from(names), numbers, numbers), max_size=30)


# --- robot ---------------------------------------------------------------------------------------


class _Memory(msgspec.Struct):
    content: str
    collection: str
    session: str | None
    confidence: float
    version: int = 1


MEMORY_STEPS = steps(
    *("learn", "learn", "learn", "perceive", "duplicate", "update", "embed", "forget"),
    *("merge", "recall", "decay", "start", "end"),
)


def memories(plan: Sequence[Step]) -> list[Given]:
    """What may happen to memories and sessions."""
    facts: list[Given] = []
    active: dict[int, _Memory] = {}
    sessions: dict[str, str] = {}
    made = 0
    for day, (what, a, b) in enumerate(plan):
        collection, text, vector = COLLECTIONS[a % 2], TEXTS[b % 7], VECTORS[a % 4]
        open_there = [one for one, place in sessions.items() if place == collection]
        number = sorted(active)[a % len(active)] if active else 0
        memory = active.get(number)
        match what:
            case "learn" | "perceive":
                made += 1
                session = open_there[0] if open_there and b % 2 else None
                say, confidence = (learned, 0.8) if what == "learn" else (perceived, 0.9)
                active[made] = _Memory(text, collection, session, confidence)
                facts.append(
                    say(
                        made,
                        text,
                        collection=collection,
                        session=session,
                        confidence=confidence,
                        vector=vector,
                        at_us=days(day),
                    )
                )
            case "start":
                session = session_id(f"session {day}", 0)
                sessions[session] = collection
                facts.append(started(session, collection=collection, at_us=days(day)))
            case "end" if open_there:
                sessions.pop(open_there[0])
                facts.append(ended(open_there[0], collection=collection, at_us=days(day)))
            case "decay":
                facts.append(decayed(collection=collection, at_us=days(day)))
            case "recall":
                some = [a % 9 + 1, b % 9 + 1]
                facts.append(recalled(*some, collection=collection, at_us=days(day)))
            case _ if memory is not None:
                facts += _to_memory(what, b, number, memory, active, day)
    return facts


def _to_memory(
    what: str, b: int, number: int, memory: _Memory, active: dict[int, _Memory], day: int
) -> list[Given]:
    place, at_us = memory.collection, days(day)
    match what:
        case "duplicate":
            fact = DuplicateFound(existing_id=number, method="jaccard", similarity=0.8)
            return [happened(fact, collection=place, at_us=at_us)]
        case "update":
            memory.content, memory.version = TEXTS[b % 7], memory.version + 1
            memory.confidence = 0.95
            return [
                updated(
                    number,
                    memory.content,
                    version=memory.version,
                    session=memory.session,
                    vector=VECTORS[b % 4],
                    collection=place,
                    at_us=at_us,
                )
            ]
        case "embed":
            return [
                embedded(
                    number,
                    memory.content,
                    version=memory.version,
                    session=memory.session,
                    confidence=memory.confidence,
                    vector=VECTORS[1 + b % 3] or NORTH,
                    collection=place,
                    at_us=at_us,
                )
            ]
        case "forget":
            active.pop(number)
            return [forgotten(number, collection=place, at_us=at_us)]
        case "merge":
            others = [n for n, one in active.items() if one.collection == place and n != number]
            merged = others[: b % 3]
            for other in merged:
                active.pop(other)
            into = MemoriesConsolidated(session_id="", kept=number, superseded=merged)
            return [happened(into, collection=place, at_us=at_us)] if merged else []
    return []


# --- graph ---------------------------------------------------------------------------------------


class _Entity(msgspec.Struct):
    name: str
    kind: str
    said: list[str]
    version: int = 1


class _Relation(msgspec.Struct):
    source: int
    kind: str
    target: int
    ended: bool = False


GRAPH_STEPS = steps(
    *("create", "create", "relate", "observe", "observe", "reflect", "access", "together"),
    *("describe", "describe", "embed", "retype", "unsay", "delete", "end", "unrelate", "import"),
)


_BEGINNING: tuple[Step, ...] = (("create", 0, 0), ("create", 1, 1), ("relate", 0, 1))
"""Two entities and a relation, to which something can happen."""


class Graph:
    """What may happen to a graph; `facts` is what has."""

    def __init__(self, plan: Sequence[Step]) -> None:
        self.facts: list[Given] = []
        self.entities: dict[int, _Entity] = {}
        self.relations: dict[int, _Relation] = {}
        self._made = {"entity": 0, "relation": 0, "reflection": 0}
        for day, (what, a, b) in enumerate([*_BEGINNING, *plan]):
            number = sorted(self.entities)[a % len(self.entities)] if self.entities else 0
            happens = self._anyhow(what, a, b)
            if not happens and number:
                happens = self._to_entity(what, number, self.entities[number], a, b)
            if not happens and self.relations:
                number = sorted(self.relations)[a % len(self.relations)]
                happens = self._to_relation(what, number, self.relations[number])
            self.facts += [msgspec.structs.replace(one, at_us=days(day / 3)) for one in happens]

    def _next(self, kind: str) -> int:
        self._made[kind] += 1
        return self._made[kind]

    def _anyhow(self, what: str, a: int, b: int) -> list[Given]:
        match what:
            case "create" if NAMES[a % 4] not in {one.name for one in self.entities.values()}:
                number = self._next("entity")
                self.entities[number] = _Entity(NAMES[a % 4], KINDS[b % 3], [])
                return [created(number, NAMES[a % 4], KINDS[b % 3])]
            case "reflect":
                target = min(self.entities, default=None) if a % 2 else None
                return [reflected(self._next("reflection"), SAID[b % 6], target=target)]
            case "embed" if self._made["reflection"]:
                number = a % self._made["reflection"] + 1
                model = MODELS[b % 2]
                return [reflection_embedded(number, model=model, vector=VECTORS[b % 4])]
            case "import":
                fact = GraphImported(sha256="3385", source="m.jsonl", entities=a, relations=b)
                return [stated(fact)]
        return []

    def _to_entity(self, what: str, number: int, one: _Entity, a: int, b: int) -> list[Given]:
        others = sorted(self.entities)
        match what:
            case "retype" if KINDS[b % 3] != one.kind:
                one.kind, one.version = KINDS[b % 3], one.version + 1
                return [stated(EntityTypeChanged(entity_id=number, entity_type=one.kind))]
            case "observe" if new := [x for x in SAID[b % 6 : b % 6 + 2] if x not in one.said]:
                one.said, one.version = [*one.said, *new], one.version + 1
                return [observed(number, *new, flagged=range(a % 2))]
            case "unsay" if gone := one.said[b % 3 :]:
                one.said, one.version = one.said[: b % 3], one.version + 1
                return [unsaid(number, *gone)]
            case "describe":
                text = f"{one.name} ({one.kind}): {', '.join(one.said)}"
                return [
                    described(
                        number,
                        text,
                        version=one.version,
                        model=MODELS[a % 2],
                        vector=VECTORS[b % 4],
                    )
                ]
            case "access":
                return [
                    stated(EntitiesAccessed(entity_ids=sorted({number, others[b % len(others)]})))
                ]
            case "together" if len(others) > 1:
                return [stated(EntitiesCoOccurred(entity_ids=others[: 2 + b]))]
            case "relate":
                made = _Relation(number, RELATIONS[b % 2], others[b % len(others)])
                if made not in self.relations.values():
                    self.relations[self._next("relation")] = made
                    return [related(self._made["relation"], made.source, made.kind, made.target)]
            case "delete":
                kept = {n: r for n, r in self.relations.items() if number in (r.source, r.target)}
                lost = tuple(self._kept(n, r) for n, r in kept.items())
                for gone_too in kept:
                    self.relations.pop(gone_too)
                self.entities.pop(number)
                said = tuple(one.said)
                return [deleted(number, one.name, one.kind, said=said, relations=lost)]
        return []

    def _to_relation(self, what: str, number: int, one: _Relation) -> list[Given]:
        match what:
            case "end" if not one.ended:
                one.ended = True
                return [stated(RelationEnded(relation_id=number))]
            case "unrelate" if not one.ended:
                self.relations.pop(number)
                return [stated(RelationDeleted(relation=self._kept(number, one)))]
        return []

    def _kept(self, number: int, one: _Relation) -> RelationKept:
        names = self.entities
        return RelationKept(number, names[one.source].name, names[one.target].name, one.kind)


def graph(plan: Sequence[Step]) -> list[Given]:
    return Graph(plan).facts


# --- episodes ------------------------------------------------------------------------------------


class _Episode(msgspec.Struct):
    description: str
    tags: set[str]
    version: int = 1
    steps: int = 0
    completed: bool = False
    shows: set[int] = set()


EPISODE_STEPS = steps(
    *("begin", "begin", "step", "complete", "complete", "tag", "delete", "link", "unlink"),
    *("embed", "embed", "embed pattern", "configure", "provide", "execute"),
)


class Episodes:
    """What may happen to episodes; `facts` is what has. A pattern is as good as its text."""

    def __init__(self, plan: Sequence[Step]) -> None:
        self.facts: list[Given] = []
        self.episodes: dict[int, _Episode] = {}
        self.patterns: set[int] = set()
        self.links: dict[int, tuple[int, int]] = {}
        self.chosen = ""
        self._made = {"episode": 0, "pattern": 0, "link": 0}
        for day, (what, a, b) in enumerate([("begin", 0, 0), ("begin", 1, 1), *plan]):
            number = sorted(self.episodes)[a % len(self.episodes)] if self.episodes else 0
            happens = self._anyhow(what, a, b)
            if not happens and number:
                happens = self._to_episode(what, number, self.episodes[number], b)
            self.facts += [msgspec.structs.replace(one, at_us=days(day / 3)) for one in happens]

    def _next(self, kind: str) -> int:
        self._made[kind] += 1
        return self._made[kind]

    def _anyhow(self, what: str, a: int, b: int) -> list[Given]:
        match what:
            case "begin":
                number = self._next("episode")
                self.episodes[number] = _Episode(TEXTS[a % 7], {NAMES[b % 4]})
                return [begun(number, TEXTS[a % 7], NAMES[b % 4])]
            case "embed pattern" if self.patterns:
                pattern = sorted(self.patterns)[a % len(self.patterns)]
                return [pattern_meant(pattern, model=MODELS[b % 2], vector=VECTORS[b % 4])]
            case "unlink" if self.links:
                link = sorted(self.links)[a % len(self.links)]
                return [unlinked(link, *self.links.pop(link))]
            case "execute":
                return [executed()]
            case "configure":
                self.chosen = (CHOSEN, "", "other")[b % 3]
                return [configured(self.chosen)]
        return []

    def _to_episode(self, what: str, number: int, one: _Episode, b: int) -> list[Given]:
        others = sorted(self.episodes)
        match what:
            case "step" if not one.completed:
                one.steps += 1
                return [stepped(number, one.steps, failed=bool(b % 2))]
            case "complete" if not one.completed:
                one.completed = True
                success = (b % 4) / 3
                facts = [completed(number, self._text(one), success)]
                if b % 3 or not self.patterns:
                    pattern = self._next("pattern")
                    self.patterns.add(pattern)
                    facts.append(pattern_found(pattern, TEXTS[b % 7]))
                one.shows = self.patterns if b % 2 else {max(self.patterns)}
                one.shows = set(one.shows)
                return [*facts, *(seen(each, number, success) for each in sorted(one.shows))]
            case "tag":
                tag = NAMES[b % 4]
                added, removed = ((), (tag,)) if tag in one.tags else ((tag,), ())
                one.tags, one.version = one.tags ^ {tag}, one.version + 1
                return [tagged(number, self._text(one), added, removed)]
            case "link":
                ends = (number, others[b % len(others)])
                if ends not in self.links.values():
                    self.links[self._next("link")] = ends
                    return [linked(self._made["link"], *ends)]
            case "embed":
                vector = VECTORS[b % 4]
                return [meant(number, version=one.version, model=MODELS[b % 2], vector=vector)]
            case "provide" if self.chosen:
                vector = VECTORS[b % 4]
                model = self.chosen
                return [
                    provided("episode", number, version=one.version, model=model, vector=vector)
                ]
            case "delete":
                return [self._deleted(number)]
        return []

    def _deleted(self, number: int) -> Given:
        one = self.episodes.pop(number)
        elsewhere = {each for other in self.episodes.values() for each in other.shows}
        alone = one.shows - elsewhere
        self.patterns -= alone
        lost = [link for link, ends in self.links.items() if number in ends]
        for link in lost:
            self.links.pop(link)
        return gone(number, patterns=tuple(sorted(alone)), links=tuple(lost))

    def _text(self, one: _Episode) -> str:
        return f"{one.description} {' '.join(sorted(one.tags))}"


def episodes(plan: Sequence[Step]) -> list[Given]:
    return Episodes(plan).facts
