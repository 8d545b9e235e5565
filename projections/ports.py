"""What a search index must offer, whichever engine is behind it.

An index is fed *changes* in log order, partition by partition, and keeps its own checkpoint in
its own store. Applying is idempotent: a change at or below the checkpoint of its partition may
come again and alters nothing. A search sees every change applied before it, committed or not.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemolog.events.envelope import Embedding

Vector = NDArray[np.float16]

_WANTED = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
}


def vector_of(embedding: Embedding) -> Vector:
    return np.frombuffer(embedding.vector, dtype=np.float16)


class PutText(msgspec.Struct, frozen=True):
    """Index `text` as document `id` of `space`, replacing what the id held before."""

    space: str
    id: int
    text: str
    session: str | None = None
    confidence: float = 1.0


class PutVector(msgspec.Struct, frozen=True):
    """Store `vector` as point `id` of `space`, replacing what the id held before.

    `version` is the content's version: a hit with an older one is stale and the caller drops it.
    """

    space: str
    id: int
    version: int
    vector: Vector
    session: str | None = None
    confidence: float = 1.0


class Remove(msgspec.Struct, frozen=True):
    """Take `id` out of `space`; an id that is not there is no error."""

    space: str
    id: int


TextChange = PutText | Remove
VectorChange = PutVector | Remove


class Hit(msgspec.Struct, frozen=True):
    """One search result, best first; `score` is BM25 (text) or cosine similarity (vectors)."""

    id: int
    score: float
    version: int = 0


class IndexDamaged(RuntimeError):
    """An index's own files cannot be used as they are; the sentence says which, and what to do."""


def is_want(error: BaseException) -> bool:
    """Whether an engine could not go on for want of something (room on the disk, memory, open
    files, permission): then its files are not at fault, and it may be tried again."""
    told = re.search(r"os error (\d+)", str(error))
    number = error.errno if isinstance(error, OSError) else int(told[1]) if told else None
    return number in _WANTED


class VectorsAway(Exception):
    """The vector store cannot be asked just now; the sentence says why.

    A read goes on without vectors; whoever feeds the store feeds on from its checkpoint later.
    `again`: the same request may succeed soon, so that repeating it is worth while.
    """

    def __init__(self, sentence: str, *, again: bool = True) -> None:
        super().__init__(sentence)
        self.again = again


class Index(Protocol):
    """The part that every index shares."""

    def checkpoint(self, partition: int) -> int:
        """The offset of the last decision of `partition` that is durably in the index; -1: none."""
        ...

    def commit(self) -> None:
        """Make everything applied so far durable, checkpoints included, in an order in which the
        checkpoint is never ahead of the data. Cheap when nothing changed."""
        ...

    def digest(self) -> dict[str, str]:
        """Per space a hash of what its engine really holds and finds, the same for the same
        contents however they came. What cannot be read has a name of its own."""
        ...

    def close(self) -> None:
        """Commit and let go of files and threads."""
        ...


class TextIndex(Index, Protocol):
    def apply(self, partition: int, offset: int, changes: Sequence[TextChange]) -> None:
        """Apply one decision's changes. `offset` grows within a partition."""
        ...

    def search(
        self,
        space: str,
        query: str,
        limit: int,
        *,
        session: str | None = None,
        min_confidence: float | None = None,
    ) -> list[Hit]:
        """BM25 over the OR of the query's tokens, within `space` alone: neither the hits nor the
        statistics know of other spaces. Ties are ordered by id, the newest first."""
        ...

    def hurry(self, within_s: float) -> None:
        """From now on, begin nothing more that makes changes durable once so many seconds are over,
        `commit` and `close` included. What is not durable then is fed again from the log."""
        ...


class VectorIndex(Index, Protocol):
    def apply(self, partition: int, offset: int, changes: Sequence[VectorChange]) -> None: ...

    def search(
        self,
        space: str,
        vector: Vector,
        limit: int,
        *,
        session: str | None = None,
        min_confidence: float | None = None,
    ) -> list[Hit]:
        """Nearest points of `space` by cosine similarity, approximate where that is faster.
        `VectorsAway` if the points lie on a server that does not answer."""
        ...


class Waiting(msgspec.Struct, frozen=True):
    """Something that a model has not described as it is now. `since` tells the change."""

    kind: str
    number: int
    space: str
    since: int


class Choice(msgspec.Struct, frozen=True):
    """The model that makes a space's vectors, where that is another than the service's own. `name`
    tells its vectors from others', `since` the call that chose it; `removed` counts vectors that
    are gone since then."""

    space: str
    name: str
    provider: str
    model: str
    api_key_env: str
    base_url: str
    batch_size: int
    similarity_threshold: float | None
    dims: int
    since: int = 0
    removed: int = 0
