"""The tools, resources and prompts that the suite asks for, as far as a memory has such."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from mnemolog.events.arguments import Arguments, Refused
from mnemolog.events.envelope import Call
from mnemolog.events.language import Language
from mnemolog.projections.projection import Projection
from mnemolog.projections.state.view import View
from mnemolog.services.decider import tool
from mnemolog.services.decider.tool import Decided, Edge, Place, adds, reads
from mnemolog.services.family import Family, Resource, Spaces
from mnemolog.services.prompts import Argument, Moment, Prompt, Step, step
from mnemolog.services.reader.reader import Read, Reader
from tests.conformance import INTRODUCTION, NAME

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJg"
    "gg=="
)
PAUSE_S = 0.05
"""The suite asks for a wait between two reports of progress."""


class Rules(msgspec.Struct, frozen=True):
    pass


Context = tool.Context[Rules]


class Nothing(Arguments, frozen=True):
    """Takes no arguments."""


class Identified(Arguments, frozen=True):
    """Something with an id."""

    id: str


def place(tenant: str, args: Any) -> Place:
    return Place(f"{tenant}/{NAME}")


def decide(ctx: Context, args: Any) -> Decided:
    return Decided(ctx.call.space, [], {"done": True})


def answer_text(reader: Reader, call: Call, args: Nothing) -> Read:
    return Read({"text": "This is a simple text response for testing."}, [])


def answer_error(reader: Reader, call: Call, args: Nothing) -> Read:
    raise Refused("This tool intentionally returns an error for testing")


def answer_template(reader: Reader, call: Call, args: Identified) -> Read:
    return Read({"id": args.id, "templateTest": True, "data": f"Data for ID: {args.id}"}, [])


def report(edge: Edge, call: Call, args: Nothing) -> Call:
    for done in (0, 50, 100):
        edge.progress(done, 100)
        time.sleep(PAUSE_S)
    return call


def names(view: View, tenant: str, text: str, limit: int) -> list[str]:
    return [name for name in ("paris", "park", "party", "test") if name.startswith(text)][:limit]


def moment(name: str, description: str) -> Moment:
    return Moment(name=name, title=name, description=description)


FAMILY = Family(
    name=NAME,
    introduction=INTRODUCTION,
    projection=Projection(
        language=Language(name=NAME, facts=()), tables="", canonical={}, state={}
    ),
    tools=(
        reads("test_simple_text", Nothing, place, decide, answer_text),
        # What is looked for in the answers of these is not there in any.
        reads("test_logging_tool", Nothing, place, decide, answer_text),
        reads("test_streaming_elicitation", Nothing, place, decide, answer_text),
        reads("test_error_handling", Nothing, place, decide, answer_error),
        reads("test_template", Identified, place, decide, answer_template),
        adds("test_tool_with_progress", Nothing, place, decide, idempotent=True, carry_out=report),
    ),
    spaces=Spaces(
        path=NAME,
        words=NAME,
        title="Changes of the probe",
        description="There are none.",
        find=lambda tenant, name: f"{tenant}/{NAME}" if name == NAME else None,
    ),
    rules=Rules(),
    resources=(
        Resource(
            uri="test://static-text",
            name="static-text",
            title="A text",
            description="A text that stays as it is.",
            tool="test_simple_text",
            space=NAME,
        ),
        Resource(
            uri="test://template/{id}/data",
            name="template",
            title="A template",
            description="Something for every id.",
            tool="test_template",
            space=NAME,
            arguments=lambda given: {"id": given["id"]},
        ),
    ),
    prompts=(
        Prompt(
            moment=moment("test_simple_prompt", "A prompt without arguments."),
            steps=(step("This is a simple prompt for testing."),),
        ),
        Prompt(
            moment=moment("test_prompt_with_arguments", "A prompt with two arguments."),
            arguments=(Argument("arg1", "The first.", True), Argument("arg2", "The second.", True)),
            steps=(
                Step(
                    lambda given: (
                        f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
                    )
                ),
            ),
        ),
        Prompt(
            moment=moment("test_prompt_with_embedded_resource", "A prompt with a resource."),
            arguments=(Argument("resourceUri", "Which one.", True),),
            steps=(
                Step(
                    lambda given: {
                        "type": "resource",
                        "resource": {
                            "uri": given["resourceUri"],
                            "mimeType": "text/plain",
                            "text": "Embedded resource content for testing.",
                        },
                    }
                ),
                step("Please process the embedded resource above."),
            ),
        ),
        Prompt(
            moment=moment("test_prompt_with_image", "A prompt with an image."),
            steps=(
                Step(lambda _: {"type": "image", "data": PIXEL, "mimeType": "image/png"}),
                step("Please analyze the image above."),
            ),
        ),
    ),
    completes={"arg1": names},
)
