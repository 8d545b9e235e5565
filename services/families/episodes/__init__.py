"""The episodes family: tasks worked on step by step, how they ended, and what that teaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mnemolog.services.listed import Listed

if TYPE_CHECKING:
    from mnemolog.services.family import Family

NAME = "episodes"

INTRODUCTION = """\
Episodes of work, and the patterns in them:
- Before a task, ask recommend_patterns and query_memory what worked for tasks like it.
- Record the work: create_episode, add_episode_step after each step (with result.type success or \
error), complete_episode with how it ended. Completing computes a reward, a reflection and patterns.
- batch_pattern_analysis tells which patterns lead to success in a domain, and which do not."""


def _load() -> Family:
    from mnemolog.services.families.episodes.family import FAMILY

    return FAMILY


LISTED = Listed(NAME, INTRODUCTION, _load)
