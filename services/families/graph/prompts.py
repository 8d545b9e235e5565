"""What a model is told of the knowledge graph before and after a task."""

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

ENTITY = Argument("entity", "The name of an entity that it is about.")
_ARGUMENTS = (ENTITY,)


def _entity(given: Given) -> str:
    return quoted(given, "entity", "each entity that matters")


PROMPTS = (
    Prompt(
        moment=BEFORE,
        arguments=_ARGUMENTS,
        steps=(
            step(
                "- Call search_semantic with what the task is about, and search_nodes with the "
                "names that occur in it.",
                "search_semantic",
                "search_nodes",
            ),
            Step(
                lambda given: (
                    f"- Call open_nodes for {_entity(given)}: it shows all that was "
                    "observed, and the relations."
                ),
                ("open_nodes",),
            ),
        ),
    ),
    Prompt(
        moment=AFTER,
        arguments=_ARGUMENTS,
        steps=(
            Step(
                lambda given: (
                    f"- Call add_observations for {_entity(given)} with what turned out "
                    "to be so, single facts in a sentence each; create_entities for what is new, "
                    "create_relations for how they are connected."
                ),
                ("add_observations", "create_entities", "create_relations"),
            ),
            step("- Call end_relation for what is no longer so.", "end_relation"),
            step("- Call add_reflection for what it means, in free prose.", "add_reflection"),
        ),
    ),
    Prompt(
        moment=REVIEW,
        arguments=_ARGUMENTS,
        steps=(
            step(
                "- Call consolidation_report for what needs attention, and "
                "find_duplicate_observations for what is said twice.",
                "consolidation_report",
                "find_duplicate_observations",
            ),
            Step(
                lambda given: (
                    f"- Call open_nodes for {_entity(given)}, and search_reflections for "
                    "what was thought of it."
                ),
                ("open_nodes", "search_reflections"),
            ),
            step(
                "- Call add_reflection with what the review comes to.",
                "add_reflection",
            ),
        ),
    ),
)
