"""The models that spaces are configured for: local ones, and those of providers elsewhere."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mnemolog.infra.embedder.catalogue import CATALOGUE, covers
from mnemolog.infra.embedder.lazy import BackgroundEmbedder
from mnemolog.infra.embedder.store import models_dir
from mnemolog.infra.settings import Settings
from mnemolog.projections.ports import Choice, Vector, VectorsAway
from mnemolog.projections.vectors.breaker import Breaker
from mnemolog.services.reader.reader import NotAllowed, Tried

if TYPE_CHECKING:
    from mnemolog.infra.embedder.onnx import OnnxEmbedder
    from mnemolog.infra.embedder.providers import Providers
    from mnemolog.infra.embedder.where import Target
    from mnemolog.services.node.embedding.embedding import Embedding

LOCAL = "local"
QUERY_S = 3.0
"""How long a search waits for the vector of its query; then it goes on by words."""
TRY_S = 10.0
BATCH_S = 60.0
MAX_TEXT = 4000
"""So many characters of a text are sent: what every provider's models take, in any script."""
QUERIES_KEPT = 512
MAX_BREAKERS = 1000
SAMPLE = "Whether the model answers"


class Left(VectorsAway):
    """Nothing was embedded. `after_s`: the provider asks to be left alone for so long; `unfit`: it
    does not want these texts."""

    def __init__(self, sentence: str, after_s: float = 0.0, *, unfit: bool = False) -> None:
        super().__init__(sentence)
        self.after_s = after_s
        self.unfit = unfit


