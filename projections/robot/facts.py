"""What the robot family's facts do to its tables."""

from __future__ import annotations

import msgspec

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Decision, Embedding
from mnemolog.events.robot import (
    DuplicateFound,
    Embedded,
    MemoriesConsolidated,
    MemoriesDecayed,
    MemoriesRecalled,
    MemoryForgotten,
    MemoryLearned,
    MemoryUpdated,
    SessionEnded,
    SessionStarted,
)
from mnemolog.projections.ports import vector_of
from mnemolog.projections.projection import Evolve
from mnemolog.projections.robot.kept import Posting
from mnemolog.projections.robot.state import (
    COUNTER,
    FADING,
    LAST_USE,
    RECORDING,
    fading,
    kept,
    nearest,
)
from mnemolog.projections.robot.understood import Understood, understood
from mnemolog.projections.state.view import Moment, Writable
from mnemolog.projections.times import DAY_US


def _learned(view: Writable, fact: MemoryLearned, moment: Moment, decision: Decision) -> None:
    space = view.ensure_space(moment.space)
    said = understood(fact.content)
    key = RECORDING if fact.kind == "perception" else said.guard
    view.take_id(COUNTER)
    view.run(
        "INSERT INTO memory (id, space, kind, perception_type, content, content_hash, guard, words,"
        " version, context, category, tags, scope_files, confidence, session, data, metadata,"
        " status, created_at_us, updated_at_us)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, 'active', ?, ?)",
        fact.memory_id,
        space,
        fact.kind,
        fact.perception_type,
        fact.content,
        said.hash,
        key,
        len(said.words),
        fact.context,
        fact.category,
        msgspec.json.encode(fact.tags).decode(),
        msgspec.json.encode(fact.scope_files).decode(),
        fact.confidence,
        fact.session_id,
        fact.data,
        fact.metadata,
        moment.at_us,
        moment.at_us,
    )
    _enter(view, space, fact.memory_id, said, key)
    _note_teacher(view, fact.memory_id, decision.actor)
    if fact.embedding is not None:
        _put_vector(view, space, fact.memory_id, decision.inputs[fact.embedding])
    view.touched(f"memory:{fact.memory_id}", moment)


def _duplicate(view: Writable, fact: DuplicateFound, moment: Moment, decision: Decision) -> None:
    view.touched(f"memory:{fact.existing_id}", moment)


def _updated(view: Writable, fact: MemoryUpdated, moment: Moment, decision: Decision) -> None:
    space, kind = _leave(view, fact.memory_id)
    said = understood(fact.content)
    key = RECORDING if kind == "perception" else said.guard
    view.run(
        "UPDATE memory SET content = ?, content_hash = ?, guard = ?, words = ?, version = ?,"
        " context = ?, category = ?, tags = ?, scope_files = ?, confidence = ?, updated_at_us = ?,"
        # A new content has a new confidence, which fades from now on.
        " decayed_at_us = ? WHERE id = ?",
        fact.content,
        said.hash,
        key,
        len(said.words),
        fact.version,
        fact.context,
        fact.category,
        msgspec.json.encode(fact.tags).decode(),
        msgspec.json.encode(fact.scope_files).decode(),
        fact.confidence,
        moment.at_us,
        moment.at_us,
        fact.memory_id,
    )
    view.run("DELETE FROM vector WHERE memory = ?", fact.memory_id)
    _enter(view, space, fact.memory_id, said, key)
    _note_teacher(view, fact.memory_id, decision.actor)
    if fact.embedding is not None:
        _put_vector(view, space, fact.memory_id, decision.inputs[fact.embedding])
    view.touched(f"memory:{fact.memory_id}", moment)


def _forgotten(view: Writable, fact: MemoryForgotten, moment: Moment, decision: Decision) -> None:
    _leave(view, fact.memory_id)
    view.run(
        "UPDATE memory SET status = 'invalidated', forgotten_because = ?, updated_at_us = ?"
        " WHERE id = ?",
        fact.reason,
        moment.at_us,
        fact.memory_id,
    )
    view.touched(f"memory:{fact.memory_id}", moment)


def _recalled(view: Writable, fact: MemoriesRecalled, moment: Moment, decision: Decision) -> None:
    view.connection.executemany(
        "UPDATE memory SET accessed_at_us = ?, access_count = access_count + 1 WHERE id = ?",
        [(moment.at_us, number) for number in fact.memory_ids],
    )


def _started(view: Writable, fact: SessionStarted, moment: Moment, decision: Decision) -> None:
    space = view.ensure_space(moment.space)
    view.run(
        "INSERT INTO session (id, space, context, started_at_us) VALUES (?, ?, ?, ?)",
        fact.session_id,
        space,
        fact.context,
        moment.at_us,
    )
    view.touched(f"session:{fact.session_id}", moment)


