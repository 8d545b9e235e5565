"""How the server introduces itself. Plain values, so that they cost nothing to import."""

from __future__ import annotations

from typing import Final

NAME: Final = "mnemolog"
TITLE: Final = "Mnemolog"
VERSION: Final = "0.1.0"

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocol versions that begin with `initialize`, oldest first. Later ones need no handshake."""

INSTRUCTIONS: Final = """\
Mnemolog is a long-term memory shared by robots and agents. It outlives this conversation.

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

learn answers "duplicate" when the memory already says so: that is fine, nothing needs to be done. \
A refused call answers {"error": ...} with the reason; correct the arguments and call again. To \
repeat a call safely after a time-out, send the same _meta.idempotency_key with it."""
