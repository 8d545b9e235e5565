"""A family, and the families of a service together, are made only if they are whole.

Notes, the family of the tests, is whole; each specification takes something from it or puts
something strange into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mnemolog.events.codec import Fact
from mnemolog.events.language import Language
from mnemolog.events.robot import MemoryForgotten
from mnemolog.projections.graph import PROJECTION as GRAPH
from mnemolog.projections.projection import Projected, Projection
from mnemolog.projections.robot import PROJECTION as ROBOT
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.catalogue import Catalogue, load
from mnemolog.services.decider.tool import Tool
from mnemolog.services.families import FAMILIES
from mnemolog.services.family import Family, Resource
from mnemolog.services.late import Queue, Sweep
from mnemolog.services.prompts import BEFORE, Prompt, step
from mnemolog.services.told import ThingKind
from tests.notes.family import FAMILY as NOTES
from tests.notes.language import NotesRead, NoteTaken
from tests.notes.projection import PROJECTION

TAKE, FIND = NOTES.tools
INTERNAL = replace(TAKE, name="notes.describe", internal=True)


class OtherTaken(Fact, frozen=True, tag="others.note_taken"):
    note_id: int


class OtherRules(msgspec.Struct, frozen=True):
    most: int = 1


def nothing(*args: Any) -> Any:
    """Stands where a function has to be that is never called."""


OTHERS = replace(
    NOTES,
    name="others",
    projection=Projection(
        language=Language(name="others", facts=(OtherTaken,)),
        tables="CREATE TABLE other (id INTEGER PRIMARY KEY);",
        canonical={"other": "SELECT * FROM other ORDER BY id"},
        state={OtherTaken: nothing},
    ),
    tools=(replace(TAKE, name="take_other"),),
    spaces=replace(NOTES.spaces, path="others"),
    rules=OtherRules(),
    resources=(),
    things=(ThingKind("other", "other:NUMBER", nothing),),
)
"""Another whole family, which has nothing in common with notes."""


def queue(*kinds: str, tool: str = INTERNAL.name) -> Queue:
    parts = ("waiting", "count", "count_in", "waits_since", "last_noted", "made", "ask")
    functions: Any = dict.fromkeys(parts, nothing)
    return Queue(kinds=kinds, asks=(NoteTaken,), notes=(NotesRead,), tool=tool, **functions)


def sweep(tool: str) -> Sweep:
    return Sweep(tool=tool, page=nothing, count=nothing, ask=nothing)


def resource(tool: str) -> Resource:
    return Resource(
        uri="notes://x", name="x", title="X", description="X.", tool=tool, space="notes"
    )


def refused(sentence: str, make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        make()


# --- what is whole -------------------------------------------------------------------------------


def test_the_families_of_the_service_and_those_of_the_tests_go_together() -> None:
    families = [*(one.load() for one in FAMILIES), NOTES, OTHERS]
    catalogue = Catalogue(families)
    assert list(catalogue.families) == ["robot", "graph", "episodes", "notes", "others"]
    assert {"learn", "read_graph", "take_note", "take_other"} <= catalogue.tools.keys()
    PartitionState(None, 0, 1, catalogue.projected).close()


def test_a_family_is_called_what_it_is_listed_as() -> None:
    """Who is greeted by a list of names is given the families of those names."""
    assert [one.name for one in FAMILIES] == list(load(FAMILIES).families)
    for one in FAMILIES:
        assert one.introduction == one.load().introduction


# --- a projection --------------------------------------------------------------------------------


def test_a_projection_says_what_every_fact_does() -> None:
    state = {NoteTaken: PROJECTION.state[NoteTaken]}
    refused(
        "nothing says what notes.notes_read does to the state",
        lambda: replace(PROJECTION, state=state),
    )


@pytest.mark.parametrize("part", ["state", "text", "vectors"])
def test_a_projection_handles_the_facts_of_its_own_family_alone(part: str) -> None:
    handlers = {**getattr(PROJECTION, part), MemoryForgotten: nothing}
    changed: Any = {part: handlers}
    refused(
        "MemoryForgotten is no fact of the family notes", lambda: replace(PROJECTION, **changed)
    )


def test_a_fact_need_not_change_an_index() -> None:
    bare = replace(PROJECTION, text={}, vectors={})
    assert Projected([bare]).facts.tags == ["notes.note_taken", "notes.notes_read"]


# --- projections together ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["memory", "entity", "audit"])
def test_two_families_cannot_have_one_canonical_name(name: str) -> None:
    """`audit` is the state's own."""
    strange = replace(PROJECTION, canonical={name: "SELECT * FROM note"})
    refused(f"two families have {name}", lambda: Projected([ROBOT, GRAPH, strange]))


@pytest.mark.parametrize("name", ["memory", "entity", "audit"])
def test_two_families_cannot_have_one_table(name: str) -> None:
    strange = replace(PROJECTION, tables=f"CREATE TABLE {name} (id INTEGER PRIMARY KEY);")
    refused(
        f"the tables of the family notes cannot be made: table {name} already exists",
        lambda: Projected([ROBOT, GRAPH, strange]),
    )


def test_tables_are_read_before_a_store_is_made_of_them() -> None:
    strange = replace(PROJECTION, tables="CREATE TABEL note (id INTEGER PRIMARY KEY);")
    refused(
        'the tables of the family notes cannot be made: near "TABEL": syntax error',
        lambda: Projected([ROBOT, strange]),
    )


def test_two_families_cannot_have_one_sql_function() -> None:
    strange = replace(PROJECTION, functions={"decayed": (1, nothing)})
    refused("two families have decayed", lambda: Projected([ROBOT, strange]))


