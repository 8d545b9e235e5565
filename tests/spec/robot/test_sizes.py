"""How large what is given as JSON may be: it is parsed again whenever a recall looks at it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mnemolog.events.arguments import Refused
from mnemolog.events.robot import MAX_CONTEXT_BYTES, MAX_DATA_BYTES, Recall
from mnemolog.services.families.robot.answering.recall import read_query
from tests.spec.given import Robot, ask, learned

WITH_JSON = [
    ("learn", "context", {"insight": "grip the cup"}, MAX_CONTEXT_BYTES),
    ("update", "context", {"memory_id": 1, "new_content": "hold the cup"}, MAX_CONTEXT_BYTES),
    ("start_session", "context", {}, MAX_CONTEXT_BYTES),
    ("save_perception", "data", {"description": "a red cup"}, MAX_DATA_BYTES),
    ("save_perception", "metadata", {"description": "a red cup"}, MAX_CONTEXT_BYTES),
]


def text_of(size: int, letter: str = "x") -> str:
    """A JSON object of exactly that many bytes."""
    room = size - len('{"a":""}')
    wide = len(letter.encode())
    return '{"a":"' + letter * (room // wide) + "x" * (room % wide) + '"}'


@pytest.mark.parametrize(("tool", "name", "arguments", "most"), WITH_JSON)
@pytest.mark.parametrize("letter", ["x", "杯"])
@pytest.mark.parametrize("read", [str, json.loads], ids=["text", "object"])
def test_json_may_be_that_large_and_no_larger(
    robot: Robot, tool: str, name: str, arguments: dict[str, Any], most: int, letter: str, read: Any
) -> None:
    robot.given(learned(1, "bring the plate"))
    robot.when(ask(tool, **arguments, **{name: read(text_of(most + 1, letter))})).then_refused(
        f"{name} has {most + 1:,} bytes as JSON text; at most {most:,} are taken: leave out what "
        "nobody will look for"
    )
    robot.when(ask(tool, **arguments, **{name: read(text_of(most, letter))})).then_reply_has()


def test_a_larger_context_that_is_there_already_stays(robot: Robot) -> None:
    large = text_of(MAX_CONTEXT_BYTES * 4)
    robot.given(learned(1, "bring the plate", context=large))
    robot.when(ask("update", memory_id=1, new_content="bring the cup")).then_reply_has()
    assert robot.memory(1).context == large


@pytest.mark.parametrize("name", ["context_filter", "spatial_sort"])
@pytest.mark.parametrize("read", [str, json.loads], ids=["text", "object"])
def test_what_is_held_against_every_candidate_is_no_larger(name: str, read: Any) -> None:
    asked = Recall(query="cup", **{name: read(text_of(MAX_CONTEXT_BYTES + 1))})
    with pytest.raises(Refused, match=f"^{name} has 65,537 bytes as JSON text; at most 65,536"):
        read_query("default/robot/default", asked)


@pytest.mark.parametrize(
    ("steps", "holds"), [(98, False), (99, True), (100, False), (30_000, False)]
)
def test_a_path_leads_as_deep_as_there_is_something(steps: int, holds: bool) -> None:
    context: dict[str, Any] = {"a": 1}
    for _ in range(98):
        context = {"a": context}
    asked = Recall(query="cup", context_filter={".".join("a" * steps): 1})
    [condition] = read_query("default/robot/default", asked).conditions
    assert condition.holds(context) is holds
