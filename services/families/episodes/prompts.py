"""What a model is told of episodes before and after a task."""

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

DOMAIN = Argument("domain", "The domain that the task belongs to, such as web-api.")
_ARGUMENTS = (DOMAIN,)


def _in(given: Given) -> str:
    return f"the domain {quoted(given, 'domain', 'of the task')}"


PROMPTS = (
    Prompt(
        moment=BEFORE,
        arguments=_ARGUMENTS,
        steps=(
            Step(
                lambda given: (
                    f"- Call recommend_patterns and query_memory in {_in(given)} with a "
                    "description of the task: they tell what led to success, and what did not."
                ),
                ("recommend_patterns", "query_memory"),
            ),
            Step(
                lambda given: (
                    f"- Call create_episode in {_in(given)} when the work begins, and "
                    "add_episode_step after each step, with result.type success or error."
                ),
                ("create_episode", "add_episode_step"),
            ),
        ),
    ),
    Prompt(
        moment=AFTER,
        arguments=_ARGUMENTS,
        steps=(
            step(
                "- Call complete_episode with how it ended: a verdict for success, a reason for "
                "failure. That computes a reward, a reflection and patterns.",
                "complete_episode",
            ),
            step("- Call add_episode_tags with what will find it again.", "add_episode_tags"),
        ),
    ),
    Prompt(
        moment=REVIEW,
        arguments=_ARGUMENTS,
        steps=(
            Step(
                lambda given: (
                    f"- Call batch_pattern_analysis in {_in(given)}: which patterns lead "
                    "to success, and which do not."
                ),
                ("batch_pattern_analysis",),
            ),
            step(
                "- Call batch_query_episodes for the newest episodes with their statistics, and "
                "batch_compare_episodes for those that went differently.",
                "batch_query_episodes",
                "batch_compare_episodes",
            ),
        ),
    ),
)
