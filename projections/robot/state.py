"""The robot family's part of the state: what deciding and answering may ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import closing
from math import ceil, log
from typing import Any

import msgspec
import numpy as np

from mnemolog.events.envelope import Embedding
from mnemolog.events.ids import space_of
from mnemolog.projections.language import opposed, swapped, token_set
from mnemolog.projections.ports import Vector, vector_of
from mnemolog.projections.ranking.bm25 import K1, B
from mnemolog.projections.ranking.fusion import SOURCE
from mnemolog.projections.robot.kept import Kept
from mnemolog.projections.robot.understood import Understood, understood
from mnemolog.projections.state.nearest import Nearest
from mnemolog.projections.state.view import View, Writable, marks
from mnemolog.projections.times import DAY_US

RECORDING = "~"
"""Stands as the guard of perceptions: they are found by their words, never judged duplicates."""

COUNTER = "memory"

_AT_ONCE = 500
"""How many memories one query asks for."""

_FEW_ROWS = 2_000
"""Of postings, which are looked at where they are; more of them are counted in memory."""
_FEW_TEXTS = 8
"""Which are read to see whether they say the opposite; of more, their postings say it."""


class Memory(msgspec.Struct, frozen=True):
    id: int
    space: str
    kind: str
    perception_type: str | None
    content: str
    content_hash: str
    version: int
    context: str
    category: str
    tags: list[str]
    scope_files: list[str]
    confidence: float
    session: str | None
    data: str | None
    metadata: str | None
    status: str
    superseded_by: int | None
    forgotten_because: str | None
    created_at_us: int
    updated_at_us: int
    accessed_at_us: int | None
    access_count: int
    taught_by: str = ""
    """Who learned it, or changed it last; empty when nobody is known."""


class Brief(msgspec.Struct, frozen=True):
    """What the end of a session goes by: a memory without what was stored with it."""

    id: int
    kind: str
    content: str
    category: str
    confidence: float
    created_at_us: int
    access_count: int


class Candidate(msgspec.Struct, frozen=True):
    """What a ranking goes by. `context` is empty where nobody asked for it, and it says nothing of
    where the memory was learned."""

    id: int
    version: int
    confidence: float
    session: str | None
    context: str


class Session(msgspec.Struct, frozen=True):
    id: str
    space: str
    ended: bool


_MEMORY = """
SELECT memory.id, space.name, kind, perception_type, content, content_hash, version, context,
  category, tags, scope_files, confidence, session, data, metadata, status, superseded_by,
  forgotten_because, created_at_us, updated_at_us, accessed_at_us, access_count,
  coalesce(actor, '')
FROM memory JOIN space ON space.id = memory.space LEFT JOIN teacher ON teacher.memory = memory.id
"""


NAME = "robot"


def kept(view: Writable) -> Kept:
    """What is kept in memory of the memories that can be recalled."""
    found = view.kept[NAME]
    assert isinstance(found, Kept)
    return found


def nearest(view: Writable) -> Nearest:
    return kept(view).nearest


def robot_space(tenant: str, collection: str) -> str:
    """The space that holds a collection's memories and sessions."""
    return space_of(tenant, "robot", collection)


def collection_of(space: str) -> str:
    return space.split("/robot/", 1)[1]


# --- questions ---------------------------------------------------------------------------------


def collections(view: View, tenant: str, start: str, limit: int) -> list[str]:
    """The first so many names that begin with `start`."""
    found = view.spaces_from(robot_space(tenant, start), limit)
    return [collection_of(space) for space in found]


def memory(view: View, number: int) -> Memory | None:
    rows = memories(view, [number])
    return rows[0] if rows else None


def memories(view: View, numbers: Sequence[int]) -> list[Memory]:
    """Those of `numbers` that exist, in no particular order, whatever their status."""
    return list(each_memory(view, numbers))


def each_memory(view: View, numbers: Sequence[int]) -> Generator[Memory]:
    """As `memories`, one at a time."""
    sql = f"{_MEMORY} WHERE memory.id IN ({marks(numbers)})"
    with closing(view.run(sql, *numbers)) as rows:
        for row in rows:
            yield _memory(row)


def candidates(
    view: View, space: int, numbers: Sequence[int], *, contexts: bool
) -> Generator[Candidate]:
    """Those of `numbers` that are active in `space`, in no particular order, one at a time: who
    looks at many contexts holds none but the last."""
    for start in range(0, len(numbers), _AT_ONCE):
        chunk = numbers[start : start + _AT_ONCE]
        # The plus keeps SQLite from taking the detour by the index of the space.
        sql = (
            "SELECT id, version, confidence, session,"
            " CASE WHEN ? OR instr(context, ?) THEN context ELSE '' END"
            f" FROM memory WHERE id IN ({marks(chunk)}) AND +space = ? AND status = 'active'"
        )
        with closing(view.run(sql, contexts, SOURCE, *chunk, space)) as rows:
            for row in rows:
                yield Candidate(*row)


