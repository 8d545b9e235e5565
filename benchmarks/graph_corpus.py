"""Entities and relations from a seed: the same seed gives the same graph for every system.

Entities come in lines of five that are named in an observation of each, so that a search by a
line's name has five hits however large the graph is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from benchmarks import corpus, words

LINE = 5
KINDS = ("part", "tool", "fixture", "vehicle", "product")


class Entity(msgspec.Struct, frozen=True):
    """An entity as `create_entities` takes it, and the line it belongs to."""

    name: str
    kind: str
    observations: list[str]
    line: str

    def arguments(self) -> dict[str, Any]:
        """The entity as both systems' tools take it."""
        return {"name": self.name, "entityType": self.kind, "observations": self.observations}


def entities(seed: int) -> Iterator[Entity]:
    """Endless entities of three observations each, 8 to 25 words an observation; no name and no
    line comes twice, and no two seeds share one."""
    random = Random(f"entities {seed}")
    sentences = corpus.memories(seed)
    names = corpus.proper_names()
    seen: set[str] = set()
    number = 0
    while True:
        line = f"{random.choice(names)} {random.choice(words.OBJECTS)} line {seed}"
        if line in seen:
            continue
        seen.add(line)
        for _ in range(LINE):
            number += 1
            thing = f"{random.choice(words.MATERIALS)} {random.choice(words.OBJECTS)}"
            said = [f"Belongs to the {line}, kept at the {random.choice(words.PLACES)}"]
            said += [memory.insight for memory in islice(sentences, 2)]
            yield Entity(f"{thing} {seed}-{number}", random.choice(KINDS), said, line)


def write_file(path: Path, count: int, seed: int) -> list[Entity]:
    """Write `count` entities, and a relation of each but the first of a line to that first one, as
    the peer keeps them and as `mnemolog import` reads them; the entities."""
    found = list(islice(entities(seed), count))
    rows = [{"type": "entity", **one.arguments()} for one in found]
    rows += [
        {
            "type": "relation",
            "from": one.name,
            "to": found[at - at % LINE].name,
            "relationType": "belongs_with",
        }
        for at, one in enumerate(found)
        if at % LINE
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(msgspec.json.encode(row) for row in rows))
    return found
