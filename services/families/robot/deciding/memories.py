"""Deciding on single memories: learn, save_perception, forget, update."""

from __future__ import annotations

from typing import Any

import msgspec

from mnemolog.events.arguments import Refused, check_size, json_object
from mnemolog.events.robot import (
    MAX_CONTEXT_BYTES,
    MAX_DATA_BYTES,
    DuplicateFound,
    Forget,
    JsonObject,
    Learn,
    MemoryForgotten,
    MemoryLearned,
    MemoryUpdated,
    SavePerception,
    Update,
)
from mnemolog.projections.robot import state
from mnemolog.services.decider.tool import Decided
from mnemolog.services.families.robot.deciding.classify import classify
from mnemolog.services.families.robot.deciding.infer import confidence, scope_files, trim
from mnemolog.services.families.robot.rules import Context

PERCEPTION_CATEGORY = "observation"
PERCEPTION_CONFIDENCE = 0.9
MIN_DESCRIPTION = 5


def learn_texts(args: Learn) -> list[str]:
    return [trim(args.insight)[0]]


def perception_texts(args: SavePerception) -> list[str]:
    return [args.description.strip()]


def update_texts(args: Update) -> list[str]:
    return [trim(args.new_content)[0]]


def decide_learn(ctx: Context, args: Learn) -> Decided:
    content, trimmed = trim(args.insight)
    if not content:
        raise Refused("insight must not be empty: say in 1 to 300 characters what was learned")
    context = json_text("context", args.context) or ""
    space = ctx.call.space
    session = check_session(ctx, args.session_id, space, args.collection)
    twin = find_twin(ctx, space, content)
    if twin is not None:
        return Decided(space, [twin], {"status": "duplicate", **_as_reply(twin)})
    inferred = classify(content)
    number = ctx.state.peek_id(state.COUNTER)
    fact = MemoryLearned(
        memory_id=number,
        collection=args.collection,
        content=content,
        context=context,
        category=inferred.category,
        tags=list(inferred.tags),
        confidence=confidence(content, context),
        scope_files=scope_files(content, context),
        session_id=session,
        embedding=ctx.embeddings.get(content),
    )
    reply: dict[str, Any] = {
        "status": "created",
        "memory_id": number,
        "auto_inferred": {
            "category": fact.category,
            "confidence": fact.confidence,
            "tags": fact.tags,
            "scope_files": fact.scope_files,
        },
    }
    if trimmed:
        reply["trimmed"] = True
    return Decided(space, [fact], reply)


def decide_save_perception(ctx: Context, args: SavePerception) -> Decided:
    description = args.description.strip()
    if len(description) < MIN_DESCRIPTION:
        raise Refused(
            f"description must be text of at least {MIN_DESCRIPTION} characters that says what was "
            f"perceived, not {description!r}"
        )
    space = ctx.call.space
    data = json_text("data", args.data, MAX_DATA_BYTES)
    metadata = json_text("metadata", args.metadata)
    session = check_session(ctx, args.session_id, space, args.collection)
    number = ctx.state.peek_id(state.COUNTER)
    embedding = ctx.embeddings.get(description)
    fact = MemoryLearned(
        memory_id=number,
        collection=args.collection,
        content=description,
        category=PERCEPTION_CATEGORY,
        tags=[PERCEPTION_CATEGORY],
        confidence=PERCEPTION_CONFIDENCE,
        kind="perception",
        perception_type=args.perception_type,
        data=data,
        metadata=metadata,
        session_id=session,
        embedding=embedding,
    )
    return Decided(
        space,
        [fact],
        {
            "memory_id": number,
            "perception_type": args.perception_type,
            "collection": args.collection,
            "has_embedding": embedding is not None,
        },
    )


def decide_forget(ctx: Context, args: Forget) -> Decided:
    reason = args.reason.strip()
    if not reason:
        raise Refused("reason must not be empty: say why the memory is wrong")
    memory = active_memory(ctx, args.memory_id)
    return Decided(
        memory.space,
        [MemoryForgotten(memory_id=memory.id, reason=reason)],
        {
            "status": "forgotten",
            "memory_id": memory.id,
            "content": memory.content,
            "reason": reason,
        },
    )


