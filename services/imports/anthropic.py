"""The memory file of Anthropic's memory server: JSON lines, each an entity or a relation.

A line that is in order is read in one step, with the limits that the tools themselves have; only
one that is not is looked at more closely, to keep what can be kept and to say what was wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from events.graph import (
    MAX_OBSERVATIONS,
    EntityInput,
    EntityName,
    Label,
    RelationInput,
    Text,
)

SPLIT_BYTES = 8 * 1024 * 1024
"""An entity that says more than this is written as several lines of the same name."""
_SHOWN = 60
_ESCAPE = re.compile(
    rb"\\(?:(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


class Problem(msgspec.Struct, frozen=True):
    """What was wrong: `reason` is one of a few words, `detail` a sentence."""

    reason: str
    detail: str


class EntityLine(msgspec.Struct, frozen=True):
    """`inputs` are the entity, in as many parts as the limit on observations asks for; `problems`
    tell which observations were left out."""

    inputs: list[EntityInput]
    problems: list[Problem] = []


class RelationLine(msgspec.Struct, frozen=True):
    input: RelationInput


class _Entity(msgspec.Struct, tag="entity", tag_field="type", rename={"kind": "entityType"}):
    name: EntityName
    kind: Label | None = None
    observations: list[Text] = []


class _Relation(
    msgspec.Struct,
    tag="relation",
    tag_field="type",
    rename={"source": "from", "target": "to", "kind": "relationType"},
):
    source: EntityName
    target: EntityName
    kind: Label


_line = msgspec.json.Decoder(_Entity | _Relation)


def read_line(text: bytes) -> EntityLine | RelationLine | Problem:
    """What a line says, or why it cannot be imported. Fields that are not known are passed over."""
    try:
        try:
            return _decoded(text)
        except (msgspec.MsgspecError, ValueError):
            return _decoded(_whole_characters(text))
    except RecursionError:
        return Problem("not_json", "Nested too deeply")
    except UnicodeDecodeError as error:
        return Problem("not_json", f"Not valid UTF-8: byte {error.start + 1} of the line")
    except (msgspec.MsgspecError, ValueError) as error:
        return Problem("not_json", f"Not valid JSON: {error}")


def write_entity(name: str, kind: str, observations: list[str]) -> Iterator[bytes]:
    """An entity's lines, without line ends: one, unless it is very large."""
    parts: list[list[str]] = [[]]
    size = 0
    for text in observations:
        size += len(text.encode())
        if parts[-1] and size > SPLIT_BYTES:
            parts.append([])
            size = len(text.encode())
        parts[-1].append(text)
    for part in parts:
        yield msgspec.json.encode(
            {"type": "entity", "name": name, "entityType": kind, "observations": part}
        )


def write_relation(source: str, target: str, kind: str) -> bytes:
    return msgspec.json.encode(
        {"type": "relation", "from": source, "to": target, "relationType": kind}
    )


def _decoded(text: bytes) -> EntityLine | RelationLine | Problem:
    try:
        return _read(_line.decode(text))
    except msgspec.ValidationError:
        return _look_closer(msgspec.json.decode(text))


def _whole_characters(text: bytes) -> bytes:
    """The line with U+FFFD for every half of a character. JavaScript cuts texts in the middle of an
    emoji and writes what is left, which is no text anywhere else."""
    text.decode()
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found["half"] else found[0], text)


def _read(line: _Entity | _Relation) -> EntityLine | RelationLine:
    if isinstance(line, _Entity):
        return _entity(line, [])
    return RelationLine(
        RelationInput(source=line.source, target=line.target, relation_type=line.kind)
    )


def _entity(line: _Entity, problems: list[Problem]) -> EntityLine:
    said = line.observations
    return EntityLine(
        [
            EntityInput(
                name=line.name,
                entity_type=line.kind,
                observations=said[start : start + MAX_OBSERVATIONS],
            )
            for start in range(0, max(1, len(said)), MAX_OBSERVATIONS)
        ],
        problems,
    )


def _look_closer(line: Any) -> EntityLine | RelationLine | Problem:
    if not isinstance(line, dict):
        return Problem("not_an_object", f"Not an object: {_shown(line)}")
    if line.get("type") not in ("entity", "relation"):
        what = f"not {_shown(line['type'])}" if "type" in line else "and it is missing"
        return Problem("unknown_type", f'type must be "entity" or "relation", {what}')
    if line["type"] == "relation":
        return _relation_problem(line)
    if not _is(line.get("name"), EntityName):
        return Problem("bad_name", _wrong(line, "name", 512))
    kind = line.get("entityType")
    blank = kind is None or (isinstance(kind, str) and not kind.strip())
    if not blank and not _is(kind, Label):
        return Problem("bad_entity_type", _wrong(line, "entityType", 256))
    said = line.get("observations")
    if said is not None and not isinstance(said, list):
        return Problem("bad_observations", f"observations must be a list, not {_shown(said)}")
    problems = [_observation_problem(one) for one in said or [] if not _is(one, Text)]
    kept = [one for one in said or [] if _is(one, Text)]
    return _entity(_Entity(line["name"], None if blank else kind, kept), problems)


def _relation_problem(line: dict[str, Any]) -> Problem:
    for name, kind, limit in (
        ("from", EntityName, 512),
        ("to", EntityName, 512),
        ("relationType", Label, 256),
    ):
        if not _is(line.get(name), kind):
            return Problem("bad_relation", _wrong(line, name, limit))
    raise AssertionError("a relation that is in order is read in one step")


def _observation_problem(value: Any) -> Problem:
    if not isinstance(value, str):
        return Problem("observation_not_text", f"An observation is not text: {_shown(value)}")
    if not value.strip():
        return Problem("observation_blank", "An observation is blank")
    return Problem(
        "observation_too_long",
        f"An observation has {len(value):,} characters, 2,000 are allowed: {_shown(value)}",
    )


def _wrong(line: dict[str, Any], name: str, limit: int) -> str:
    value = line.get(name)
    if isinstance(value, str) and len(value) > limit:
        return f"{name} has {len(value):,} characters, {limit} are allowed: {_shown(value)}"
    found = f"not {_shown(value)}" if name in line else "and it is missing"
    return f"{name} must be a text that is not blank, {found}"


def _is(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
