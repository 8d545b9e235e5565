"""What a model is told of lessons and recordings before and after a task."""

from __future__ import annotations

from mnemolog.services.prompts import (
    AFTER,
    BEFORE,
    REVIEW,
    Argument,
    Given,
    Prompt,
    Step,
    quoted,
    step,
)

COLLECTION = Argument("collection", "The collection of memories that the task belongs to.")
_ARGUMENTS = (COLLECTION,)


def _in(given: Given) -> str:
    return f"the collection {quoted(given, 'collection', 'of the task')}"


PROMPTS = (
    Prompt(
        moment=BEFORE,
        arguments=_ARGUMENTS,
        steps=(
            Step(
                lambda given: (
                    f"- Call recall in {_in(given)} with a plain-language description of "
                    "the situation: the object, what is to be done with it, and the conditions. "
                    "Ask again in other words if little comes back; context_filter with "
                    '{"task.success": true} shows what worked.'
                ),
                ("recall",),
            ),
            Step(
                lambda given: (
                    f"- Call start_session in {_in(given)}, and pass its session_id to "
                    "the calls of this task."
                ),
                ("start_session",),
            ),
        ),
    ),
    Prompt(
        moment=AFTER,
        arguments=_ARGUMENTS,
        steps=(
            Step(
                lambda given: (
                    f"- Call learn in {_in(given)} for each thing worth knowing: one or "
                    "two sentences that stand on their own, with the numbers, their units and the "
                    "conditions. What failed, and why, is worth as much as what worked."
                ),
                ("learn",),
            ),
            step(
                "- A memory that proved wrong is corrected with update, or taken out with forget "
                "and the reason.",
                "update",
                "forget",
            ),
            step("- Call end_session if a session was started.", "end_session"),
        ),
    ),
    Prompt(
        moment=REVIEW,
        arguments=_ARGUMENTS,
        steps=(
            Step(
                lambda given: (
                    f"- Call recall in {_in(given)} for each kind of situation that came "
                    "up, and compare what the memories say: which agree, which contradict each "
                    "other, which are older than what came after them."
                ),
                ("recall",),
            ),
            step("- Correct what is wrong with update, or forget it.", "update", "forget"),
        ),
    ),
)
