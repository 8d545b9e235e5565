"""The robot family: lessons and recordings, by collection, and the sessions they were made in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mnemolog.services.listed import Listed

if TYPE_CHECKING:
    from mnemolog.services.family import Family

NAME = "robot"

INTRODUCTION = """\
Lessons and recordings:
- Before acting, call recall with a plain-language description of the situation. Narrow it with \
context_filter (paths into the context, such as {"task.success": true}) or order it by distance \
with spatial_sort.
- After learning something worth keeping, call learn with one or two sentences that stand on their \
own: name the object, the numbers with their units and the conditions. Put structured values into \
context as JSON with the parts params, spatial, robot, task and env.
- Store recordings (trajectories, forces, images' features) with save_perception.
- Wrap one episode of work in start_session and end_session, and pass its session_id to learn, \
recall and save_perception.
- When a memory is wrong, correct it with update, or forget it with the reason. Nothing is erased: \
the history stays in the audit trail.
- A collection is a namespace; memories of one are not found in another. Use the same name for the \
same task or fleet.
- learn answers "duplicate" when the memory already says so: that is fine, nothing needs to be \
done."""


def _load() -> Family:
    from mnemolog.services.families.robot.family import FAMILY

    return FAMILY


LISTED = Listed(NAME, INTRODUCTION, _load)
