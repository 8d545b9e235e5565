"""Notes as a family: two tools, a resource, and how the life of a note is told."""

from __future__ import annotations

from typing import Any

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Call
from mnemolog.events.ids import partition_of_id
from mnemolog.projections.state.view import View
from mnemolog.services.decider import tool
from mnemolog.services.decider.tool import Decided, Place, adds, reads
from mnemolog.services.family import Family, Resource, Spaces
from mnemolog.services.reader.reader import Read, Reader
from mnemolog.services.told import FactRow, FactsOf, Thing, ThingKind, number_of
from tests.notes import INTRODUCTION, NAME
from tests.notes.language import FindNotes, NotesRead, NoteTaken, TakeNote
from tests.notes.projection import COUNTER, PROJECTION, notes, notes_space


class NoteRules(msgspec.Struct, frozen=True):
    most: int = 100
    """So many notes a tenant may have."""


Context = tool.Context[NoteRules]


def place(tenant: str, args: Any) -> Place:
    return Place(notes_space(tenant))


def decide_take_note(ctx: Context, args: TakeNote) -> Decided:
    space = notes_space(ctx.call.tenant)
    if len(notes(ctx.state, ctx.state.space_id(space))) >= ctx.rules.most:
        raise Refused(f"There are {ctx.rules.most} notes, which is the limit")
    fact = NoteTaken(note_id=ctx.state.peek_id(COUNTER), text=args.text)
    return Decided(space, [fact], {"note_id": fact.note_id})


def decide_find_notes(ctx: Context, args: FindNotes) -> Decided:
    returned = ctx.returned()
    facts: list[Fact] = [NotesRead(note_ids=returned)] if returned else []
    return Decided(notes_space(ctx.call.tenant), facts, {"ids": returned})


def answer_find_notes(reader: Reader, call: Call, args: FindNotes) -> Read:
    if args.words and not args.words.strip():
        raise Refused("words must not be blank; leave them out for all notes")
    space = notes_space(call.tenant)
    known = {one.id: one for one in notes(reader.view, reader.view.space_id(space))}
    found = list(known)
    if args.words:
        found = [hit.id for hit in reader.text.search(space, args.words, 10) if hit.id in known]
    rows = [{"id": number, "text": known[number].text} for number in found]
    return Read({"notes": rows}, found)


class NoteThing(Thing):
    kind = "note"

    def __init__(self, number: int) -> None:
        self.number = number

    def __str__(self) -> str:
        return f"Note {self.number}"

    def partition(self, tenant: str, partitions: int) -> int:
        return partition_of_id(self.number, partitions)

    def known(self, view: View, tenant: str, facts: FactsOf) -> tuple[Thing, set[int]]:
        return self, view.touching(f"note:{self.number}")

    def concerns(self, fact: FactRow) -> bool:
        return bool(fact["fact"] == "notes.note_taken" and fact["note_id"] == self.number)

    def sentence(self, fact: FactRow) -> str:
        return f"taken: {fact['text']}"


def read_note(text: str) -> Thing | None:
    number = number_of(text)
    return None if number is None else NoteThing(number)


FAMILY = Family(
    name=NAME,
    introduction=INTRODUCTION,
    projection=PROJECTION,
    tools=(
        adds("take_note", TakeNote, place, decide_take_note, idempotent=False),
        reads("find_notes", FindNotes, place, decide_find_notes, answer_find_notes),
    ),
    spaces=Spaces(
        path=NAME,
        words="notes",
        title="Changes of the notes",
        description="The newest notes.",
        find=lambda tenant, name: notes_space(tenant) if name == NAME else None,
    ),
    rules=NoteRules(),
    resources=(
        Resource(
            uri="notes://all",
            name="notes",
            title="Notes",
            description="All notes.",
            tool="find_notes",
            space=NAME,
        ),
    ),
    things=(ThingKind("note", "note:NUMBER", read_note),),
)
