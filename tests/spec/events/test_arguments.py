"""Arguments fit their struct, or one sentence says what is wrong, in words of our own."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from mnemolog.events import graph, robot
from mnemolog.events.arguments import (
    DO_NOT_FIT,
    MAX_ARGUMENT_BYTES,
    Arguments,
    Name,
    Refused,
    UnknownField,
    json_object,
    parse,
)


def sentence(kind: type[Arguments], given: Any) -> str:
    """What `given`, as JSON or as what JSON says, is refused with."""
    data = given if isinstance(given, bytes) else msgspec.json.encode(given)
    with pytest.raises(Refused) as refused:
        parse(kind, data)
    return refused.value.sentence


class Inner(Arguments, frozen=True, rename={"known_as": "knownAs"}):
    known_as: Annotated[str, Meta(min_length=5)]
    level: Annotated[int, Meta(gt=0)] | None = None
    mood: Literal["good", "bad"] | None = None


class Loose(msgspec.Struct):
    """Takes whatever else comes."""

    size: Annotated[float, Meta(lt=2.0)] = 1.0


class Strict(Arguments, frozen=True):
    left: int = 0
    right: int = 0

    def __post_init__(self) -> None:
        if self.left and self.right:
            raise UnknownField("right")


class Checked(Arguments, frozen=True):
    """Refuses what it does not say more of."""

    text: str = ""

    def __post_init__(self) -> None:
        if self.text == "no":
            raise ValueError("words of somebody else")


class Sample(Arguments, frozen=True):
    """Kinds of fields that no tool has yet."""

    inner: Inner | None = None
    loose: Loose | None = None
    inners: list[Inner] = []
    counts: dict[str, Annotated[int, Meta(ge=0, lt=10)]] = {}
    few: Annotated[dict[str, Any], Meta(max_length=1)] = {}
    words: list[Annotated[str, Meta(pattern="^[a-z]+$")]] = []
    names: list[Name] = []
    many: Annotated[list[int], Meta(min_length=2)] = []
    lists: list[list[bool]] = []
    anything: list[Any] = []
    choice: Literal[1, "two", None] = None
    size: float = 0.0
    at_most: Annotated[float, Meta(le=1.5)] = 0.0
    below: Annotated[int, Meta(gt=0, lt=10)] = 1
    even: Annotated[int, Meta(ge=0, multiple_of=2)] = 0
    strict: Strict | None = None
    when: datetime | None = None


LEARN = "insight, context, collection, session_id"
MEMORY_ID = "memory_id must be a whole number greater than 0 and up to 9007199254740991"
BAD: list[tuple[type[Arguments], Any, str]] = [
    # The arguments as a whole.
    (robot.Learn, b"", "The arguments are not valid JSON: the text ends where a value must come"),
    (robot.Learn, b"\xff", "The arguments are not valid JSON: byte 1 is not valid UTF-8"),
    (
        robot.Learn,
        b"[" * 5000,
        "The arguments are nested too deeply; at most 100 levels are allowed",
    ),
    (robot.Learn, [1], "The arguments must be a JSON object, not a list"),
    (robot.Learn, "a", "The arguments must be a JSON object, not text"),
    (robot.Learn, None, "The arguments must be a JSON object, not null"),
    (robot.Learn, 1.5, "The arguments must be a JSON object, not a number"),
    (robot.Learn, True, "The arguments must be a JSON object, not true or false"),
    # Names.
    (robot.Learn, {"insigt": "a"}, f"Unknown argument 'insigt'; there are {LEARN}"),
    (robot.Learn, {"x" * 99: 1}, f"Unknown argument '{'x' * 57}...'; there are {LEARN}"),
    (graph.FindSplitCandidates, {"limit": 1}, "Unknown argument 'limit'; there are none"),
    (robot.Learn, {}, "insight is required: text of at least 1 characters"),
    (
        robot.Forget,
        {"reason": "x"},
        "memory_id is required: a whole number greater than 0 and up to 9007199254740991",
    ),
    (
        graph.AddReflection,
        {},
        "target_type is required: one of entity, session, relation, global",
    ),
    # An argument of another kind, or over its limits.
    (robot.Learn, {"insight": None}, "insight must be text of at least 1 characters, not null"),
    (robot.Learn, {"insight": True}, "insight must be text of at least 1 characters, not true"),
    (robot.Learn, {"insight": "a", "context": 1}, "context must be text or an object, not 1"),
    (robot.Learn, {"insight": "a", "session_id": []}, "session_id must be text, not []"),
    (robot.Recall, {"query": "a", "n": 0}, "n must be a whole number from 1 to 100, not 0"),
    (robot.Recall, {"query": "a", "n": 5.0}, "n must be a whole number from 1 to 100, not 5.0"),
    (robot.Recall, {"query": "a", "n": True}, "n must be a whole number from 1 to 100, not true"),
    (
        robot.Recall,
        {"query": "a", "min_confidence": -0.1},
        "min_confidence must be a number from 0.0 to 1.0, not -0.1",
    ),
    (
        robot.Recall,
        {"query": "a", "min_confidence": 10**400},
        f"min_confidence must be a number from 0.0 to 1.0, not 1{'0' * 76}...",
    ),
    (robot.Forget, {"memory_id": 0, "reason": "x"}, f"{MEMORY_ID}, not 0"),
    (robot.Forget, {"memory_id": 2**53, "reason": "x"}, f"{MEMORY_ID}, not 9007199254740992"),
    (
        robot.SavePerception,
        {"description": "a wet cup", "perception_type": "smell"},
        "perception_type must be one of visual, tactile, auditory, proprioceptive, procedural, "
        "not 'smell'",
    ),
    (
        robot.SavePerception,
        {"description": "a wet cup", "perception_type": 5},
        "perception_type must be one of visual, tactile, auditory, proprioceptive, procedural, "
        "not 5",
    ),
    (
        robot.StartSession,
        {"collection": "a\x00b"},
        "collection must be text of 1 to 128 characters that is not blank and has no control "
        "characters, not 'a\\x00b'",
    ),
    (
        graph.SearchSemantic,
        {"query": " "},
        "query must be text of 1 to 500 characters that is not blank, not ' '",
    ),
    (
        graph.OpenNodes,
        {"names": ["x"] * 1001},
        "names must be a list of at most 1000 entries, not a list of 1001",
    ),
    (graph.ReadGraph, {"include_ended": 1}, "include_ended must be true or false, not 1"),
    (Sample, {"at_most": 2}, "at_most must be a number of at most 1.5, not 2"),
    (Sample, {"below": 10}, "below must be a whole number greater than 0 and less than 10, not 10"),
    (Sample, {"even": 3}, "even must be a whole number of at least 0 divisible by 2, not 3"),
    (Sample, {"size": 10**400}, f"size must be a number, not 1{'0' * 76}..."),
    (Sample, {"many": [1]}, "many must be a list of at least 2 entries, not [1]"),
    (
        Sample,
        {"few": {"a": 1, "b": 2}},
        'few must be an object of at most 1 fields, not {"a":1,"b":2}',
    ),
    (Sample, {"choice": 2}, "choice must be one of 1, two, not 2"),
    (Sample, {"inner": 1}, "inner must be an object, not 1"),
    # Deeper inside.
    (graph.CreateEntities, {"entities": ["A"]}, "entities[0] must be an object, not 'A'"),
    (graph.CreateEntities, {"entities": [{"name": "A"}, {}]}, "entities[1] needs name"),
    (
        graph.CreateEntities,
        {"entities": [{"name": ""}]},
        "entities[0].name must not be empty or blank",
    ),
    (
        graph.CreateEntities,
        {"entities": [{"name": "\t"}]},
        "entities[0].name must not be empty or blank",
    ),
    (
        graph.CreateEntities,
        {"entities": [{"name": "x" * 513}]},
        "entities[0].name must be text of at most 512 characters, not a text of 513 characters",
    ),
    (
        graph.CreateEntities,
        {"entities": [{"name": "A", "observations": ["x"] * 101}]},
        "entities[0].observations must be a list of at most 100 entries, not a list of 101",
    ),
    (
        graph.CreateEntities,
        {"entities": [{"name": "A", "observations": ["x", 5]}]},
        "entities[0].observations[1] must be text, not 5",
    ),
    (
        graph.CreateEntities,
        {"entities": [{"name": "A", "mood": 1}]},
        "entities[0] has the unknown field 'mood'; there are name, entityType, observations",
    ),
    (
        graph.CreateEntities,
        {"entities": [{"name": "A", "type": "Person"}]},
        "entities[0] has the unknown field 'type'; there are name, entityType, observations",
    ),
    (
        graph.CreateEntities,
        {"entities": [{"name": "A", "type": {"a": []}}]},
        "entities[0] has the unknown field 'type'; there are name, entityType, observations",
    ),
    (
        graph.AddObservations,
        {"observations": ["x", 5]},
        "observations[1] must be text or an object, not 5",
    ),
    (
        graph.AddObservations,
        {"observations": [{"entityName": "A"}]},
        "observations[0] needs contents",
    ),
    (
        graph.ExecuteEntitySplit,
        {
            "entity_name": "P",
            "approved_splits": [{"name": "Q", "entity_type": "T", "observations": []}],
        },
        "approved_splits[0].observations must not be empty",
    ),
    (Sample, {"inner": {}}, "inner needs knownAs"),
    (
        Sample,
        {"inner": {"knownAs": "a name", "x": 1}},
        "inner has the unknown field 'x'; there are knownAs, level, mood",
    ),
    (
        Sample,
        {"inners": [{"knownAs": "name"}]},
        "inners[0].knownAs must be text of at least 5 characters, not 'name'",
    ),
    (
        Sample,
        {"inners": [{"knownAs": "a name", "level": 0}]},
        "inners[0].level must be a whole number greater than 0, not 0",
    ),
    (
        Sample,
        {"inners": [{"knownAs": "a name", "level": "1"}]},
        "inners[0].level must be a whole number, not '1'",
    ),
    (
        Sample,
        {"inners": [{"knownAs": "a name", "mood": "sad"}]},
        "inners[0].mood must be one of good, bad, not 'sad'",
    ),
    (
        Sample,
        {"inners": [{"knownAs": "a name", "mood": 1}]},
        "inners[0].mood must be one of good, bad, not 1",
    ),
    (Sample, {"words": ["a", "B"]}, "words[1] must be text that matches ^[a-z]+$, not 'B'"),
    (
        Sample,
        {"names": ["a\nb"]},
        "names[0] must be text of 1 to 128 characters that is not blank and has no control "
        "characters, not 'a\\nb'",
    ),
    (Sample, {"lists": [[True], [1]]}, "lists[1][0] must be true or false, not 1"),
    (Sample, {"lists": [None]}, "lists[0] must be a list, not null"),
    (
        Sample,
        {"counts": {"a": 1, "b": 10}},
        "counts['b'] must be a whole number of at least 0 and less than 10, not 10",
    ),
    (Sample, {"counts": {"x" * 99: []}}, f"counts['{'x' * 57}...'] must be a whole number, not []"),
    (Sample, {"loose": {"more": 1, "size": 2}}, "loose.size must be a number less than 2.0, not 2"),
    (
        Sample,
        {"strict": {"left": 1, "right": 1}},
        "strict has the unknown field 'right'; there are left, right",
    ),
    # The first of several, as they were sent; then what is missing.
    (robot.Recall, {"n": 0, "min_confidence": 2}, "n must be a whole number from 1 to 100, not 0"),
    (
        robot.Recall,
        {"min_confidence": 2, "n": 0},
        "min_confidence must be a number from 0.0 to 1.0, not 2",
    ),
    (robot.Learn, {"context": 1, "mood": 1}, f"Unknown argument 'mood'; there are {LEARN}"),
    (
        graph.CreateRelations,
        {"relations": [{"to": 5, "mood": 1}, 7]},
        "relations[0].to must be text, not 5",
    ),
    (
        graph.CreateRelations,
        {"relations": [{"mood": 1, "to": 5}, 7]},
        "relations[0] has the unknown field 'mood'; there are from, to, relationType",
    ),
    (graph.CreateRelations, {"relations": [{"to": "B"}, 7]}, "relations[0] needs from"),
    # What the struct itself refuses.
    (
        Strict,
        {"left": 1, "right": 1},
        "The call has the unknown field 'right'; there are left, right",
    ),
    (Checked, {"text": "no"}, DO_NOT_FIT),
    (Sample, {"when": "then"}, DO_NOT_FIT),
]


@pytest.mark.parametrize(("kind", "given", "expected"), BAD, ids=[one[2][:60] for one in BAD])
def test_what_is_wrong_is_said_in_one_sentence(
    kind: type[Arguments], given: Any, expected: str
) -> None:
    assert sentence(kind, given) == expected


@pytest.mark.parametrize(("kind", "given", "expected"), BAD, ids=[one[2][:60] for one in BAD])
def test_the_sentence_does_not_depend_on_the_words_of_the_library(
    monkeypatch: pytest.MonkeyPatch, kind: type[Arguments], given: Any, expected: str
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise msgspec.ValidationError("xyz - at `$.else`")

    decode = msgspec.json.decode

    def decode_or_refuse(data: Any) -> Any:
        try:
            return decode(data)
        except (msgspec.MsgspecError, UnicodeError):
            raise msgspec.DecodeError("xyz (byte 99)") from None

    monkeypatch.setattr(msgspec, "convert", refuse)
    monkeypatch.setattr(msgspec.json, "decode", decode_or_refuse)
    assert sentence(kind, given) == expected


def test_what_only_the_library_finds_wrong_is_said_in_general(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> Any:
        raise msgspec.ValidationError("Expected `str` of another kind")

    monkeypatch.setattr(msgspec, "convert", refuse)
    assert sentence(robot.Learn, {"insight": "grip at 15N"}) == DO_NOT_FIT
    monkeypatch.setattr(msgspec.json, "decode", refuse)
    assert sentence(robot.Learn, {"insight": "a"}) == "The arguments are not valid JSON"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{grip", "at character 2 there must be a name in double quotes, not 'g'"),
        ('{"a": NaN}', "at character 7 there is NaN, which JSON does not have"),
        ('{"a": 1e400}', "the number at character 7 is too large"),
    ],
)
def test_a_text_that_is_no_json_object(text: str, expected: str) -> None:
    with pytest.raises(Refused) as refused:
        json_object("context", text)
    assert refused.value.sentence == (
        'context must be a JSON object as text, for example {"a": 1}; it is not valid JSON: '
        + expected
    )


LAST = MAX_ARGUMENT_BYTES // 8
LARGE: list[tuple[type[Arguments], Any, str]] = [
    (Sample, {"anything": ["x"] * LAST, "even": 1}, "even must be …"),
    (Sample, {"words": ["x"] * LAST + [1]}, f"words[{LAST}] must be text, not 1"),
    (Sample, {"counts": {str(i): i < 0 for i in range(LAST)}}, "counts['0'] must be …"),
    (
        Sample,
        {"counts": dict.fromkeys(map(str, range(LAST)), 1) | {"x": -1}},
        "counts['x'] must be …",
    ),
    (Sample, {"words": ["x" * MAX_ARGUMENT_BYTES, 1]}, "words[1] must be text, not 1"),
    (Sample, {"even": {"x" * 9: ["y"] * LAST}}, "even must be …"),
    (robot.Learn, {"insight": "x", "context": ["x"] * LAST}, "context must be …"),
    (robot.StartSession, {"collection": " " * MAX_ARGUMENT_BYTES}, "collection must be …"),
    (graph.SearchNodes, {"x" * MAX_ARGUMENT_BYTES: 1}, "Unknown argument 'xxx…"),
]


@pytest.mark.parametrize(("kind", "given", "expected"), LARGE, ids=[one[2] for one in LARGE])
def test_large_arguments_are_looked_through_as_well(
    kind: type[Arguments], given: Any, expected: str
) -> None:
    found = sentence(kind, given)
    assert found.startswith(expected.rstrip("…"))
    assert len(found) < 300
