"""Vectors made ahead: what will be decided here is embedded while Kafka takes the call."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import Future

from mnemolog.events.envelope import Trace
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.node.embedding.embedding import Embedding
from mnemolog.services.node.fair import OURS

VECTORS_KEPT = 512


class Ahead:
    """The vectors of the newest texts, for the decider to find."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._vectors: OrderedDict[str, Future[Inputs]] = OrderedDict()

    def start(
        self, texts: Iterable[str], tenant: str = OURS, trace: Trace | None = None
    ) -> list[Future[Inputs]]:
        return [self._vector(text, tenant, trace) for text in texts]

    async def inputs(self, texts: list[str], trace: Trace | None = None) -> Inputs:
        """What deciding a call with these texts needs."""
        if not texts:
            return self._embedding.inputs([])
        given = [await asyncio.wrap_future(one) for one in self.start(texts, trace=trace)]
        vectors = {text: vector for one in given for text, vector in one.vectors.items()}
        if not all(one.vectors for one in given):
            # No model, perhaps not yet: the next time it may be there.
            for text in texts:
                self._vectors.pop(text, None)
        return Inputs(given[0].model, vectors)

    def _vector(self, text: str, tenant: str, trace: Trace | None) -> Future[Inputs]:
        found = self._vectors.get(text)
        if found is None:
            found = self._vectors[text] = self._embedding.start([text], tenant, trace)
            if len(self._vectors) > VECTORS_KEPT:
                self._vectors.popitem(last=False)
        return found
