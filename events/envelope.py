"""The two kinds of record on the log.

A `Call` is what somebody asked, exactly as it came; nothing is decided yet. A `Decision` is what
followed from one call: the facts, the reply, and the inputs that were not in the call. Both are
immutable once written. Times are microseconds since 1970 in UTC.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

GENESIS = bytes(32)
"""What the first decision of a partition names as the decision before it."""


Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What every store can hold; a call with a larger number is undecodable, and so refused."""


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class Truncated(msgspec.Struct, frozen=True):
    """Stands beside arguments that were too large or undecodable to keep whole."""

    reason: str
    size: int
    sha256: bytes


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a call is refused that never came to be decided: what the way in did not let pass, or
    what a reader would not answer. `code` is a JSON-RPC error code where it has to be one, `data`
    what such an error says besides."""

    reason: str
    code: int | None = None
    data: dict[str, Any] = {}


class Answered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a read returned; the reader answered before the call was put on the log.

    `reply` is what came of a call that was carried out before it was put on the log, in calls of
    its own (an import): the JSON object for its caller, or `{"error": sentence}`.
    """

    ids: list[Whole]
    mode: str = ""
    ms: float = 0.0
    reply: bytes = b""


class Trace(msgspec.Struct, frozen=True, omit_defaults=True):
    """W3C trace context, well-formed: `parent` is a `traceparent`, `state` a `tracestate`."""

    parent: str
    state: str = ""


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool call.

    `arguments` is JSON text (with `truncated` set: only its first bytes). `refused` tells the
    sentence that its caller got before it was put on the log. `key_id` is empty today; it will name
    the key that the arguments are encrypted with. `trace` tells what of its caller's it belongs to;
    nothing depends on it.
    """

    id: str
    tool: str
    arguments: bytes
    space: str
    received_at_us: Whole
    tenant: str = "default"
    actor: str = ""
    client: str = ""
    idempotency_key: str | None = None
    key_id: str | None = None
    answered: Answered | None = None
    truncated: Truncated | None = None
    refused: Refusal | None = None
    trace: Trace | None = None

    @property
    def fingerprint(self) -> bytes:
        """Tells whether two calls ask for the same thing, however their arguments are written."""
        try:
            asked = msgspec.json.encode(msgspec.json.decode(self.arguments), order="deterministic")
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            asked = self.arguments
        return self._digest(asked)

    @property
    def fingerprint_v1(self) -> bytes:
        """As it was when it told the same arguments apart by how they are written."""
        return self._digest(self.arguments)

    def _digest(self, asked: bytes) -> bytes:
        return hashlib.blake2b(self.tool.encode() + b"\0" + asked, digest_size=16).digest()


class Embedding(msgspec.Struct, frozen=True):
    """A float16 vector of unit length, and the model that made it."""

    model: str
    vector: bytes


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What followed from one call.

    `previous` is the SHA-256 of the bytes of the decision before it in its partition, `call_hash`
    that of its call's bytes. `facts` are encoded one by one, so a reader that does not know one of
    them can say which. `reply` is JSON. `key` is the idempotency key that the outcome is kept
    under, for calls to `key_space`; a read has none. Without `key_space`, as decisions once were,
    it holds for all spaces of the tenant in its partition. `actor` is who the facts are from, as
    the call says; decisions once did not say it.
    """

    call_id: str
    call_offset: int
    call_hash: bytes
    previous: bytes
    at_us: int
    tool: str
    tenant: str
    space: str
    reply: bytes
    facts: list[msgspec.Raw] = []
    inputs: list[Embedding] = []
    refused: bool = False
    code: int | None = None
    key: str | None = None
    own_key: bool = False
    fingerprint: bytes = b""
    key_space: str = ""
    actor: str = ""
