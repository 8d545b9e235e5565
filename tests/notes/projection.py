"""What the facts about notes do, and what may be asked."""

from __future__ import annotations

import msgspec

from mnemolog.events.envelope import Decision
from mnemolog.projections.ports import PutText
from mnemolog.projections.projection import Projection
from mnemolog.projections.state.view import Moment, View, Writable
from tests.notes.language import LANGUAGE, NotesRead, NoteTaken

COUNTER = "note"


class Note(msgspec.Struct, frozen=True):
    id: int
    text: str
    reads: int


def notes_space(tenant: str) -> str:
    return f"{tenant}/notes"


def notes(view: View, space: int | None) -> list[Note]:
    rows = view.all("SELECT id, text, reads FROM note WHERE space = ? ORDER BY id", space)
    return [Note(*row) for row in rows]


def _taken(view: Writable, fact: NoteTaken, moment: Moment, decision: Decision) -> None:
    view.take_id(COUNTER)
    space = view.ensure_space(moment.space)
    view.run("INSERT INTO note VALUES (?, ?, ?, 0)", fact.note_id, space, fact.text)
    view.touched(f"note:{fact.note_id}", moment)


def _read(view: Writable, fact: NotesRead, moment: Moment, decision: Decision) -> None:
    for number in fact.note_ids:
        view.run("UPDATE note SET reads = reads + 1 WHERE id = ?", number)


def _text(fact: NoteTaken, decision: Decision) -> list[PutText]:
    return [PutText(decision.space, fact.note_id, fact.text)]


PROJECTION = Projection(
    language=LANGUAGE,
    tables="CREATE TABLE note (id INTEGER PRIMARY KEY, space INTEGER NOT NULL,"
    " text TEXT NOT NULL, reads INTEGER NOT NULL);",
    canonical={"note": "SELECT * FROM note ORDER BY id"},
    state={NoteTaken: _taken, NotesRead: _read},
    text={NoteTaken: _text},
)