def test_two_families_cannot_have_one_name() -> None:
    refused("two languages have one name: notes, notes", lambda: Projected([PROJECTION] * 2))
    refused("two families have one name", lambda: Catalogue([NOTES, NOTES]))


# --- a tool --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "changed"),
    [(FIND, {"answer": None}), (TAKE, {"answer": nothing}), (TAKE, {"reads": True})],
    ids=["reads without an answer", "answers without reading", "a write that reads"],
)
def test_what_reads_has_an_answer_and_nothing_else_has(tool: Tool, changed: Any) -> None:
    refused(
        f"{tool.name}: what reads has an answer, and nothing else has",
        lambda: replace(tool, **changed),
    )


def test_what_reads_can_be_repeated() -> None:
    sentence = "find_notes: what reads destroys nothing, and can be repeated"
    refused(sentence, lambda: replace(FIND, idempotent=False))
    refused(sentence, lambda: replace(FIND, destroys=True))


# --- a family ------------------------------------------------------------------------------------


def test_a_family_has_its_own_projection() -> None:
    refused(
        "the family notes has the projection of robot", lambda: replace(NOTES, projection=ROBOT)
    )
    refused("the family other has the projection of notes", lambda: replace(NOTES, name="other"))


@pytest.mark.parametrize("path", ["note", "notes2/{name}", "robot/notes", ""])
def test_the_spaces_of_a_family_are_called_by_its_name(path: str) -> None:
    refused(
        f"the spaces of the family notes are called {path}",
        lambda: replace(NOTES, spaces=replace(NOTES.spaces, path=path)),
    )


@pytest.mark.parametrize("tool", ["find_noten", "take_note", "read_graph"])
def test_a_resource_is_what_a_read_of_the_family_answers(tool: str) -> None:
    refused(
        f"notes://x: {tool} is no read of notes",
        lambda: replace(NOTES, resources=(*NOTES.resources, resource(tool))),
    )


@pytest.mark.parametrize("tool", ["find_noten", "read_graph"])
def test_a_prompt_is_about_the_tools_of_the_family(tool: str) -> None:
    prompt = Prompt(moment=BEFORE, steps=(step("Look it up.", "find_notes", tool),))
    refused(
        f"before_task: notes has no tool {tool}",
        lambda: replace(NOTES, prompts=(prompt,)),
    )
    whole = Prompt(moment=BEFORE, steps=(step("Look it up.", "find_notes"),))
    assert replace(NOTES, prompts=(whole,)).prompts == (whole,)


@pytest.mark.parametrize("late", [queue("note", tool="take_note"), sweep("take_note"), sweep("x")])
def test_what_notes_late_vectors_is_an_internal_tool_of_the_family(late: Queue | Sweep) -> None:
    refused(f"{late.tool} is no internal tool of notes", lambda: replace(NOTES, late=(late,)))
    whole = replace(NOTES, tools=(*NOTES.tools, INTERNAL), late=(sweep(INTERNAL.name),))
    assert Catalogue([whole]).sweeps == list(whole.late)


# --- families together ---------------------------------------------------------------------------


def with_tools(family: Family, *tools: Tool) -> Family:
    return replace(family, tools=tools)


@pytest.mark.parametrize(
    ("families", "name"),
    [
        ([with_tools(NOTES, TAKE, FIND, TAKE)], "take_note"),
        ([NOTES, with_tools(OTHERS, TAKE)], "take_note"),
        ([with_tools(NOTES, TAKE, replace(FIND, aliases=("take_note",)))], "take_note"),
        ([with_tools(NOTES, replace(TAKE, aliases=("find_notes",)), FIND)], "find_notes"),
        (
            [NOTES, with_tools(OTHERS, replace(TAKE, name="o", aliases=("find_notes",)))],
            "find_notes",
        ),
        ([with_tools(NOTES, replace(TAKE, aliases=("n",)), replace(FIND, aliases=("n",)))], "n"),
        ([with_tools(NOTES, replace(TAKE, aliases=("take_note",)), FIND)], "take_note"),
    ],
    ids=[
        "in a family",
        "in two families",
        "an alias after it",
        "an alias before it",
        "an alias elsewhere",
        "two aliases",
        "its own alias",
    ],
)
def test_a_name_means_one_tool(families: list[Family], name: str) -> None:
    refused(f"two tools are called {name}", lambda: Catalogue(families))


def test_what_a_tool_awaits_is_described_by_somebody() -> None:
    awaiting = with_tools(NOTES, TAKE, replace(FIND, awaits="note"), INTERNAL)
    refused("nobody describes note, which a tool awaits", lambda: Catalogue([awaiting]))
    other = replace(awaiting, late=(queue("letter"),))
    refused("nobody describes note, which a tool awaits", lambda: Catalogue([other]))
    whole = replace(awaiting, late=(queue("letter", "note"),))
    assert Catalogue([whole]).queues == list(whole.late)


def test_a_kind_of_thing_is_described_by_one_family() -> None:
    describing = replace(with_tools(NOTES, *NOTES.tools, INTERNAL), late=(queue("note"),))
    own = replace(INTERNAL, name="others.describe")
    again = replace(with_tools(OTHERS, own), late=(queue("other", "note", tool=own.name),))
    refused(
        "two families have things of one kind described", lambda: Catalogue([describing, again])
    )


def test_a_kind_of_thing_is_told_of_by_one_family() -> None:
    again = replace(OTHERS, things=NOTES.things)
    refused("two families tell of things of one kind", lambda: Catalogue([NOTES, again]))
