"""The words of `given` for searching by meaning: a graph with its search indexes.

    found = meant.after(create(entity("Astro"))) \\
                 .described(Astro=NORTH) \\
                 .found(semantic("web", at=NORTH))

The indexes are the real ones, fed with each decision as a node feeds them. Vectors are given by an
entity's name or a reflection's text, so that a distance is what the specification says it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

from mnemolog.projections.graph import meaning
from mnemolog.projections.ports import Vector
from mnemolog.projections.text.index import TantivyText
from mnemolog.projections.vectors.edge import EdgeVectors
from mnemolog.services.counted import Counted
from mnemolog.services.decider.tool import Asked
from mnemolog.services.families.graph.describing import describe as describing
from mnemolog.services.node.following.follow import feed_text, feed_vectors
from mnemolog.services.reader.reader import Reader
from tests.spec.given import DIMS, MODEL, Ask, ask
from tests.spec.given_graph import Graph, Reply, describe


def semantic(query: str, **more: Any) -> Ask:
    return ask("search_semantic", query=query, **more)


def reflections(query: str, **more: Any) -> Ask:
    return ask("search_reflections", query=query, **more)


def words(text: str) -> int:
    """A tokenizer to whom each word is a token, and which puts a mark at each end."""
    return len(text.split()) + 2


class Meant(Graph):
    """A graph with text and vector index. `queries` are the vectors of what is searched for; a
    query without one is in a script that the model does not cover."""

    def __init__(self, directory: Path, *, has_model: bool = True) -> None:
        super().__init__()
        self.directory = directory
        self.text = TantivyText(directory / "text")
        self.vectors = EdgeVectors(directory / "vectors", DIMS, MODEL.name)
        self.queries: dict[str, bytes] = {}
        self.has_model = has_model

    def close(self) -> None:
        self.text.close()
        self.vectors.close()

    @contextmanager
    def vectors_lag(self) -> Iterator[None]:
        """What is described within does not reach the vector index."""
        lags = self.vectors
        self.vectors = EdgeVectors(self.directory / "aside", DIMS, MODEL.name)
        yield
        self.vectors.close()
        self.vectors = lags

    def when_bytes(self, data: bytes, vectors: Any = None) -> Self:
        offset = self.state.next_offset
        super().when_bytes(data, vectors)
        assert self.decision is not None
        counted = Counted(offset, self.decision, self.decode(self.decision))
        projected = self.catalogue.projected
        feed_text(self.text, projected, 0, counted)
        feed_vectors(self.vectors, projected, MODEL.name, 0, counted)
        return self

    def described(self, **vectors: bytes) -> Meant:
        """All that waits is described: with the vector that its name or text has here, or, having
        none, as something that the model does not cover."""
        return self.described_of("default", vectors)

    def described_of(self, tenant: str, vectors: Mapping[str, bytes]) -> Meant:
        view = self.state.view
        found = meaning.DESCRIBED.waiting(view, MODEL.name, 10_000)
        found = [one for one in found if one.space == f"{tenant}/graph"]
        made = describing.descriptions(view, found, words, lambda _: True)
        rows, given = [], {}
        for one in made:
            name = one.text.split(" (")[0] if one.kind == "entity" else one.text
            vector = vectors.get(name.replace(" ", "_"))
            rows.append(msgspec.to_builtins(one) | {"covered": vector is not None})
            if vector is not None:
                given[one.text] = vector
        self.when(describe(*rows, space=f"{tenant}/graph", tenant=tenant, vectors=given))
        self.then_taken()
        return self

    def asking(self, **vectors: bytes) -> Meant:
        self.queries |= vectors
        return self

    def rows(self, asked: Ask) -> list[Reply]:
        found: list[Reply] = self.told(asked)["results"]
        return found

    def found(self, asked: Ask) -> list[str]:
        """Names of the entities, or texts of the reflections, that a search finds, best first."""
        return [one.get("name") or one["content"] for one in self.rows(asked)]

    def _reader(self, read: Asked) -> Reader:
        if read.tool is None or not read.tool.awaits:
            return super()._reader(read)
        pending = meaning.DESCRIBED.count(
            self.state.view, MODEL.name, read.call.space, read.tool.awaits
        )
        return Reader(
            self.state.reader(),
            self.text,
            self.vectors,
            self._embed,
            model=self.model,
            loaded=lambda: MODEL.name if self.has_model else None,
            pending=pending,
        )

    def _embed(self, query: str) -> Callable[[], Vector] | None:
        vector = self.queries.get(query) if self.has_model else None
        if vector is None:
            return None
        return lambda: np.frombuffer(vector, dtype=np.float16)
