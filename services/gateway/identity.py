"""How the server introduces itself. Plain values, so that they cost nothing to import."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

NAME: Final = "mnemolog"
TITLE: Final = "Mnemolog"
VERSION: Final = "0.1.0"

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocol versions that begin with `initialize`, oldest first. Later ones need no handshake."""

_INTRODUCTION: Final = (
    "Mnemolog is a long-term memory shared by robots and agents. It outlives this conversation."
)

_FAMILIES: Final = {
    "robot": """\
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
done.""",
    "graph": """\
A knowledge graph of entities, what is observed of them, and relations between them:
- Before answering, look up what is known: search_nodes finds a text in names, types and \
observations, search_semantic finds by meaning, open_nodes fetches entities by name.
- Keep what is worth knowing later with create_entities, add_observations (single facts, each a \
sentence) and create_relations (in active voice). Creating an entity that exists adds to it.
- When something is no longer so, call end_relation: that it once held stays in the history. \
Delete what was never right.
- add_reflection keeps what something means, in free prose.""",
}

_ENDING: Final = """\
A refused call answers {"error": ...} with the reason; correct the arguments and call again. To \
repeat a call safely after a time-out, send the same _meta.idempotency_key with it."""


def instructions(families: Collection[str]) -> str:
    """What a client may tell its model about the tool families that are offered."""
    offered = [words for family, words in _FAMILIES.items() if family in families]
    return "\n\n".join((_INTRODUCTION, *offered, _ENDING))
