"""What a tool is to the service: its arguments, its place, how it is decided and answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Generic, Literal, TypeVar

import msgspec

from mnemolog.events.arguments import Arguments, Refused
from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Call, Embedding
from mnemolog.events.ids import partition_of_id, partition_of_session, partition_of_space
from mnemolog.projections.state.view import View, Writable
from mnemolog.services.api import Answer, Files, Ran
from mnemolog.services.reader.reader import Models, Read, Reader, VectorModel
from mnemolog.services.scopes import READ, SCOPES, WRITE, Scope

R = TypeVar("R")


class Place(msgspec.Struct, frozen=True):
    """Where a call goes: to a space, or to whichever partition an id or a session tells."""

    space: str
    number: int | None = None
    session: str | None = None

    def partition(self, partitions: int) -> int:
        if self.number is not None:
            return partition_of_id(self.number, partitions)
        if self.session is not None:
            found = partition_of_session(self.session, partitions)
            if found is not None:
                return found
        return partition_of_space(self.space, partitions)


class Context(msgspec.Struct, Generic[R], frozen=True):
    """Everything a decision may depend on, besides the arguments. `rules` are its family's.

    `embeddings` maps a text to its place in `inputs`; a text that could not be embedded is not in
    it.
    """

    state: Writable
    call: Call
    at_us: int
    rules: R
    model: VectorModel | None
    inputs: list[Embedding]
    embeddings: Mapping[str, int]

    def embedding(self, text: str) -> Embedding | None:
        place = self.embeddings.get(text)
        return None if place is None else self.inputs[place]

    def returned(self) -> list[int]:
        """What a read gave its caller, by the ids."""
        if self.call.answered is None:
            raise Refused(
                "A read is answered by a gateway; this call was recorded without its answer"
            )
        return self.call.answered.ids


class Decided(msgspec.Struct, frozen=True):
    """What a tool's function decided: facts for `space`, and the reply; or, of a tool that `shows`
    state, what it takes to make the reply."""

    space: str
    facts: list[Fact]
    reply: Any


class Asked(msgspec.Struct, frozen=True):
    """A call that has been read, once: its tool, its arguments and the partition it belongs to. Or
    why it is refused; then it has no arguments, and is as good in one partition as in another."""

    call: Call
    partition: int
    tool: Tool | None = None
    args: Any = None
    refused: Refused | None = None

    @property
    def texts(self) -> list[str]:
        """What has to be embedded before it is decided."""
        return [] if self.tool is None or self.refused is not None else self.tool.texts(self.args)


class Edge(msgspec.Struct, frozen=True):
    """What carrying a call out before it is decided needs of the node that got it. `submit` has a
    call of the service's own decided, `progress` is told how much is done and how much there is,
    `patience_s` is how long one such call may take, `files` which files may be named. `run_code`
    runs an agent's code, described and with its input, where it can do no harm; `models` are those
    that a space may be configured for."""

    submit: Callable[[Call], Future[Answer]]
    stopping: Callable[[], bool]
    progress: Callable[[int, int], None]
    patience_s: float
    clock: Callable[[], int]
    run_code: Callable[[str, str, Any], Ran]
    files: Files | None = None
    models: Models | None = None


PlaceOf = Callable[[str, Any], Place]
"""Where a tenant's call with some arguments belongs."""
Decide = Callable[[Context[Any], Any], Decided]
Answers = Callable[[Reader, Call, Any], Read]
Shows = Callable[[View, Any], Any]
"""The reply, from the state and what was decided on it."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `decide` is pure: the same context gives the same outcome; it refuses by raising
    `Refused`. `texts` are what has to be embedded before deciding. One that `reads` has `answer`;
    its `decide` then notes what was returned. `carry_out` does at the edge what deciding must not
    do (reading a file), and gives the call back with what came of it. `shows` completes the reply
    of a write from the state: what is state is not written to the log again with every change.
    `says` is the part of a reply that is shown in words, where that is not all of it. So many calls
    as `at_once` says are carried out beside each other; the others wait.

    One that `destroys` takes something away. `idempotent`: the same call again changes nothing
    more. An `internal` one is the service's own, and clients are not offered it. A `heavy` one may
    take long, however small its arguments: a read waits for others like it. `awaits` names the kind
    of thing that must have been described before it is answered, if any. `asks` is the text that it
    looks for by meaning: a provider elsewhere is asked for its vector beforehand, so that no reader
    waits for it. A tool answers to its `aliases`, too; they are not listed.

    Callers need the `scope`; where calls are limited, it counts as what it `counts_as`.
    """

    name: str
    arguments: type[Arguments]
    reads: bool
    destroys: bool
    idempotent: bool
    internal: bool
    scope: Scope
    counts_as: Literal["read", "write"]
    place: PlaceOf
    decide: Decide
    texts: Callable[[Any], list[str]] = lambda _: []
    answer: Answers | None = None
    carry_out: Callable[[Edge, Call, Any], Call] | None = None
    shows: Shows | None = None
    says: Callable[[Any], Any] | None = None
    at_once: int = 1
    awaits: str = ""
    asks: Callable[[Any], str] | None = None
    heavy: bool = False
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise ValueError(f"{self.name}: its scope is one of {', '.join(SCOPES)}")
        if self.reads != (self.answer is not None):
            raise ValueError(f"{self.name}: what reads has an answer, and nothing else has")
        if self.reads and self.shows is not None:
            raise ValueError(f"{self.name}: what reads is answered from the state anyway")
        if self.reads and (self.destroys or not self.idempotent):
            raise ValueError(f"{self.name}: what reads destroys nothing, and can be repeated")

    @property
    def description(self) -> str:
        return " ".join((self.arguments.__doc__ or "").split())


def reads(
    name: str,
    arguments: type[Arguments],
    place: PlaceOf,
    decide: Decide,
    answer: Answers,
    **more: Any,
) -> Tool:
    """A tool that changes nothing but what it leaves on the log."""
    return _tool(
        (name, arguments, place, decide), reads=True, idempotent=True, answer=answer, **more
    )


def adds(
    name: str,
    arguments: type[Arguments],
    place: PlaceOf,
    decide: Decide,
    *,
    idempotent: bool,
    **more: Any,
) -> Tool:
    """A tool that takes nothing away."""
    return _tool((name, arguments, place, decide), idempotent=idempotent, **more)


def destroys(
    name: str,
    arguments: type[Arguments],
    place: PlaceOf,
    decide: Decide,
    *,
    idempotent: bool,
    **more: Any,
) -> Tool:
    """A tool that may take away what was there."""
    return _tool((name, arguments, place, decide), destroys=True, idempotent=idempotent, **more)


def _tool(
    core: tuple[str, type[Arguments], PlaceOf, Decide],
    *,
    reads: bool = False,
    destroys: bool = False,
    idempotent: bool,
    internal: bool = False,
    scope: Scope | None = None,
    counts_as: Literal["read", "write"] | None = None,
    **more: Any,
) -> Tool:
    name, arguments, place, decide = core
    return Tool(
        scope=scope or (READ if reads else WRITE),
        counts_as=counts_as or ("read" if reads else "write"),
        name=name,
        arguments=arguments,
        reads=reads,
        destroys=destroys,
        idempotent=idempotent,
        internal=internal,
        place=place,
        decide=decide,
        **more,
    )
