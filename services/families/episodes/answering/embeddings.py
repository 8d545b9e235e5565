"""test_embeddings: whether the model of a tenant's episodes answers, and how much it has done."""

from __future__ import annotations

from typing import Any

from mnemolog.events.envelope import Call
from mnemolog.events.episodes import TryEmbeddings
from mnemolog.projections.episodes import provided
from mnemolog.projections.ports import VectorsAway
from mnemolog.services.families.episodes.answering.finding import chosen
from mnemolog.services.reader.reader import Read, Reader


def answer_test(reader: Reader, call: Call, args: TryEmbeddings) -> Read:
    choice = chosen(reader, call.space)
    own = None if reader.model is None else reader.model.name
    reply: dict[str, Any] = {
        "success": False,
        "provider": "local" if choice is None else choice.provider,
        "model": own if choice is None else choice.model,
        "dimensions": None if choice is None else choice.dims,
        "latency_ms": None,
        "progress": progress(reader, call.space),
    }
    try:
        if reader.models is None:
            raise VectorsAway("This node has no models to ask")
        tried = reader.models.tried(choice)
    except VectorsAway as error:
        reply["message"] = f"{error}. Searches go on by words"
    else:
        reply |= {"success": True, "dimensions": tried.dims, "latency_ms": tried.ms}
        reply["message"] = "The embedding provider answers"
    return Read(reply, [])


def progress(reader: Reader, space: str) -> dict[str, Any]:
    """How much is embedded, of how much; `reason` is why it does not go on."""
    own = None if reader.model is None else reader.model.name
    found = provided.progress(reader.view, space, own)
    told: dict[str, Any] = {
        "embedded": found.embedded,
        "total": found.total,
        "complete": found.embedded == found.total,
    }
    choice = chosen(reader, space)
    trouble = "" if choice is None or reader.models is None else reader.models.trouble(choice)
    return {**told, "reason": trouble} if trouble else told
