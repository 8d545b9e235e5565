"""What a tool is to the service: its arguments, its place, and the function that decides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mnemolog.events.arguments import Arguments, Refused
from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Call, Embedding
from mnemolog.events.ids import partition_of_id, partition_of_session, partition_of_space
from mnemolog.projections.ports import TextIndex, Vector, VectorIndex
from mnemolog.projections.state.store import View, Writable
from mnemolog.services.decider.rules import Rules


class Place(msgspec.Struct, frozen=True):
    """Where a call goes: to a space, or to whichever partition an id or a session tells."""

    space: str
    number: int | None = None
    session: str | None = None


def partition_of(place: Place, partitions: int) -> int:
    if place.number is not None:
        return partition_of_id(place.number, partitions)
    if place.session is not None:
        found = partition_of_session(place.session, partitions)
        if found is not None:
            return found
    return partition_of_space(place.space, partitions)


class Model(msgspec.Struct, frozen=True):
    """What deciding and reading need to know of the model that makes the vectors."""

    name: str
    dedup_cosine: float


class Context(msgspec.Struct, frozen=True):
    """Everything a decision may depend on, besides the arguments.

    `embeddings` maps a text to its place in `inputs`; a text that could not be embedded is not in
    it.
    """

    state: Writable
    call: Call
    at_us: int
    rules: Rules
    model: Model | None
    inputs: list[Embedding]
    embeddings: Mapping[str, int]

    def embedding(self, text: str) -> Embedding | None:
        place = self.embeddings.get(text)
        return None if place is None else self.inputs[place]


class Decided(msgspec.Struct, frozen=True):
    """What a tool's function decided: facts for `space`, and the reply."""

    space: str
    facts: list[Fact]
    reply: Any


class Reader(msgspec.Struct, frozen=True):
    """What a read may look at: the state as it is committed, and the search indexes.

    `embed` starts embedding a query's text and gives a function that waits for its vector, or
    None when there is no model, or none for the text's script. `embed_passages` gives the vectors
    of texts as they are stored, None for a text that the model does not cover; as a whole None
    when there is no model, or `model` (the one that is set) is not installed. `loaded` waits for
    the model and tells its name; None when there is none at hand. `pending` is how much of the
    space waits to be described, for a tool that asks for it.
    """

    view: View
    text: TextIndex
    vectors: VectorIndex | None
    embed: Callable[[str], Callable[[], Vector] | None]
    embed_passages: Callable[[Sequence[str]], list[Vector | None] | None] = lambda _: None
    model: Model | None = None
    loaded: Callable[[], str | None] = lambda: None
    pending: int = 0


class Read(msgspec.Struct, frozen=True):
    """What a read answers, and what is put on the log about it."""

    reply: dict[str, Any]
    ids: list[int]
    mode: str = ""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. `decide` is pure: the same context gives the same outcome; it refuses by raising
    `Refused`. `texts` are what has to be embedded before deciding. A tool that only reads has
    `answer`, which refuses in the same words; its `decide` then notes what was returned. A `heavy`
    one may take long, however small its arguments: a read waits for others like it. `awaits` names
    the kind of thing that must have been described before it is answered, if any. A tool answers to
    its `aliases`, too; they are not listed."""

    name: str
    arguments: type[Arguments]
    place: Callable[[str, Any], Place]
    decide: Callable[[Context, Any], Decided]
    texts: Callable[[Any], list[str]] = lambda _: []
    answer: Callable[[Reader, Call, Any], Read] | None = None
    awaits: str = ""
    destructive: bool = False
    idempotent: bool = False
    internal: bool = False
    heavy: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def reads(self) -> bool:
        return self.answer is not None

    @property
    def description(self) -> str:
        return " ".join((self.arguments.__doc__ or "").split())


def no_model(model: Model | None) -> Refused:
    """What needs a model, and has none at hand, is refused with this; `model` is the one set."""
    if model is None:
        return Refused(
            "Embedding model not available. The service runs with the model `none`: run `mnemolog "
            "models pull NAME` for one of `mnemolog models list`, and start it with --model NAME; "
            "search_nodes needs none"
        )
    return Refused(
        f"Embedding model not available. Run `mnemolog models pull {model.name}` to download it "
        "first; it is noticed without a restart"
    )
