"""What a read may look at, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from mnemolog.events.arguments import Refused
from mnemolog.projections.ports import Choice, TextIndex, Vector, VectorIndex
from mnemolog.projections.state.view import View


class VectorModel(msgspec.Struct, frozen=True):
    """What deciding and answering need to know of the model that makes the vectors."""

    name: str
    dedup_cosine: float


class Running(Protocol):
    """What can be asked of the service itself."""

    def standing(self) -> dict[str, Any]:
        """How it is: `reasons` why it does not do all that it should, the `model`, the
        `vectors`."""
        ...

    def figures_of(self, tenant: str) -> dict[str, dict[str, Any]]:
        """By tool how often a tenant has called it, and how long that took."""
        ...


class Tried(msgspec.Struct, frozen=True):
    """What came of asking a model once."""

    dims: int
    ms: float


class NotAllowed(Exception):
    """A model that cannot be chosen; `field` is the argument that is wrong."""

    def __init__(self, field: str, issue: str) -> None:
        super().__init__(f"{field} {issue}")
        self.field = field
        self.issue = issue


class Models(Protocol):
    """The models that a space may be configured for, those of providers elsewhere included. All
    waiting is bounded; `VectorsAway` says why there is no vector."""

    def chosen(
        self,
        space: str,
        provider: str,
        model: str | None,
        api_key_env: str | None,
        base_url: str | None,
    ) -> tuple[Choice, Tried]:
        """What a caller's wish comes to, asked once; `NotAllowed`, or `VectorsAway`."""
        ...

    def tried(self, choice: Choice | None) -> Tried:
        """Ask the model once; None: the service's own."""
        ...

    def query(self, choice: Choice, text: str) -> Vector | None:
        """The vector of a query; None: the model does not cover its script."""
        ...

    def trouble(self, choice: Choice) -> str:
        """Why nothing could be embedded lately; empty when it could."""
        ...


class Reader(msgspec.Struct, frozen=True):
    """What a read may look at: the state as it is committed, and the search indexes.

    `embed` starts embedding a query's text and gives a function that waits for its vector, or
    None when there is no model, or none for the text's script. `embed_passages` gives the vectors
    of texts as they are stored, None for a text that the model does not cover; as a whole None
    when there is no model, or `model` (the one that is set) is not installed. `loaded` waits for
    the model and tells its name; None when there is none at hand. `pending` is how much of the
    space waits to be described, for a tool that asks for it. `running` is the service itself.
    `models` are those that a space may be configured for.
    """

    view: View
    text: TextIndex
    vectors: VectorIndex | None
    embed: Callable[[str], Callable[[], Vector] | None]
    embed_passages: Callable[[Sequence[str]], list[Vector | None] | None] = lambda _: None
    model: VectorModel | None = None
    loaded: Callable[[], str | None] = lambda: None
    pending: int = 0
    running: Running | None = None
    models: Models | None = None


class Read(msgspec.Struct, frozen=True):
    """What a read answers, and what is put on the log about it."""

    reply: dict[str, Any]
    ids: list[int]
    mode: str = ""


def no_model(model: VectorModel | None, other: str = "search_nodes") -> Refused:
    """What needs a model, and has none at hand, is refused with this; `model` is the one set, and
    `other` a tool that does without."""
    if model is None:
        return Refused(
            "Embedding model not available. The service runs with the model `none`: run `mnemolog "
            "models pull NAME` for one of `mnemolog models list`, and start it with --model NAME; "
            f"{other} needs none"
        )
    return Refused(
        f"Embedding model not available. Run `mnemolog models pull {model.name}` to download it "
        "first; it is noticed without a restart"
    )