def decide_update(ctx: Context, args: Update) -> Decided:
    content, trimmed = trim(args.new_content)
    if not content:
        raise Refused("new_content must not be empty: say in 1 to 300 characters what is right")
    context = json_text("context", args.context)
    memory = active_memory(ctx, args.memory_id)
    context = memory.context if context is None else context
    perception = memory.kind == "perception"
    inferred = classify(content)
    fact = MemoryUpdated(
        memory_id=memory.id,
        version=memory.version + 1,
        content=content,
        context=context,
        category=PERCEPTION_CATEGORY if perception else inferred.category,
        tags=[PERCEPTION_CATEGORY] if perception else list(inferred.tags),
        confidence=PERCEPTION_CONFIDENCE if perception else confidence(content, context),
        scope_files=[] if perception else scope_files(content, context),
        session_id=memory.session,
        embedding=ctx.embeddings.get(content),
    )
    reply: dict[str, Any] = {
        "status": "updated",
        "memory_id": memory.id,
        "old_content": memory.content,
        "new_content": content,
        "auto_inferred": {
            "category": fact.category,
            "confidence": fact.confidence,
            "tags": fact.tags,
            "scope_files": fact.scope_files,
        },
    }
    if trimmed:
        reply["trimmed"] = True
    twin = None if perception else find_twin(ctx, memory.space, content, but=memory.id)
    if twin is not None:
        reply["similar_to"] = _as_reply(twin)
    return Decided(memory.space, [fact], reply)


def find_twin(ctx: Context, space: str, content: str, *, but: int = 0) -> DuplicateFound | None:
    """The memory of `space` that already says `content`, by the first layer that finds one."""
    place = ctx.state.space_id(space)
    if place is None:
        return None
    guarded = ctx.rules.dedup_guard
    same = state.same_text(ctx.state, place, content, guarded=guarded, but=but)
    if same is not None:
        return DuplicateFound(existing_id=same, method="exact", similarity=1.0)
    words = state.alike_by_words(
        ctx.state, place, content, ctx.rules.dedup_jaccard, guarded=guarded, but=but
    )
    if words is not None:
        return DuplicateFound(existing_id=words[0], method="jaccard", similarity=round(words[1], 4))
    embedding = ctx.embedding(content)
    if embedding is None or ctx.model is None:
        return None
    threshold = ctx.model.dedup_cosine
    meaning = state.alike_by_meaning(
        ctx.state, place, content, embedding, threshold, guarded=guarded, but=but
    )
    if meaning is None:
        return None
    return DuplicateFound(existing_id=meaning[0], method="cosine", similarity=round(meaning[1], 4))


def active_memory(ctx: Context, number: int) -> state.Memory:
    """The memory, or a refusal that says what became of it."""
    memory = state.memory(ctx.state, number)
    if memory is None or not memory.space.startswith(f"{ctx.call.tenant}/robot/"):
        raise Refused(f"Memory {number} does not exist")
    if memory.status == "invalidated":
        raise Refused(f"Memory {number} was already forgotten: {memory.forgotten_because}")
    if memory.status == "superseded":
        raise Refused(f"Memory {number} was merged into memory {memory.superseded_by}")
    return memory


def check_session(ctx: Context, session_id: str | None, space: str, collection: str) -> str | None:
    """A memory can only be linked to a running session of its own collection. An empty id is
    none, as some clients send it."""
    if not session_id:
        return None
    found = state.session(ctx.state, session_id)
    if found is None or not found.space.startswith(f"{ctx.call.tenant}/robot/"):
        raise Refused(
            f"Session {session_id[:64]!r} does not exist in collection {collection!r}; "
            "start_session makes one"
        )
    if found.space != space:
        other = state.collection_of(found.space)
        raise Refused(f"Session {session_id} belongs to collection {other!r}, not {collection!r}")
    if found.ended:
        raise Refused(f"Session {session_id} has ended; start_session makes a new one")
    return session_id


def json_text(name: str, value: JsonObject | None, most: int = MAX_CONTEXT_BYTES) -> str | None:
    """A JSON-valued argument as text, as it came; None when it was left out or empty. `Refused`
    when it is larger than `most`."""
    parsed = json_object(name, value)
    if parsed is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(parsed).decode()
    check_size(name, text, most)
    return text


def _as_reply(twin: DuplicateFound) -> dict[str, Any]:
    return {
        "method": twin.method,
        "existing_id": twin.existing_id,
        "similarity": twin.similarity,
    }