def session_memories(view: View, session: str) -> list[Brief]:
    """The session's active memories, oldest first."""
    sql = (
        "SELECT id, kind, content, category, confidence, created_at_us, access_count FROM memory"
        " WHERE session = ? AND status = 'active' ORDER BY id"
    )
    return [Brief(*row) for row in view.all(sql, session)]


def active_of(view: View, space: str, numbers: Sequence[int]) -> set[int]:
    """Those of `numbers` that are active memories of `space`."""
    rows = view.all(
        "SELECT memory.id FROM memory JOIN space ON space.id = memory.space"
        f" WHERE memory.id IN ({marks(numbers)}) AND space.name = ? AND status = 'active'",
        *numbers,
        space,
    )
    return {row[0] for row in rows}


def contents(view: View, numbers: Collection[int]) -> dict[int, str]:
    return dict(
        view.all(f"SELECT id, content FROM memory WHERE id IN ({marks(numbers)})", *numbers)
    )


def session(view: View, number: str) -> Session | None:
    row = view.one(
        "SELECT session.id, space.name, ended_at_us FROM session"
        " JOIN space ON space.id = session.space WHERE session.id = ?",
        number,
    )
    return None if row is None else Session(row[0], row[1], row[2] is not None)


def active_count(view: View, space: str) -> int:
    row = view.one(
        "SELECT active FROM collection JOIN space ON space.id = collection.space WHERE name = ?",
        space,
    )
    return 0 if row is None else int(row[0])


def same_text(view: View, space: int, text: str, *, guarded: bool, but: int = 0) -> int | None:
    """The active memory (not a perception) that says exactly this, normalised; never `but`.

    `guarded` matters for what normalising hides: 5 mW is not 5 MW.
    """
    said = understood(text)
    row = view.one(
        "SELECT id FROM memory WHERE space = ? AND content_hash = ? AND status = 'active'"
        " AND kind = 'fact' AND id <> ? AND (? OR guard = ?) ORDER BY id LIMIT 1",
        space,
        said.hash,
        but,
        not guarded,
        said.guard,
    )
    return None if row is None else int(row[0])


def alike_by_words(
    view: Writable, space: int, text: str, threshold: float, *, guarded: bool, but: int = 0
) -> tuple[int, float] | None:
    """The memory with the highest Jaccard similarity over `threshold`, exactly; never `but`.

    `guarded`: only texts with the same numbers and negations, and none that says the opposite.
    """
    said = understood(text)
    if not said.words:
        return None
    frequencies = _frequencies(view, space, said.words)
    rarest = sorted(said.words, key=lambda token: (frequencies.get(token, 0), token))
    # Two sets can only reach the threshold when they share one of the rarest few tokens.
    prefix = rarest[: len(rarest) - ceil(threshold * len(rarest)) + 1]
    rows = sum(frequencies.get(token, 0) for token in prefix) * len(rarest)
    if guarded and rows > _FEW_ROWS:
        scored = kept(view).postings.alike(space, said, threshold)
    else:
        scored = _sharing(view, space, said, prefix, threshold, guarded=guarded)
    close = [one for one in scored if one[0] > threshold and one[1] != but]
    turned = _turned_round(view, space, said, [number for _, number in close]) if guarded else ()
    return min(
        ((number, similarity) for similarity, number in close if number not in turned),
        key=lambda one: (-one[1], one[0]),
        default=None,
    )


def _sharing(
    view: View,
    space: int,
    said: Understood,
    prefix: Sequence[str],
    threshold: float,
    *,
    guarded: bool,
) -> list[tuple[float, int]]:
    """Every memory that has one of the tokens in `prefix`, with its similarity to what is said."""
    mine, count = said.words, len(said.words)
    same_guard, key = ("guard = ?", said.guard) if guarded else ("guard <> ?", RECORDING)
    rows = view.all(
        f"SELECT memory, words, count(*) FROM posting"
        f" WHERE space = ? AND token IN ({marks(mine)}) AND {same_guard} AND memory IN ("
        f"  SELECT memory FROM posting WHERE space = ? AND token IN ({marks(prefix)})"
        f"  AND {same_guard} AND words BETWEEN ? AND ?)"
        " GROUP BY memory",
        space,
        *mine,
        key,
        space,
        *prefix,
        key,
        ceil(threshold * count),
        int(count / threshold),
    )
    return [(shared / (count + words - shared), number) for number, words, shared in rows]


def alike_by_meaning(
    view: Writable,
    space: int,
    text: str,
    embedding: Embedding,
    threshold: float,
    *,
    guarded: bool,
    but: int = 0,
) -> tuple[int, float] | None:
    """The memory (not a perception) whose vector is nearest, over `threshold`; never `but`."""
    said = understood(text)

    def comparable(numbers: Sequence[int]) -> set[int]:
        rows = view.all(
            f"SELECT id FROM memory WHERE id IN ({marks(numbers)}) AND id <> ? AND kind = 'fact'"
            " AND (? OR guard = ?)",
            *numbers,
            but,
            not guarded,
            said.guard,
        )
        found = {row[0] for row in rows}
        return found - _turned_round(view, space, said, found) if guarded else found

    # What is not comparable is left out first, which costs less than comparing it in full.
    found = nearest(view).above(
        space, embedding.model, vector_of(embedding), threshold, among=comparable
    )
    return (found[0].id, found[0].similarity) if found else None


