"""The projections of one store, opened together and brought up to the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemolog.infra.embedder.catalogue import Model
from mnemolog.projections.ports import TextIndex, VectorIndex
from mnemolog.projections.projection import Projected
from mnemolog.projections.state.store import PartitionState, StateError
from mnemolog.services.counted import Counted
from mnemolog.services.node.following import opening
from mnemolog.services.node.following.follow import (
    Advance,
    ReadableLog,
    feed_text,
    feed_vectors,
    follow_state,
    follow_text,
    follow_vectors,
)

if TYPE_CHECKING:
    from mnemolog.projections.vectors.edge import EdgeVectors


class Projections:
    """State, text and vectors below `directory`. `model` None: no vectors.

    `shared` is a vector index that several nodes have in common: it is searched, and told what is
    new, but made, compared and closed by others. What is not as it was written is made anew, as the
    log is followed; unless `mend` is False: then it is compared as it is.
    """

    def __init__(
        self,
        directory: Path,
        partitions: int,
        projected: Projected,
        model: Model | None,
        shared: VectorIndex | None = None,
        *,
        mend: bool = True,
    ) -> None:
        self.directory = directory
        self.projected = projected
        self.model = model
        with _told_as_state_error(directory / "state"):
            self.states = [
                PartitionState(
                    directory / "state" / f"p{p:04d}.db",
                    p,
                    partitions,
                    projected,
                    as_it_is=not mend,
                )
                for p in range(partitions)
            ]
        self._text = opening.text(directory / "text", mend)
        self.text: TextIndex = self._text
        self.shared = shared
        self.vectors: VectorIndex | None = shared
        self.own: EdgeVectors | None = None
        self._differs: dict[str, str] = {}
        if model is not None and shared is None:
            place = directory / "vectors" / model.name
            if not mend:
                self._differs = opening.vectors_differ(place)
            self.vectors = self.own = opening.vectors(place, model, mend)

    @property
    def damaged(self) -> str | None:
        """What is wrong with an index whose files an operation stumbled over; it stays so until it
        is made anew."""
        return self._text.damaged or (None if self.own is None else self.own.damaged)

    def vectors_health(self) -> dict[str, Any]:
        """Whether the node's own vectors can be searched, and if not, why."""
        return {"status": "own"} if self.own is None else self.own.health()

    def catch_up(self, log: ReadableLog, progress: Advance | None = None) -> None:
        """Bring everything up to the end of the log. `progress` counts each projection's work."""
        with _told_as_state_error(self.directory / "state"):
            for state in self.states:
                follow_state(log, state, progress=progress)
        follow_text(log, self.text, self.projected, progress)
        if self.vectors is not None and self.model is not None:
            follow_vectors(log, self.vectors, self.projected, self.model.name, progress)

    def show(self, partition: int, counted: Counted) -> None:
        """Bring one decision, carried out on the state already, into the indexes."""
        feed_text(self.text, self.projected, partition, counted)
        if self.vectors is not None and self.model is not None:
            feed_vectors(self.vectors, self.projected, self.model.name, partition, counted)

    def commit(self) -> None:
        self.text.commit()
        if self.vectors is not None:
            self.vectors.commit()

    def state_digest(self) -> dict[str, str]:
        return {
            f"state/{state.partition}/{name}": value
            for state in self.states
            for name, value in state.digest().items()
        }

    def digest(self) -> dict[str, str]:
        """A hash per part (`state/0/memory`, `text/…`, `vectors/…`), equal for equal contents."""
        found = self.state_digest()
        found |= {f"void/{state.partition}": state.void_digest() for state in self.states}
        found |= {f"state/{one.partition}": one.broken for one in self.states if one.broken}
        found |= {f"text/{space}": value for space, value in self.text.digest().items()}
        if self.vectors is not None and self.model is not None and self.shared is None:
            found |= {
                f"vectors/{self.model.name}/{space}": value
                for space, value in (self.vectors.digest() | self._differs).items()
            }
        return found

    def close(self) -> None:
        self.text.close()
        if self.own is not None:
            self.own.close()
            if self._differs:
                # Closing took the files for what they should be; the next opening must not.
                self.own.forget()
        for state in self.states:
            state.close()


@contextmanager
def _told_as_state_error(directory: Path) -> Iterator[None]:
    """A damaged database shows wherever it is read first: say what to do about it."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise StateError(
            f"The state in {directory} cannot be read ({error}); "
            "`mnemolog rebuild` makes it anew from the log"
        ) from error
