"""Entities that have grown too large: what they are about, and how they could be split."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from mnemolog.events.arguments import MAX_ARGUMENT_BYTES
from mnemolog.events.envelope import Call
from mnemolog.events.graph import (
    MAX_PAGE,
    MAX_SPLITS,
    AnalyzeEntitySplit,
    FindSplitCandidates,
    ProposeEntitySplit,
)
from mnemolog.projections.graph import state, upkeep
from mnemolog.projections.graph.upkeep import Sized
from mnemolog.projections.language.topics import OTHERS, topics, unused
from mnemolog.services.families.graph.deciding.entities import existing
from mnemolog.services.families.graph.deciding.splits import CONTAINS, PART_OF
from mnemolog.services.reader.reader import Read, Reader

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
    place = reader.view.space_id(call.space)
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
    place = reader.view.space_id(call.space)
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


def _analysis(reader: Reader, call: Call, name: str) -> Analysis:
    place = reader.view.space_id(call.space)
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
