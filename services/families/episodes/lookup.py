"""Episodes by the ids that callers know."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mnemolog.projections.episodes import state
from mnemolog.projections.state.view import View
from mnemolog.services.families.episodes.problems import invalid, not_found

MAX_CHARACTERS = 8 * 1024 * 1024
"""Of steps in one answer."""


def existing(view: View, space: str, episode_id: str) -> state.Episode:
    """The episode that is called so, or `Refused`."""
    found = state.episode(view, view.space_id(space), named(episode_id))
    if found is None:
        raise not_found("episode", episode_id)
    return found


def all_existing(view: View, space: str, episode_ids: Sequence[str]) -> list[state.Episode]:
    """All of them in this order, each once, or `Refused`."""
    wanted = list(dict.fromkeys(named(one) for one in episode_ids))
    there = state.episodes_called(view, view.space_id(space), wanted)
    for one in wanted:
        if one not in there:
            raise not_found("episode", one)
    return [there[one] for one in wanted]


def check_size(view: View, field: str, numbers: Collection[int]) -> None:
    """`Refused` when the steps of these episodes hold more than an answer may; `field` named
    them."""
    held = state.size(view, numbers)
    if held > MAX_CHARACTERS:
        issue = (
            f"names steps of {held:,} characters; at most {MAX_CHARACTERS:,} are given at a time: "
            "get_episode_timeline tells an episode's steps without parameters and results"
        )
        raise invalid(field, issue)


def named(episode_id: str) -> str:
    """An id as it is kept, however it was written."""
    return episode_id.strip().lower()
