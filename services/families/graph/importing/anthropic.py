"""The memory file of Anthropic's memory server: JSON lines, each an entity or a relation.

A line that is in order is read in one step, with the limits that the tools themselves have; only
one that is not is looked at more closely, to keep what can be kept and to say what was wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from mnemolog.events.graph import (
    MAX_OBSERVATIONS,
    EntityInput,
    EntityName,
    Label,
    RelationInput,
    Text,
)

SPLIT_BYTES = 8 * 1024 * 1024
"""An entity that says more than this is written as several lines of the same name."""
PROBLEMS_SHOWN = 100
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
    """`inputs` are the entity, in as many parts as the limit on observations asks for. `left_out`
    counts by reason the observations that cannot be kept, `problems` tell of the first."""

    inputs: list[EntityInput]
    left_out: dict[str, int] = {}
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
    room = SPLIT_BYTES
    for text in observations:
        size = len(msgspec.json.encode(text)) + 1
        if parts[-1] and size > room:
            parts.append([])
            room = SPLIT_BYTES
        room -= size
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
        return EntityLine(_inputs(line.name, line.kind, line.observations))
    return RelationLine(
        RelationInput(source=line.source, target=line.target, relation_type=line.kind)
    )


def _inputs(name: str, kind: str | None, said: list[str]) -> list[EntityInput]:
    return [
        EntityInput(
            name=name,
            entity_type=kind,
            observations=said[start : start + MAX_OBSERVATIONS],
        )
        for start in range(0, max(1, len(said)), MAX_OBSERVATIONS)
    ]


def _look_closer(line: Any) -> EntityLine | RelationLine | Problem:
    if not isinstance(line, dict):
        return Problem("not_an_object", f"Not an object: {_shown(line)}")
    if line.get("type") not in ("entity", "relation"):
        what = f"not {_shown(line['type'])}" if "type" in line else "and it is missing"
        return Problem("unknown_type", f'type must be "entity" or "relation", {what}')
    if line["type"] == "relation":
        return _relation(line)
    if not _is(line.get("name"), EntityName):
        return Problem("bad_name", _wrong(line, "name", 512))
    kind = line.get("entityType")
    blank = kind is None or (isinstance(kind, str) and not kind.strip())
    if not blank and not _is(kind, Label):
        return Problem("bad_entity_type", _wrong(line, "entityType", 256))
    said = line.get("observations")
    if said is not None and not isinstance(said, list):
        return Problem("bad_observations", f"observations must be a list, not {_shown(said)}")
    kept: list[str] = []
    left_out = Counter[str]()
    problems: list[Problem] = []
    for one in said or []:
        if _is(one, Text):
            kept.append(one)
            continue
        reason = _reason(one)
        left_out[reason] += 1
        if len(problems) < PROBLEMS_SHOWN:
            problems.append(Problem(reason, _detail(one)))
    return EntityLine(_inputs(line["name"], None if blank else kind, kept), left_out, problems)


def _relation(line: dict[str, Any]) -> RelationLine | Problem:
    for name, kind, limit in (
        ("from", EntityName, 512),
        ("to", EntityName, 512),
        ("relationType", Label, 256),
    ):
        if not _is(line.get(name), kind):
            return Problem("bad_relation", _wrong(line, name, limit))
    # In order, but for a field that is there twice.
    return RelationLine(
        RelationInput(source=line["from"], target=line["to"], relation_type=line["relationType"])
    )


def _reason(observation: Any) -> str:
    if not isinstance(observation, str):
        return "observation_not_text"
    return "observation_too_long" if observation.strip() else "observation_blank"


def _detail(observation: Any) -> str:
    if not isinstance(observation, str):
        return f"An observation is not text: {_shown(observation)}"
    if not observation.strip():
        return "An observation is blank"
    return (
        f"An observation has {len(observation):,} characters, 2,000 are allowed: "
        f"{_shown(observation)}"
    )


def _wrong(line: dict[str, Any], name: str, limit: int) -> str:
    value = line.get(name)
    if isinstance(value, str) and len(value) > limit:
        return f"{name} has {len(value):,} characters, {limit} are allowed: {_shown(value)}"
    found = f"not {_shown(value)}" if name in line else "and it is missing"
    return f"{name} must be a text that is not blank and has no control characters, {found}"


def _is(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
