"""What every way in (MCP over stdio, HTTP, the command line) says to the service, and gets back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from mnemolog.events.envelope import Refusal, Trace, Truncated

Progress = Callable[[int, int], None]
"""Called, on the caller's event loop, with how much is done and how much there is in all."""


class Files(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which files of this machine a caller may name. A relative path begins at `cwd`, `~` is
    `home`; with `root`, only what is below it."""

    cwd: str
    home: str
    root: str | None = None


def own_files(root: Path | None = None) -> Files:
    """What the user of this process may name: whatever the user can read, or what is below
    `root`, where relative paths begin then."""
    try:
        home = Path.home()
    except RuntimeError:  # A user without a name and a home, as in some containers.
        home = Path("/")
    try:
        cwd = root or Path.cwd()
    except FileNotFoundError:  # The directory was removed under the process.
        cwd = home
    return Files(cwd=str(cwd), home=str(home), root=None if root is None else str(root))


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool call as it came in.

    `arguments` is JSON text; when it was too large or not text, its first bytes, with `truncated`
    set. `refused` is why the way in did not let it pass: it is recorded, and not carried out.
    `call_id` names the call: the same id sent again (after a broken connection) is carried
    out once. `after` is a position from an earlier answer that the reader must have reached.
    `files` None: none may be named. `internal` calls may use tools that clients are not offered;
    only the service's own command line makes them. `trace` is the caller's trace context.
    """

    tool: str
    arguments: bytes
    call_id: str
    received_at_us: int
    tenant: str = "default"
    actor: str = ""
    client: str = ""
    idempotency_key: str | None = None
    after: str | None = None
    consistency: str | None = None
    truncated: Truncated | None = None
    refused: Refusal | None = None
    files: Files | None = None
    internal: bool = False
    trace: Trace | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`reply` is the JSON object for the caller; with `refused`, `{"error": sentence}`. One that is
    `unfit` was refused for how it was put, before anybody looked at what it was about.

    `code` is a JSON-RPC error code where the refusal has to be one. `position` is where the log
    stood when this was answered, `partition:offset` of the decision. `text` is JSON that is shown
    in words instead of the reply, where that has more beside it.
    """

    reply: bytes
    text: bytes | None = None
    refused: bool = False
    unfit: bool = False
    code: int | None = None
    position: str | None = None


class Follow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose changes somebody wants to be told of, and from where on.

    `space` is a space as callers name it (`graph`, `robot/COLLECTION`), None for all of the
    tenant's. It begins after the position `after` (`start`: at the very beginning), or with the
    `last` so many changes, else at the present. Without `live` it ends at the present.
    """

    tenant: str = "default"
    space: str | None = None
    after: str | None = None
    last: int | None = None
    live: bool = True


class Begun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The beginning of a name, as somebody types it: of the `argument` that a family completes."""

    tenant: str = "default"
    family: str
    argument: str
    text: str = ""


MAX_NAMES = 100
"""So many are given at a time, as MCP has it; a service gives one more where there are more."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing a follower is told; `position` is where to go on from after it.

    `opened` comes first. `decided` is a change, with the JSON object in `data`. At `present` what
    had happened before is through. `cut_off` (the reader was too slow) and `closing` come last,
    each with its reason in `data`.
    """

    kind: Literal["opened", "decided", "present", "cut_off", "closing"]
    position: str
    data: bytes = b"{}"


def last_event(kind: Literal["cut_off", "closing"], position: str, reason: str) -> Event:
    told = {"position": position, "reason": f"{reason}; go on with after={position}"}
    return Event(kind=kind, position=position, data=msgspec.json.encode(told))


class Ran(Protocol):
    """What came of running an agent's code; `value` is JSON, `kind` what went wrong."""

    @property
    def ok(self) -> bool: ...
    @property
    def value(self) -> bytes: ...
    @property
    def console(self) -> str: ...
    @property
    def console_cut(self) -> bool: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def message(self) -> str: ...
    @property
    def ms(self) -> float: ...


class Unavailable(Exception):
    """The service could not answer; the sentence says whether the call may still be carried out,
    and how to ask again."""


class TimedOut(Unavailable):
    """There was no answer in time."""


class Busy(Unavailable):
    """There is more to do than fits into the queues. Nothing was done or recorded; in so many
    seconds it may be asked again."""

    def __init__(self, sentence: str, retry_after_s: int = 1) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s


def ask_again(key: str) -> str:
    """How to learn what became of a call whose outcome is open."""
    return (
        "The call may still be carried out; ask again under the idempotency key "
        f"{key!r} to learn its outcome"
    )


class Service(Protocol):
    async def call(self, request: Request, progress: Progress | None = None) -> Answer:
        """Carry out one call. Raises `Unavailable`; every other failure is in the answer."""
        ...

    async def health(self) -> dict[str, Any]:
        """What `/healthz` shows: `status` is `ok`, `starting` or `degraded`."""
        ...

    async def figures(self) -> dict[str, Any]:
        """What `/metrics` shows besides: see `services/node/gauges.py`. May be empty."""
        ...

    def events(self, follow: Follow) -> AsyncGenerator[Event, None]:
        """Changes as they are decided, each once and in the order of their space. The first step
        raises `Refused` for a wish that cannot be met, or `Unavailable`. To be closed."""
        ...

    async def names(self, begun: Begun) -> list[str]:
        """Names that begin so, in their order: `MAX_NAMES` and one more at most. Nothing of it is
        recorded. Raises `Unavailable`."""
        ...
