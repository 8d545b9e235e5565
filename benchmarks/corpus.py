"""Robot memories and queries from a seed: the same seed gives the same text for every system.

Memories are meant to be all new to any deduplicating store: each has a measure, mostly a code or
a proper name of its own, and words drawn from a thousand plain ones and thousands of names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import msgspec

from benchmarks import words

MAX_CHARACTERS = 300
MIN_WORDS, MAX_WORDS = 8, 25
NAME_COUNT = 4000


class Memory(msgspec.Struct, frozen=True):
    """One thing to learn; `context` is JSON text or empty."""

    insight: str
    context: str

    def arguments(self) -> dict[str, str]:
        """The arguments of the tool `learn`."""
        return {"insight": self.insight, **({"context": self.context} if self.context else {})}


class Probe(msgspec.Struct, frozen=True):
    """A memory and a query that a search finds it by: some of its words, out of order."""

    memory: Memory
    query: str


def memories(seed: int) -> Iterator[Memory]:
    """Endless memories, no two alike; ≤ 300 characters, 8 to 25 words.

    Streams of different seeds share their vocabulary but no sentence, short of chance.
    """
    random = Random(f"memories {seed}")
    names = proper_names()
    seen: set[str] = set()
    while True:
        text = _sentence(random, names)
        if text in seen:
            continue
        seen.add(text)
        yield Memory(text, _context(random) if random.random() < 0.5 else "")


def queries(seed: int) -> Iterator[str]:
    """Endless search queries of 4 to 12 words about the same world."""
    random = Random(f"queries {seed}")
    names = proper_names()
    while True:
        yield random.choice(words.QUERIES).format(**_slots(random, names))


def probes(seed: int) -> Iterator[Probe]:
    """Endless memories, each with a query made of six of its own longer words."""
    random = Random(f"probes {seed}")
    for memory in memories(seed):
        content = [word.strip(",;:") for word in memory.insight.split() if len(word) > 3]
        yield Probe(memory, " ".join(random.sample(content, min(6, len(content)))))


def take(count: int, seed: int) -> list[Memory]:
    """The first `count` memories of a seed."""
    return list(islice(memories(seed), count))


def proper_names() -> tuple[str, ...]:
    """Proper names that people, products and rooms bear; the same in every run."""
    random = Random("names")
    found: dict[str, None] = {}
    while len(found) < NAME_COUNT:
        name = "".join(
            random.choice(words.ONSETS) + random.choice(words.VOWELS)
            for _ in range(random.choice((2, 2, 3)))
        ) + random.choice(words.CODAS)
        found[name.capitalize()] = None
    return tuple(found)


def _sentence(random: Random, names: tuple[str, ...]) -> str:
    while True:
        pattern = f"{random.choice(words.STATEMENTS)} {random.choice(words.TAILS)}".strip()
        text = pattern.format(**_slots(random, names))
        if MIN_WORDS <= len(text.split()) <= MAX_WORDS and len(text) <= MAX_CHARACTERS:
            return text[0].upper() + text[1:]


def _slots(random: Random, names: tuple[str, ...]) -> dict[str, Any]:
    quantity, unit, low, high = random.choice(words.QUANTITIES)
    kinds = {
        "object": words.OBJECTS,
        "material": words.MATERIALS,
        "surface": words.SURFACES,
        "tool": words.TOOLS,
        "place": words.PLACES,
        "condition": words.CONDITIONS,
        "action": words.ACTIONS,
        "failure": words.FAILURES,
        "cause": words.CAUSES,
        "name": names,
    }
    letters = "".join(random.choices("ABCDEFGHKLMNPRSTVWXYZ", k=2))
    return {
        "quantity": quantity,
        "unit": unit,
        "number": round(random.uniform(low, high), 2),
        "code": f"{letters}{random.randrange(100, 10000)}",
        "serial": random.randrange(2, 5000),
        **{kind: random.choice(choices) for kind, choices in kinds.items()},
        **{f"other_{kind}": random.choice(choices) for kind, choices in kinds.items()},
    }


def _context(random: Random) -> str:
    return json.dumps(
        {
            "params": {"grip_force": {"value": round(random.uniform(1, 60), 1), "unit": "N"}},
            "spatial": {"object_position": [round(random.uniform(-2, 2), 3) for _ in range(3)]},
            "robot": {"id": f"arm-{random.randrange(1, 40):02d}", "type": "UR5e"},
            "task": {"success": random.random() < 0.7},
            "env": {"sim_or_real": random.choice(("sim", "real"))},
        }
    )