class ChosenModels:
    """All methods may be called from several threads."""

    def __init__(self, settings: Settings, own: Embedding) -> None:
        self._own = own
        self._hosts = settings.embedding_places
        self._directory: Path = models_dir(settings.models or None)
        self._wait_s = settings.model_wait_s
        self._lock = threading.Lock()
        self._providers: Providers | None = None
        self._locals: dict[str, BackgroundEmbedder] = {}
        self._queries: OrderedDict[tuple[str, ...], Vector | None] = OrderedDict()
        self._breakers: dict[tuple[str, ...], Breaker] = {}
        self._troubles: dict[str, str] = {}
        self._closed = False

    # --- choosing and trying ---------------------------------------------------------------------

    def chosen(
        self,
        space: str,
        provider: str,
        model: str | None,
        api_key_env: str | None,
        base_url: str | None,
    ) -> tuple[Choice, Tried]:
        if provider == LOCAL:
            for field, given in (("api_key_env", api_key_env), ("base_url", base_url)):
                if given is not None:
                    raise NotAllowed(field, "is of no use to a local model: leave it out")
            if model is not None and model not in CATALOGUE:
                raise NotAllowed("model", f"can be {', '.join(CATALOGUE)} for provider local")
            name = model or ""
            choice = Choice(space, name, LOCAL, name, "", "", 0, None, 0)
            if not name and self._own.model is None:
                return choice, Tried(0, 0.0)
        else:
            target = self._target(provider, model, api_key_env, base_url)
            name = _name(target)
            choice = Choice(
                space, name, provider, target.model, target.api_key_env, target.base_url, 0, None, 0
            )
        tried = self.tried(choice)
        return choice, tried

    def tried(self, choice: Choice | None) -> Tried:
        started_s = time.perf_counter()
        vectors = self.passages(choice, [SAMPLE], TRY_S)
        ms = round((time.perf_counter() - started_s) * 1000, 1)
        assert vectors[0] is not None, "every model covers English"
        return Tried(len(vectors[0]), ms)

    # --- vectors ---------------------------------------------------------------------------------

    def query(self, choice: Choice, text: str) -> Vector | None:
        """Asked once for each text, as long as it is remembered."""
        key = (*_key(choice), str(choice.dims), text)
        with self._lock:
            if key in self._queries:
                self._queries.move_to_end(key)
                return self._queries[key]
        if choice.provider == LOCAL:
            found = self._local_query(choice.model, text)
        else:
            found = self._breaker(choice).ask(
                lambda: self._asked(choice, [text], QUERY_S, query=True)[0]
            )
        with self._lock:
            self._queries[key] = found
            while len(self._queries) > QUERIES_KEPT:
                self._queries.popitem(last=False)
        return found

    def passages(
        self, choice: Choice | None, texts: Sequence[str], within_s: float
    ) -> list[Vector | None]:
        """The vectors of stored texts, None for one that the model does not cover."""
        if choice is None or choice.provider == LOCAL:
            embedder = self._local(choice.model if choice is not None else "")
            model = embedder.model
            return [embedder.embed_passage(one) if covers(model, one) else None for one in texts]
        return list(self._asked(choice, texts, within_s, query=False))

    def at_once(self, choice: Choice) -> int:
        if choice.provider == LOCAL:
            return min(choice.batch_size, 16)
        from mnemolog.infra.embedder.providers import at_once

        return at_once(choice.provider, choice.dims, choice.batch_size)

    def trouble(self, choice: Choice) -> str:
        return self._troubles.get(choice.space, "")

    def met(self, choice: Choice, trouble: str) -> None:
        """What came of embedding in the background."""
        if trouble:
            self._troubles[choice.space] = trouble
        else:
            self._troubles.pop(choice.space, None)

    def close(self) -> None:
        """Whoever waits for a provider is told that it is over."""
        with self._lock:
            self._closed = True
            providers = self._providers
        if providers is not None:
            providers.close()
        for one in self._locals.values():
            one.wait(self._wait_s)  # The runtime aborts a process that ends while one is loaded.

    # --- elsewhere -------------------------------------------------------------------------------

    def _target(
        self, provider: str, model: str | None, api_key_env: str | None, base_url: str | None
    ) -> Target:
        from mnemolog.infra.embedder.where import WrongTarget

        try:
            return self._there().where.target(provider, model, api_key_env, base_url)
        except WrongTarget as error:
            raise NotAllowed(error.field, error.issue) from None

    def _asked(
        self, choice: Choice, texts: Sequence[str], within_s: float, *, query: bool
    ) -> list[Vector]:
        from mnemolog.infra.embedder.providers import ProviderAway
        from mnemolog.infra.embedder.where import Target

        target = Target(choice.provider, choice.model, choice.api_key_env, choice.base_url)
        cut = [text[:MAX_TEXT] for text in texts]
        try:
            return self._there().embed(
                target, cut, query=query, dims=choice.dims or None, within_s=within_s
            )
        except ProviderAway as error:
            raise Left(str(error), error.after_s, unfit=error.unfit) from None

    def _there(self) -> Providers:
        # Loaded with the first provider that is asked: most services never ask one.
        from mnemolog.infra.embedder.providers import Providers
        from mnemolog.infra.embedder.where import Where

        with self._lock:
            if self._closed:
                raise Left("The service is ending")
            if self._providers is None:
                self._providers = Providers(Where(self._hosts))
            return self._providers

    def _breaker(self, choice: Choice) -> Breaker:
        with self._lock:
            if len(self._breakers) > MAX_BREAKERS:
                self._breakers.clear()
            return self._breakers.setdefault(_key(choice), Breaker())

    # --- on this machine -------------------------------------------------------------------------

    def _local_query(self, name: str, text: str) -> Vector | None:
        embedder = self._local(name)
        return embedder.embed_query(text) if covers(embedder.model, text) else None

    def _local(self, name: str) -> OnnxEmbedder:
        """The model of that name, loaded; empty: the service's own."""
        own = self._own.model
        if own is None and not name:
            raise Left("The service runs without a model of its own")
        if own is not None and name in ("", own.name):
            loading = self._own.embedder
        else:
            with self._lock:
                if name not in self._locals:
                    self._locals[name] = BackgroundEmbedder(CATALOGUE[name], self._directory)
                loading = self._locals[name]
        loading.poll()
        found = loading.wait(self._wait_s)
        if found is None:
            raise Left(loading.reason or f"The embedding model {name} is still being loaded")
        return found


def _key(choice: Choice) -> tuple[str, ...]:
    return (choice.name, choice.provider, choice.base_url, choice.api_key_env)


def _name(target: Target) -> str:
    """What tells the vectors of a model from those of others: one of the same name elsewhere may be
    another."""
    name = f"{target.provider}:{target.model}"
    if not target.base_url:
        return name
    return f"{name}@{hashlib.sha256(target.base_url.encode()).hexdigest()[:8]}"