def _ended(view: Writable, fact: SessionEnded, moment: Moment, decision: Decision) -> None:
    view.run(
        "UPDATE session SET ended_at_us = ?, outcome_score = ? WHERE id = ?",
        moment.at_us,
        fact.outcome_score,
        fact.session_id,
    )
    view.touched(f"session:{fact.session_id}", moment)


def _decayed(view: Writable, fact: MemoriesDecayed, moment: Moment, decision: Decision) -> None:
    space = view.ensure_space(moment.space)
    view.run(
        "UPDATE memory SET"
        f" confidence = max(?, decayed(confidence, (? - {LAST_USE}) / {DAY_US}.0, ?)),"
        f" decayed_at_us = ? WHERE {FADING}",
        fact.floor,
        moment.at_us,
        fact.rate,
        moment.at_us,
        *fading(space, moment.at_us, fact.min_days, fact.floor, fact.spared),
    )


def _consolidated(
    view: Writable, fact: MemoriesConsolidated, moment: Moment, decision: Decision
) -> None:
    for number in fact.superseded:
        _leave(view, number)
        view.run(
            "UPDATE memory SET status = 'superseded', superseded_by = ?, updated_at_us = ?"
            " WHERE id = ?",
            fact.kept,
            moment.at_us,
            number,
        )
        view.touched(f"memory:{number}", moment)
    view.touched(f"memory:{fact.kept}", moment)


def _embedded(view: Writable, fact: Embedded, moment: Moment, decision: Decision) -> None:
    row = view.one(
        "SELECT space FROM memory WHERE id = ? AND content_hash = ? AND status = 'active'",
        fact.memory_id,
        fact.content_hash,
    )
    if row is not None:
        _put_vector(view, row[0], fact.memory_id, decision.inputs[fact.embedding])


def _enter(view: Writable, space: int, number: int, said: Understood, key: str) -> None:
    words = sorted(said.words)
    view.run(
        "INSERT INTO collection VALUES (?, 1, ?)"
        " ON CONFLICT DO UPDATE SET active = active + 1, words = words + excluded.words",
        space,
        len(words),
    )
    for table, postings in _postings(space, number, said, key):
        view.connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", postings)
        kept(view).postings.put(postings)
    view.connection.executemany(
        "INSERT INTO frequency VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET memories = memories + 1",
        [(space, token) for token in words],
    )


def _leave(view: Writable, number: int) -> tuple[int, str]:
    """Take a memory out of everything that deciding looks through."""
    space, kind, content, key = view.one(
        "SELECT space, kind, content, guard FROM memory WHERE id = ?", number
    )
    said = understood(content)
    words = sorted(said.words)
    view.run(
        "UPDATE collection SET active = active - 1, words = words - ? WHERE space = ?",
        len(words),
        space,
    )
    for table, postings in _postings(space, number, said, key):
        view.connection.executemany(
            f"DELETE FROM {table} WHERE space = ? AND token = ? AND guard = ? AND memory = ?",
            [posting[:4] for posting in postings],
        )
        kept(view).postings.remove(postings)
    view.connection.executemany(
        "UPDATE frequency SET memories = memories - 1 WHERE space = ? AND token = ?",
        [(space, token) for token in words],
    )
    view.connection.executemany(
        "DELETE FROM frequency WHERE space = ? AND token = ? AND memories = 0",
        [(space, token) for token in words],
    )
    nearest(view).remove(space, number)
    return space, kind


def _postings(
    space: int, number: int, said: Understood, key: str
) -> list[tuple[str, list[Posting]]]:
    """By table what a memory is found by: its words, and where they stand, unless it cannot be a
    duplicate."""
    places = [] if key == RECORDING else said.places
    return [
        (table, [(space, token, key, number, len(said.words)) for token in tokens])
        for table, tokens in (("posting", sorted(said.words)), ("place", places))
    ]


def _note_teacher(view: Writable, number: int, actor: str) -> None:
    view.run("DELETE FROM teacher WHERE memory = ?", number)
    if actor:
        view.run("INSERT INTO teacher VALUES (?, ?)", number, actor)


def _put_vector(view: Writable, space: int, number: int, embedding: Embedding) -> None:
    view.run(
        "INSERT OR REPLACE INTO vector VALUES (?, ?, ?)",
        number,
        embedding.model,
        embedding.vector,
    )
    nearest(view).put(space, embedding.model, number, vector_of(embedding))


EVOLVE: dict[type[Fact], Evolve] = {
    MemoryLearned: _learned,
    DuplicateFound: _duplicate,
    MemoryUpdated: _updated,
    MemoryForgotten: _forgotten,
    MemoriesRecalled: _recalled,
    SessionStarted: _started,
    SessionEnded: _ended,
    MemoriesDecayed: _decayed,
    MemoriesConsolidated: _consolidated,
    Embedded: _embedded,
}
