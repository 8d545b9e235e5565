"""Entities that have grown too large: what they are about, and how to split them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from mnemolog.events.arguments import MAX_ARGUMENT_BYTES, Refused
from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Call
from mnemolog.events.graph import (
    MAX_PAGE,
    MAX_SPLITS,
    AnalyzeEntitySplit,
    EntityCreated,
    EntitySplit,
    ExecuteEntitySplit,
    FindSplitCandidates,
    ObservationsRemoved,
    ProposeEntitySplit,
    RelationCreated,
    SplitInput,
    SplitPart,
)
from mnemolog.projections.state import graph as state
from mnemolog.projections.state import graph_upkeep as upkeep
from mnemolog.projections.state.graph_upkeep import Sized
from mnemolog.projections.topics import OTHERS, topics, unused
from mnemolog.services.decider.graph.entities import added, existing
from mnemolog.services.decider.graph.reads import decide_looked
from mnemolog.services.decider.tool import Context, Decided, Read, Reader

MAX_EMBEDDED = 500
"""So many observations a call are grouped by meaning, those of the entities that need it most; the
others by words. Embedding takes some 5 ms each the first time."""
EMBEDDED_CHARACTERS = 256
"""A topic shows in the first words."""
MAX_CANDIDATES = 200
MAX_CHARACTERS = 4_000_000
MAX_NAME = 512
ROOM_BYTES = MAX_ARGUMENT_BYTES * 3 // 4
"""For the observations of a proposal; names, and how a client writes JSON, need some, too."""
CONTAINS, PART_OF = "contiene", "parte_de"


class Analysis(msgspec.Struct, frozen=True):
    entity: Sized
    topics: dict[str, list[str]]

    def shown(self) -> dict[str, Any]:
        return {
            "entity_name": self.entity.name,
            "entity_type": self.entity.type,
            "observation_count": self.entity.observations,
            "threshold": self.entity.threshold,
            "needs_split": self.entity.too_large,
            "topics": self.topics,
            "split_score": self.entity.score,
        }


def answer_analyze(reader: Reader, call: Call, args: AnalyzeEntitySplit) -> Read:
    analysis = _analysis(reader, call, args.entity_name)
    return Read({"analysis": analysis.shown()}, [analysis.entity.id])


def answer_propose(reader: Reader, call: Call, args: ProposeEntitySplit) -> Read:
    """Topics of at least two observations become parts; the rest stays with the original."""
    analysis = _analysis(reader, call, args.entity_name)
    entity = analysis.entity
    place = reader.view.space_id(state.graph_space(call.tenant))
    parts: dict[str, list[str]] = {}
    if entity.too_large and len(analysis.topics) > 1:
        for topic, texts in analysis.topics.items():
            if len(texts) > 1 and topic != OTHERS:
                parts[_part_name(reader, place, entity.name, topic, parts)] = texts
    wanted = sum(map(len, parts.values()))
    parts = _at_once(parts)
    if not parts:
        return Read({"proposal": None}, [entity.id])
    proposal: dict[str, Any] = {
        "original_entity": {"name": entity.name, "entity_type": entity.type},
        "suggested_splits": [
            {"name": name, "entity_type": entity.type, "observations": texts}
            for name, texts in parts.items()
        ],
        "relations_to_create": [
            {"from": source, "to": target, "type": kind}
            for name in parts
            for source, target, kind in (
                (entity.name, name, CONTAINS),
                (name, entity.name, PART_OF),
            )
        ],
        "analysis": {
            "observation_count": entity.observations,
            "threshold": entity.threshold,
            "split_score": entity.score,
            "num_topics": len(analysis.topics),
        },
    }
    later = wanted - sum(map(len, parts.values()))
    if later:
        proposal["left_for_later"] = later
    return Read({"proposal": proposal}, [entity.id])


def answer_candidates(reader: Reader, call: Call, args: FindSplitCandidates) -> Read:
    place = reader.view.space_id(state.graph_space(call.tenant))
    large = [] if place is None else upkeep.too_large(reader.view, place)
    rows: list[dict[str, Any]] = []
    ids: list[int] = []
    room = MAX_CHARACTERS
    for analysis in analyses(reader, large[:MAX_CANDIDATES]):
        room -= sum(len(text) for texts in analysis.topics.values() for text in texts)
        if room < 0 and rows:
            break
        rows.append(analysis.shown())
        ids.append(analysis.entity.id)
    reply: dict[str, Any] = {"candidates": rows}
    if len(rows) < len(large):
        reply |= {"truncated": True, "total_candidates": len(large)}
    return Read(reply, ids)


def analyses(reader: Reader, large: list[Sized]) -> Iterator[Analysis]:
    """What the entities are about, in their order, by meaning as long as there is room for it."""
    room = MAX_EMBEDDED
    for one in large:
        texts = state.observations(reader.view, one.id)
        vectors = None
        if len(texts) <= room:
            vectors = reader.embed_passages([text[:EMBEDDED_CHARACTERS] for text in texts])
            room -= len(texts)
        # As many as are looked at: one may have been added since it was counted.
        entity = msgspec.structs.replace(one, observations=len(texts))
        yield Analysis(entity, topics(texts, vectors, entity.name))


def decide_examined(ctx: Context, args: AnalyzeEntitySplit | ProposeEntitySplit) -> Decided:
    """Examining an entity is on the log; it is no access to it."""
    if ctx.call.answered is None:
        place = ctx.state.space_id(state.graph_space(ctx.call.tenant))
        existing(ctx.state, place, args.entity_name)
    return decide_looked(ctx, args)


def decide_execute(ctx: Context, args: ExecuteEntitySplit) -> Decided:
    space = state.graph_space(ctx.call.tenant)
    place = ctx.state.space_id(space)
    entity = existing(ctx.state, place, args.entity_name)
    said = state.observations(ctx.state, entity.id)
    moved = _moved(entity.name, said, args.approved_splits)
    parent = entity
    if args.parent_entity_name is not None:
        parent = existing(ctx.state, place, args.parent_entity_name)
    facts: list[Fact] = []
    parts: list[state.Entity] = []
    made: list[str] = []
    merged: list[str] = []
    for one in args.approved_splits:
        if one.name in (entity.name, parent.name):
            whose = "the entity that is split" if one.name == entity.name else "the parent"
            raise Refused(f"approved_splits names {whose}, {one.name!r}; a part needs its own name")
        part = state.entity_named(ctx.state, place, one.name)
        if part is None:
            number = ctx.state.peek_id(state.ENTITIES, len(made) + 1)
            part = state.Entity(number, one.name, one.entity_type)
            facts.append(EntityCreated(entity_id=number, name=part.name, entity_type=part.type))
            made.append(part.name)
        elif part.type != one.entity_type:
            raise Refused(
                f"Entity {one.name!r} exists already as a {part.type}, not a {one.entity_type}; "
                "give its own type to move observations into it, or another name"
            )
        else:
            merged.append(part.name)
        parts.append(part)
    facts.append(ObservationsRemoved(entity_id=entity.id, observations=moved))
    for part, one in zip(parts, args.approved_splits, strict=True):
        before = [] if part.name in made else state.observations(ctx.state, part.id)
        facts += added(ctx, part.id, before, one.observations)
    relations = _tied(ctx, parent, parts)
    split = EntitySplit(
        entity_id=entity.id,
        name=entity.name,
        parts=[
            SplitPart(part.id, part.name, len(one.observations))
            for part, one in zip(parts, args.approved_splits, strict=True)
        ],
        parent_id=parent.id,
    )
    result: dict[str, Any] = {
        "new_entities": made,
        "moved_observations": len(moved),
        "relations_created": len(relations),
        "original_observations_remaining": len(said) - len(moved),
    }
    if merged:
        result["merged_into"] = merged
    return Decided(space, [split, *facts, *relations], {"result": result})


def _analysis(reader: Reader, call: Call, name: str) -> Analysis:
    place = reader.view.space_id(state.graph_space(call.tenant))
    entity = existing(reader.view, place, name)
    return next(analyses(reader, [Sized(entity.id, entity.name, entity.type, 0)]))


def _part_name(
    reader: Reader, place: int | None, original: str, topic: str, taken: dict[str, list[str]]
) -> str:
    """`Original - Topic`, with a number where that exists."""
    room = MAX_NAME - len(topic) - 10
    names = {*taken}
    while True:
        name = unused(f"{original[:room]} - {topic}", names)
        if state.entity_named(reader.view, place, name) is None:
            return name
        names.add(name)


def _at_once(parts: dict[str, list[str]]) -> dict[str, list[str]]:
    """As much of the parts as `execute_entity_split` takes in one call."""
    room = ROOM_BYTES
    fitting: dict[str, list[str]] = {}
    for name, texts in islice(parts.items(), MAX_SPLITS):
        taken = []
        for text in texts[:MAX_PAGE]:
            room -= len(msgspec.json.encode(text)) + 1
            if room < 0:
                break
            taken.append(text)
        if taken:
            fitting[name] = taken
    return fitting


def _moved(entity: str, said: list[str], splits: list[SplitInput]) -> list[str]:
    """All that is to be moved, in order; refuses what cannot be."""
    known, moved, names = set(said), dict[str, None](), set[str]()
    for one in splits:
        if one.name in names:
            raise Refused(f"approved_splits has two parts named {one.name!r}; make them one")
        names.add(one.name)
        for text in one.observations:
            if text not in known:
                raise Refused(f"{entity} does not have the observation {_cut(text)!r}")
            if text in moved:
                raise Refused(
                    f"The observation {_cut(text)!r} is to be moved twice; name it once, in one "
                    "part"
                )
            moved[text] = None
    return list(moved)


def _tied(ctx: Context, parent: state.Entity, parts: list[state.Entity]) -> list[Fact]:
    """The relations that tie the parts to their parent and are not there yet."""
    wanted = [
        one
        for part in parts
        for one in ((parent.id, part.id, CONTAINS), (part.id, parent.id, PART_OF))
    ]
    missing = [one for one in wanted if state.active_relation(ctx.state, *one) is None]
    return [
        RelationCreated(
            relation_id=ctx.state.peek_id(state.RELATIONS, nth),
            source_id=source,
            target_id=target,
            relation_type=kind,
        )
        for nth, (source, target, kind) in enumerate(missing, start=1)
    ]


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