def rank_by_words(view: View, space: int, text: str, limit: int) -> list[int]:
    """BM25 over the state's own postings: exact, and the same on every node."""
    total, words_in_all = view.one("SELECT active, words FROM collection WHERE space = ?", space)
    average = words_in_all / max(1, total)
    wanted = token_set(text)
    frequencies = _frequencies(view, space, wanted)
    chosen, budget = [], 20_000
    for token in sorted(frequencies, key=lambda one: (frequencies[one], one))[:32]:
        budget -= frequencies[token]
        if budget < 0:
            break
        chosen.append(token)
    scores: Counter[int] = Counter()
    for token in chosen:
        there = frequencies[token]
        weight = log(1 + (total - there + 0.5) / (there + 0.5))
        for number, words in view.all(
            "SELECT memory, words FROM posting WHERE space = ? AND token = ?", space, token
        ):
            share = 1 - B + B * words / max(average, 1)
            scores[number] += weight * (K1 + 1) / (1 + K1 * share)
    ranked = sorted(scores.items(), key=lambda one: (-round(one[1], 9), one[0]))
    return [number for number, _ in ranked[:limit]]


def decayable(
    view: View, space: int, at_us: int, min_days: float, floor: float, spared: Sequence[str]
) -> int:
    """How many memories a decay at `at_us` would touch."""
    sql = f"SELECT count(*) FROM memory WHERE {FADING}"
    return int(view.one(sql, *fading(space, at_us, min_days, floor, spared))[0])


def without_vector(view: View, model: str, after: int, limit: int) -> list[tuple[int, str, str]]:
    """Active memories past id `after` that have no vector of `model`: id, space, content."""
    return view.all(
        "SELECT memory.id, space.name, content FROM memory JOIN space ON space.id = memory.space"
        " LEFT JOIN vector ON vector.memory = memory.id AND vector.model = ?"
        " WHERE status = 'active' AND vector.memory IS NULL AND memory.id > ?"
        " ORDER BY memory.id LIMIT ?",
        model,
        after,
        limit,
    )


def count_without_vector(view: View, model: str) -> int:
    row = view.one(
        "SELECT count(*) FROM memory LEFT JOIN vector ON vector.memory = memory.id"
        " AND vector.model = ? WHERE status = 'active' AND vector.memory IS NULL",
        model,
    )
    return int(row[0])


def vectors_of(view: View, model: str, numbers: Iterable[int]) -> list[Vector]:
    found = []
    for number in numbers:
        row = view.one("SELECT vector FROM vector WHERE memory = ? AND model = ?", number, model)
        if row is not None:
            found.append(np.frombuffer(row[0], dtype=np.float16))
    return found


def _memory(row: Any) -> Memory:
    values = list(row)
    values[9], values[10] = msgspec.json.decode(row[9]), msgspec.json.decode(row[10])
    return Memory(*values)


def _frequencies(view: View, space: int, tokens: Iterable[str]) -> dict[str, int]:
    wanted = list(tokens)
    return dict(
        view.all(
            f"SELECT token, memories FROM frequency WHERE space = ? AND token IN ({marks(wanted)})",
            space,
            *wanted,
        )
    )


def _turned_round(
    view: Writable, space: int, said: Understood, numbers: Collection[int]
) -> set[int]:
    """Those of `numbers`, which have the same guard, that have words of the opposite meaning, or
    the same words in swapped roles."""
    if len(numbers) > _FEW_TEXTS:
        return kept(view).postings.turned_round(space, said).intersection(numbers)
    others = {number: understood(content) for number, content in contents(view, numbers).items()}
    return {
        number
        for number, told in others.items()
        if opposed(said.words, told.words) or swapped(said.order, told.order)
    }


LAST_USE = "max(coalesce(accessed_at_us, created_at_us), coalesce(decayed_at_us, 0))"
FADING = (
    "space = ? AND status = 'active' AND confidence > ?"
    " AND category NOT IN (SELECT value FROM json_each(?))"
    f" AND (? - {LAST_USE}) / {DAY_US}.0 > ?"
)
"""Which memories a decay touches; `fading` gives its parameters."""


def fading(
    space: int, at_us: int, min_days: float, floor: float, spared: Sequence[str]
) -> tuple[Any, ...]:
    return space, floor, msgspec.json.encode(spared).decode(), at_us, min_days


def decayed(confidence: float, days: float, rate: float) -> float:
    """A memory's confidence after `days` without use."""
    # Rounded, so that the last bits of different maths libraries never make states differ.
    return float(round(confidence * (1.0 - rate) ** days, 6))
