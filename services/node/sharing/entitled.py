"""What a guest may ask of the holder: what clients may ask of a gateway, and no more.

A guest is another process of the same user, so it is for the guest to say who is calling, and whose
memory it is about. What the holder does by its own means is for the holder to say.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from mnemolog.events.arguments import MAX_ARGUMENT_BYTES
from mnemolog.events.ids import is_tenant
from mnemolog.events.trace import is_trace
from mnemolog.services.api import Begun, Files, Follow, Request, Unavailable
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.node.sharing.wire import Peer

MAX_TEXT = 1024
MAX_POSITION = 64 * 1024
"""More than gateways let pass."""


def entitled_call(request: Request, guest: Peer, catalogue: Catalogue, now_us: int) -> Request:
    """The request as it is carried out. The time is the holder's. Of the service's own tools a
    guest has those that read (an export); the others write what the service itself worked out."""
    _check_tenant(request.tenant)
    texts = (request.tool, request.call_id, request.actor, request.client)
    _check(all(len(text) <= MAX_TEXT for text in (*texts, request.idempotency_key or "")))
    _check(len(request.arguments) <= MAX_ARGUMENT_BYTES)
    _check(len(request.after or "") <= MAX_POSITION)
    _check(request.consistency in (None, "strong"))
    _check(request.trace is None or is_trace(request.trace))
    tool = catalogue.tools.get(request.tool)
    return replace(
        request,
        received_at_us=now_us,
        internal=request.internal and tool is not None and tool.reads,
        files=_files(request.files, guest),
    )


def entitled_follow(follow: Follow) -> Follow:
    _check_tenant(follow.tenant)
    _check(len(follow.space or "") <= MAX_TEXT and len(follow.after or "") <= MAX_POSITION)
    return follow


def entitled_names(begun: Begun) -> Begun:
    _check_tenant(begun.tenant)
    _check(all(len(text) <= MAX_TEXT for text in (begun.family, begun.argument, begun.text)))
    return begun


def _files(given: Files | None, guest: Peer) -> Files | None:
    """The user's files, for a process that sees the same ones. To one in a container the holder
    would lend its eyes."""
    if given is None or not guest.sees_our_files:
        return None
    paths = (given.cwd, given.home, *([] if given.root is None else [given.root]))
    _check(all(len(path) <= MAX_POSITION and Path(path).is_absolute() for path in paths))
    return given


def _check_tenant(name: str) -> None:
    _check(is_tenant(name))


def _check(holds: bool) -> None:
    if not holds:
        raise Unavailable("Another process sent a call that no gateway makes; it was not looked at")
