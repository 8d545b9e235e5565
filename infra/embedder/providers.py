"""Embeddings from elsewhere: OpenAI, Mistral, Azure and Cohere, or what speaks as they do.

Where requests may go, and which keys with them, is not for clients to say: `Where` holds the rule
(`SECURITY.md`), and it is applied to every request anew. Every request is bounded in time and size,
whatever the other side does. A key is read from the environment when it is sent; it is in no
sentence, and neither is anything that the other side says.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Any

import httpx
import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemolog.events.trace import headers as trace_headers
from mnemolog.infra.embedder.where import Place, Target, Where, WrongTarget

MAX_DIMS = 8192
MAX_ANSWER_BYTES = 32 * 1024 * 1024
FLOAT_BYTES = 26
"""A number of a vector takes at most about so many bytes as JSON."""
MOST_TEXTS = {"cohere": 96}
"""The provider takes no more of them at once."""
MAX_RETRY_AFTER_S = 120.0
_UNFIT = (400, 413, 422)
AZURE_VERSION = "2024-02-01"

Vectors = list[NDArray[np.float16]]


class ProviderAway(Exception):
    """There are no vectors now; the sentence says why. `after_s` is how long the provider asks to
    be left alone; `unfit`: it does not want these texts, and may want others."""

    def __init__(self, sentence: str, after_s: float = 0.0, *, unfit: bool = False) -> None:
        super().__init__(sentence)
        self.after_s = after_s
        self.unfit = unfit


class _One(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Listed(msgspec.Struct):
    """As OpenAI, Mistral and Azure answer."""

    data: list[_One]

    def vectors(self) -> list[list[float]]:
        placed = [i if one.index is None else one.index for i, one in enumerate(self.data)]
        if sorted(placed) != list(range(len(placed))):
            raise ValueError("the indexes are no permutation")
        found = sorted(zip(placed, self.data, strict=True), key=lambda pair: pair[0])
        return [one.embedding for _, one in found]


class _Floats(msgspec.Struct):
    floats: list[list[float]] = msgspec.field(name="float")


class _Typed(msgspec.Struct):
    """As Cohere answers."""

    embeddings: _Floats

    def vectors(self) -> list[list[float]]:
        return self.embeddings.floats


def at_once(provider: str, dims: int, wanted: int) -> int:
    """How many texts one request may have, `wanted` at most: their vectors have to fit."""
    fit = MAX_ANSWER_BYTES // (FLOAT_BYTES * max(1, dims))
    return max(1, min(wanted, fit, MOST_TEXTS.get(provider, wanted)))


class Providers:
    """All methods may be called from several threads. Requests run on one thread's event loop, so
    that each can be given up at its time, whatever it is waiting for."""

    def __init__(self, where: Where) -> None:
        self.where = where
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._clients: dict[bool, httpx.AsyncClient] = {}
        self._closed = False

    def embed(
        self,
        target: Target,
        texts: Sequence[str],
        *,
        query: bool = False,
        dims: int | None = None,
        within_s: float,
    ) -> Vectors:
        """The vectors of `texts`, unit length and rounded to float16, `dims` long if that is
        given. `ProviderAway` when there are none within so many seconds."""
        try:
            place = self.where.place(target)
        except WrongTarget as error:
            raise ProviderAway(str(error)) from None
        named = f"The embedding provider at {place.shown}"
        path, body = _request(target, list(texts), query)
        asking = self._post(place, path, body, within_s, named, trace_headers())
        data = self._run(asking, within_s, named)
        try:
            return _vectors(target.provider, data, len(texts), dims)
        except (msgspec.MsgspecError, ValueError, OverflowError) as error:
            why = error if isinstance(error, _Wrong) else "it is not what its API promises"
            raise ProviderAway(f"{named} gave an answer that cannot be used: {why}") from None

    def close(self) -> None:
        """Whoever waits is told that it is over."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.stop)
            thread.join()

    # --- asking ----------------------------------------------------------------------------------

    def _run(self, asking: Coroutine[Any, Any, bytes], within_s: float, named: str) -> bytes:
        with self._lock:
            if self._closed:
                asking.close()
                raise ProviderAway("The service is ending")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="providers", daemon=True
                )
                self._thread.start()
            asked = asyncio.run_coroutine_threadsafe(asking, self._loop)
        try:
            return asked.result()
        except CancelledError:
            raise ProviderAway("The service is ending") from None
        except TimeoutError:
            raise ProviderAway(f"{named} did not answer within {within_s:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            kind = type(error).__name__
            raise ProviderAway(f"{named} cannot be reached ({kind})") from None

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Until `close`; then whatever is under way is given up."""
        asyncio.set_event_loop(loop)
        loop.run_forever()
        under_way = asyncio.all_tasks(loop)
        for task in under_way:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*under_way, return_exceptions=True))
        for client in self._clients.values():
            loop.run_until_complete(client.aclose())
        loop.close()

    async def _post(
        self,
        place: Place,
        path: str,
        body: bytes,
        within_s: float,
        named: str,
        traced: dict[str, str],
    ) -> bytes:
        url = place.url + path
        headers = {"content-type": "application/json", "accept-encoding": "identity", **traced}
        if place.key is not None:
            azure = place.provider == "azure"
            headers |= {"api-key": place.key} if azure else {"authorization": f"Bearer {place.key}"}
        client = self._client(place.local)
        async with (
            asyncio.timeout(within_s),
            client.stream("POST", url, content=body, headers=headers, timeout=None) as answer,
        ):
            if answer.status_code != 200:
                raise _refused(named, place, answer)
            data = bytearray()
            async for chunk in answer.aiter_raw():
                data += chunk
                if len(data) > MAX_ANSWER_BYTES:
                    raise ProviderAway(f"{named} answers more than {MAX_ANSWER_BYTES:,} bytes")
            return bytes(data)

    def _client(self, local: bool) -> httpx.AsyncClient:
        """What is on this machine is not asked for through a proxy. Nobody is sent elsewhere."""
        found = self._clients.get(local)
        if found is None:
            found = httpx.AsyncClient(trust_env=not local, follow_redirects=False)
            self._clients[local] = found
        return found


# --- what is said ---------------------------------------------------------------------------------


def _request(target: Target, texts: list[str], query: bool) -> tuple[str, bytes]:
    """Path and body."""
    if target.provider == "cohere":
        body = {
            "model": target.model,
            "texts": texts,
            "input_type": "search_query" if query else "search_document",
            "embedding_types": ["float"],
            "truncate": "END",
        }
        return "/v2/embed", msgspec.json.encode(body)
    body = {"model": target.model, "input": texts}
    if target.provider == "azure":
        path = f"/openai/deployments/{target.quoted_model}/embeddings?api-version={AZURE_VERSION}"
        return path, msgspec.json.encode(body)
    return "/embeddings", msgspec.json.encode(body)


class _Wrong(ValueError):
    """Says what is wrong, in words of ours."""


def _vectors(provider: str, data: bytes, count: int, dims: int | None) -> Vectors:
    kind: type[_Typed] | type[_Listed] = _Typed if provider == "cohere" else _Listed
    found = msgspec.json.decode(data, type=kind).vectors()
    if len(found) != count:
        raise _Wrong(f"{len(found)} vectors for {count} texts")
    lengths = sorted({len(one) for one in found})
    if len(lengths) != 1 or not 0 < lengths[0] <= MAX_DIMS:
        raise _Wrong(f"vectors of {', '.join(map(str, lengths[:5]))} dimensions")
    if dims is not None and lengths[0] != dims:
        raise _Wrong(f"vectors of {lengths[0]} dimensions, where its model has {dims}")
    matrix = np.array(found, dtype=np.float64)
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or not (norms > 0).all():
        raise _Wrong("a vector without a direction")
    return list((matrix / norms).astype(np.float16))


def _refused(named: str, place: Place, answer: httpx.Response) -> ProviderAway:
    status = answer.status_code
    if status in (401, 403):
        whose = f"the key in {place.variable}" if place.variable else "a request without a key"
        return ProviderAway(f"{named} does not accept {whose} ({status})")
    if status == 429:
        return ProviderAway(f"{named} asks to be left alone for now (429)", _after_s(answer))
    if status >= 500:
        return ProviderAway(f"{named} has trouble of its own ({status})", _after_s(answer))
    if 300 <= status < 400:
        return ProviderAway(f"{named} sends elsewhere ({status}), where nobody goes")
    sentence = f"{named} refuses the request ({status}): are model and base_url right?"
    return ProviderAway(sentence, unfit=status in _UNFIT)


def _after_s(answer: httpx.Response) -> float:
    """What the provider asks for, in seconds or as a date; bounded."""
    told = answer.headers.get("retry-after", "").strip()
    try:
        after_s = float(told)
    except ValueError:
        try:
            after_s = email.utils.parsedate_to_datetime(told).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return 0.0
    return min(max(after_s, 0.0), MAX_RETRY_AFTER_S) if after_s == after_s else 0.0
