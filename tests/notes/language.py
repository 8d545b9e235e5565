"""What can be asked of notes, and what can have happened to them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from mnemolog.events.arguments import Arguments
from mnemolog.events.codec import Fact
from mnemolog.events.language import Language


class TakeNote(Arguments, frozen=True):
    """Keep a note."""

    text: Annotated[str, Meta(min_length=1, max_length=500)]


class FindNotes(Arguments, frozen=True):
    """Find notes by their words; without words, all of them."""

    words: Annotated[str, Meta(max_length=100)] = ""


class NoteTaken(Fact, frozen=True, tag="notes.note_taken"):
    note_id: int
    text: str


class NotesRead(Fact, frozen=True, tag="notes.notes_read"):
    note_ids: list[int]


LANGUAGE = Language(name="notes", facts=(NoteTaken, NotesRead))
