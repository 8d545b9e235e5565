"""The lines of Anthropic's memory file: what is read from them, and what is wrong with others."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.events.arguments import NO_CONTROLS
from mnemolog.events.graph import EntityInput, RelationInput
from mnemolog.services.families.graph.importing import anthropic
from mnemolog.services.families.graph.importing.anthropic import (
    EntityLine,
    Problem,
    RelationLine,
    read_line,
    write_entity,
    write_relation,
)
from mnemolog.services.families.graph.importing.lines import MAX_LINE_BYTES


def read(**line: Any) -> EntityLine | RelationLine | Problem:
    return read_line(json.dumps(line).encode())


def entity(found: EntityLine | RelationLine | Problem) -> tuple[str, str | None, list[str]]:
    """Of a line that makes one entity: what it says."""
    assert isinstance(found, EntityLine), found
    names = {one.name for one in found.inputs}
    kinds = {one.entity_type for one in found.inputs}
    assert len(names) == len(kinds) == 1
    return (
        names.pop(),
        kinds.pop(),
        [text for one in found.inputs for text in one.observations or []],
    )


def reason(found: EntityLine | RelationLine | Problem) -> str:
    assert isinstance(found, Problem), found
    assert found.detail
    return found.reason


def left_out(found: EntityLine | RelationLine | Problem) -> list[str]:
    assert isinstance(found, EntityLine), found
    return [one.reason for one in found.problems]


def test_an_entity() -> None:
    found = read(type="entity", name="Astro", entityType="Tool", observations=["6.x", "快"])
    assert found == EntityLine(
        [EntityInput(name="Astro", entity_type="Tool", observations=["6.x", "快"])]
    )


def test_a_relation() -> None:
    line = {"type": "relation", "from": "A", "to": "B", "relationType": "uses"}
    assert read(**line) == RelationLine(RelationInput(source="A", target="B", relation_type="uses"))


def test_the_order_of_fields_and_unknown_fields_do_not_matter() -> None:
    found = read_line(
        b'{"createdAt": {"a": [1]}, "observations": [], "name": "A", "type":"entity"}'
    )
    assert entity(found) == ("A", None, [])


@pytest.mark.parametrize("kind", [None, "", "  "])
def test_an_entity_without_a_type_keeps_the_one_it_has(kind: str | None) -> None:
    assert entity(read(type="entity", name="A", entityType=kind, observations=["x"])) == (
        "A",
        None,
        ["x"],
    )


def test_observations_may_be_missing() -> None:
    assert entity(read(type="entity", name="A", entityType="T")) == ("A", "T", [])
    assert entity(read(type="entity", name="A", entityType="T", observations=None))[2] == []


def test_more_observations_than_a_call_may_have_are_all_kept() -> None:
    said = [f"fact {n}" for n in range(1234)]
    found = read(type="entity", name="A", entityType="T", observations=said)
    assert entity(found) == ("A", "T", said)
    assert isinstance(found, EntityLine)
    assert max(len(one.observations or []) for one in found.inputs) == 100
    assert left_out(found) == []


def test_observations_that_cannot_be_kept_are_left_out_and_told() -> None:
    good = ["x" * 2000, "fine"]
    bad = ["y" * 2001, 7, {"text": "z"}, None, " ", ""]
    found = read(type="entity", name="A", observations=[good[0], *bad, good[1]])
    assert entity(found) == ("A", None, good)
    assert left_out(found) == [
        "observation_too_long",
        "observation_not_text",
        "observation_not_text",
        "observation_not_text",
        "observation_blank",
        "observation_blank",
    ]


def test_half_a_character_costs_only_itself() -> None:
    """JavaScript writes what is left of an emoji that it cut in two."""
    found = read_line(
        rb'{"type":"entity","name":"A","observations":["cut \ud83d","\uDE00 x","\ud83d\ude00",'
        rb'"C:\\ud83d"]}'
    )
    assert entity(found) == ("A", None, ["cut \ufffd", "\ufffd x", "\U0001f600", r"C:\ud83d"])


def test_a_field_that_is_there_twice_counts_as_it_stands_last() -> None:
    found = read_line(
        b'{"type":"entity","from":"A","to":"B","relationType":"uses","type":"relation"}'
    )
    assert found == RelationLine(RelationInput(source="A", target="B", relation_type="uses"))
    found = read_line(b'{"type":"relation","name":"A","type":"entity"}')
    assert entity(found) == ("A", None, [])


def test_of_many_bad_observations_the_first_are_told_and_all_counted() -> None:
    found = read(type="entity", name="A", observations=[*range(1000), "fine", " "])
    assert entity(found) == ("A", None, ["fine"])
    assert isinstance(found, EntityLine)
    assert found.left_out == {"observation_not_text": 1000, "observation_blank": 1}
    assert len(found.problems) == 100


def test_an_exported_line_is_never_too_long_to_be_imported() -> None:
    """Control characters take six bytes each in JSON."""
    texts = [f"{n:04}" + "\x01" * 1990 for n in range(2000)]
    lines = list(write_entity("A", "T", texts))
    assert len(lines) > 1
    assert max(map(len, lines)) < MAX_LINE_BYTES
    assert [text for line in lines for text in entity(read_line(line))[2]] == texts


def test_another_encoding_is_called_that() -> None:
    found = read_line('{"type":"entity","name":"José"}'.encode("latin-1"))
    assert found == Problem("not_json", "Not valid UTF-8: byte 29 of the line")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"broken", "not_json"),
        (b'{"type": "entity", "name": "A"', "not_json"),
        (b'{"type": "entity", "name": "A"} {}', "not_json"),
        (b'{"type": "entity", "name": "\xff"}', "not_json"),
        (b'{"type": "entity", "name": "\\ud800", "x": ' + b"[" * 100_000, "not_json"),
        (b'{"type": "entity", "name": 5, "observations": [', "not_json"),
        (b'{"type": "entity", "name": 5, "x": ' + b"1" * 5000 + b"}", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b'{"type": "entity", "name": 5, "x": ' + b"[" * 100_000 + b"]" * 100_000, "not_json"),
        (b"[]", "not_an_object"),
        (b"null", "not_an_object"),
        (b'"entity"', "not_an_object"),
        (b"{}", "unknown_type"),
        (b'{"type": "observation"}', "unknown_type"),
        (b'{"type": ["entity"], "name": "A"}', "unknown_type"),
        (b'{"type": "entity"}', "bad_name"),
        (b'{"type": "entity", "name": null}', "bad_name"),
        (b'{"type": "entity", "name": " "}', "bad_name"),
        (b'{"type": "entity", "name": "' + b"n" * 513 + b'"}', "bad_name"),
        (b'{"type": "entity", "name": "A", "entityType": 3}', "bad_entity_type"),
        (
            b'{"type": "entity", "name": "A", "entityType": "' + b"t" * 257 + b'"}',
            "bad_entity_type",
        ),
        (b'{"type": "entity", "name": "A", "observations": "x"}', "bad_observations"),
        (b'{"type": "entity", "name": "A", "observations": {"0": "x"}}', "bad_observations"),
        (b'{"type": "relation", "to": "B", "relationType": "r"}', "bad_relation"),
        (b'{"type": "relation", "from": "A", "to": 3, "relationType": "r"}', "bad_relation"),
        (b'{"type": "relation", "from": "A", "to": "B", "relationType": ""}', "bad_relation"),
    ],
)
def test_lines_that_cannot_be_imported(line: bytes, expected: str) -> None:
    assert reason(read_line(line)) == expected


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_line_is_too_broken_to_be_told(line: bytes) -> None:
    assert isinstance(read_line(line), (EntityLine, RelationLine, Problem))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["entity", "relation"]) | _json},
        optional=dict.fromkeys(
            ("name", "entityType", "observations", "from", "to", "relationType"), _json
        ),
    )
)
def test_whatever_stands_in_the_fields_is_told(line: dict[str, Any]) -> None:
    assert isinstance(read_line(json.dumps(line).encode()), (EntityLine, RelationLine, Problem))


NAMES = st.text(min_size=1, max_size=30).filter(re.compile(NO_CONTROLS).search)


@given(NAMES, NAMES, st.lists(NAMES, max_size=250))
def test_what_is_written_is_read_back(name: str, kind: str, said: list[str]) -> None:
    (line,) = write_entity(name, kind, said)
    assert b"\n" not in line
    assert entity(read_line(line)) == (name, kind, said)
    relation = read_line(write_relation(name, kind, name))
    assert relation == RelationLine(RelationInput(source=name, target=kind, relation_type=name))


def test_it_is_written_as_the_other_server_writes_it() -> None:
    (line,) = write_entity("Café", "Place", ['say "hi"\n'])
    assert line.decode() == (
        '{"type":"entity","name":"Café","entityType":"Place","observations":["say \\"hi\\"\\n"]}'
    )
    assert list(write_entity("A", "T", [])) == [
        b'{"type":"entity","name":"A","entityType":"T","observations":[]}'
    ]
    assert write_relation("A", "B", "uses") == (
        b'{"type":"relation","from":"A","to":"B","relationType":"uses"}'
    )


def test_an_entity_of_great_size_is_written_as_several_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anthropic, "SPLIT_BYTES", 1000)
    said = [f"{n:03d} " + "é" * 100 for n in range(40)]
    found = list(write_entity("A", "T", said))
    assert len(found) > 5 and all(len(line) < 2000 for line in found)
    read_back = [entity(read_line(line)) for line in found]
    assert {(name, kind) for name, kind, _ in read_back} == {("A", "T")}
    assert [text for _, _, part in read_back for text in part] == said
