"""Whether a relationship would lead back to where it begins, found within a bound.

Deciding walks here, and everybody's next call waits for it: so many episodes are looked at, and
then the question is given up.
"""

from __future__ import annotations

from itertools import islice

from mnemolog.events.arguments import Refused
from mnemolog.projections.episodes import relationships, state
from mnemolog.projections.episodes.state import Episode
from mnemolog.projections.state.view import View
from mnemolog.services.families.episodes.problems import invalid

MAX_WALKED = 5000
"""Episodes that are looked at on the way back."""
MAX_LINKS = 4 * MAX_WALKED
"""Relationships that are followed to them."""
_AT_ONCE = 500


def cycle_through(view: View, source: Episode, target: Episode, kind: str) -> list[str]:
    """The ids of the episodes on the shortest cycle that a relationship from `source` to `target`
    would close, from `source` back to itself; nothing if there would be none."""
    if source.id == target.id:
        return [source.uuid, source.uuid]
    if not relationships.is_led_to(view, source.id, kind):
        return []
    way = _way(view, target, source, kind)
    if not way:
        return []
    there = state.episodes(view, source.space, way)
    return [source.uuid, *(there[number].uuid for number in way)]


def _way(view: View, start: Episode, goal: Episode, kind: str) -> list[int]:
    """The shortest way along relationships of a type, breadth first; empty if there is none."""
    came_from: dict[int, int | None] = {start.id: None}
    frontier, followed = [start.id], 0
    while frontier:
        further: list[int] = []
        rest = iter(frontier)
        while some := list(islice(rest, _AT_ONCE)):
            links = relationships.links(view, some, kind, MAX_LINKS + 1 - followed)
            followed += len(links)
            for source, target in links:
                if target not in came_from:
                    came_from[target] = source
                    further.append(target)
            if goal.id in came_from:
                return _back(came_from, goal.id)
            if followed > MAX_LINKS or len(came_from) > MAX_WALKED:
                raise _too_far(start, kind)
        frontier = further
    return []


def _back(came_from: dict[int, int | None], goal: int) -> list[int]:
    way = [goal]
    while (before := came_from[way[-1]]) is not None:
        way.append(before)
    return way[::-1]


def _too_far(start: Episode, kind: str) -> Refused:
    issue = (
        f"leads by {kind} to more than {MAX_WALKED:,} episodes or {MAX_LINKS:,} relationships, too"
        " many to tell whether there would be a cycle: relate episodes that fewer others follow"
    )
    return invalid("to_episode_id", issue, start.uuid)
