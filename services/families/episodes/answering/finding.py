"""Search by words and meaning among episodes, and among patterns.

The indexes say what may be near; how near is measured by the vectors in the state, so that an index
that lags behind never gives a wrong similarity. In a space that is configured for another model
than the service's own, that model's vectors alone are compared, all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
import numpy as np

from mnemolog.projections.described import index_space
from mnemolog.projections.episodes import provided
from mnemolog.projections.episodes.state import DESCRIBED
from mnemolog.projections.ports import Choice, Hit, Vector, VectorsAway
from mnemolog.projections.ranking.fusion import reciprocal_ranks
from mnemolog.services.reader.reader import Reader

MAX_FETCH = 10_000


class Legs(msgspec.Struct, frozen=True):
    """What words and meaning found, best first. `similar` is by id the cosine with the query, where
    that can be measured; None: meaning was not asked, or did not answer, and `why` may say why."""

    words: list[int]
    near: list[int]
    similar: dict[int, float] | None
    why: str = ""

    @property
    def fused(self) -> dict[int, float]:
        """By id how well it does in both, the best 1.0."""
        scores = reciprocal_ranks([leg for leg in (self.near, self.words) if leg])
        most = max(scores.values(), default=1.0)
        return {number: score / most for number, score in scores.items()}

    @property
    def mode(self) -> str:
        return "bm25_only" if self.similar is None else "hybrid"


class Search(msgspec.Struct, frozen=True):
    """One query among things of a kind. `vector` gives the query's vector; None: there is no model,
    or none for its script. `choice` is the model that the space is configured for, where that is
    not the service's own."""

    reader: Reader
    space: str
    kind: str
    query: str
    vector: Callable[[], Vector] | None
    choice: Choice | None = None

    def legs(self, fetch: int, *, near_alone: bool = False) -> Legs:
        """`near_alone`: how similar that is which words alone found does not matter."""
        place = index_space(self.space, self.kind)
        by_words = self.reader.text.search(place, self.query, fetch)
        if self.choice is not None:
            return self._provided([hit.id for hit in by_words], self.choice, fetch)
        found = self._nearest(place, fetch)
        words = [hit.id for hit in by_words]
        if found is None:
            return Legs(words, [], None)
        vector, hits = found
        also = () if near_alone else words
        similar = self._similar(vector, {*also, *(hit.id for hit in hits)})
        near = sorted(
            (hit.id for hit in hits if hit.id in similar),
            key=lambda number: (-similar[number], -number),
        )
        return Legs(words, near, similar)

    def nearest(self, fetch: int) -> dict[int, float] | None:
        """The similarity of the nearest, by id, nearest first; None when meaning does not
        answer."""
        found = self._nearest(index_space(self.space, self.kind), fetch)
        if found is None:
            return None
        vector, hits = found
        similar = self._similar(vector, {hit.id for hit in hits})
        return dict(sorted(similar.items(), key=lambda one: (-one[1], -one[0])))

    def _provided(self, words: list[int], choice: Choice, fetch: int) -> Legs:
        models = self.reader.models
        if models is None:
            return Legs(words, [], None)
        try:
            vector = models.query(choice, self.query)
        except VectorsAway as error:
            return Legs(words, [], None, f"{error}: found by words alone")
        if vector is None:
            return Legs(words, [], None, f"{choice.name} does not cover the script of the query")
        near = provided.nearest(self.reader.view, choice, self.kind, vector, fetch)
        return Legs(words, [number for number, _ in near], dict(near))

    def _nearest(self, place: str, fetch: int) -> tuple[Vector, list[Hit]] | None:
        if self.vector is None or self.reader.vectors is None:
            return None
        vector = self.vector()
        try:
            return vector, self.reader.vectors.search(place, vector, fetch)
        except VectorsAway:
            return None

    def _similar(self, vector: Vector, numbers: Collection[int]) -> dict[int, float]:
        model = self.reader.model
        if model is None or not numbers:
            return {}
        kept = DESCRIBED.meanings(self.reader.view, model.name, self.kind, list(numbers))
        return cosines(vector, kept)


def cosines(one: Vector, others: Mapping[int, Vector]) -> dict[int, float]:
    """Of what is of unit length but for what float16 leaves out. Each is computed by itself, so
    that equal vectors are equally near whatever else there is."""
    if not others:
        return {}
    first = one.astype(np.float32)
    rows = np.stack(list(others.values())).astype(np.float32)
    dots = np.array([first.dot(row) for row in rows])
    squares = np.array([row.dot(row) for row in rows])
    lengths = (np.sqrt(first.dot(first)) * np.sqrt(squares)).astype(np.float64)
    near = np.zeros(len(rows))
    np.divide(dots.astype(np.float64), lengths, out=near, where=lengths > 0)
    return dict(zip(others, np.minimum(1.0, near).tolist(), strict=True))


def search(reader: Reader, space: str, kind: str, query: str) -> Search:
    """Embedding the query begins at once."""
    choice = chosen(reader, space)
    if choice is not None:
        return Search(reader, space, kind, query, None, choice)
    return Search(reader, space, kind, query, reader.embed(query))


def chosen(reader: Reader, space: str) -> Choice | None:
    """The model that a space is configured for; None: the service's own."""
    found = provided.choice(reader.view, space)
    own = None if reader.model is None else reader.model.name
    return None if found is None or found.name in ("", own) else found
