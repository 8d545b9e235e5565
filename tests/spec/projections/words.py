"""Further facts, and a log in which every fact of every family happens."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mnemolog.events.envelope import Embedding
from mnemolog.events.graph import (
    EntitiesAccessed,
    EntitiesCoOccurred,
    EntityDeleted,
    EntityDescribed,
    EntitySplit,
    EntityTypeChanged,
    GraphImported,
    ObservationsRemoved,
    ReflectionAdded,
    ReflectionEmbedded,
    RelationDeleted,
    RelationEnded,
    RelationKept,
    SplitPart,
)
from mnemolog.events.robot import (
    DuplicateFound,
    Embedded,
    MemoriesConsolidated,
    MemoriesDecayed,
    MemoryUpdated,
)
from mnemolog.projections.language import content_hash
from tests.spec.given import (
    MODEL,
    NORTH,
    S1,
    S2,
    Given,
    at_cosine,
    days,
    ended,
    forgotten,
    happened,
    learned,
    perceived,
    recalled,
    started,
    unit,
)
from tests.spec.given_graph import created, observed, related, stated
from tests.spec.projections.episode_words import EPISODES

EAST = unit(0, 1)


# --- robot ---------------------------------------------------------------------------------------


def updated(
    number: int,
    content: str,
    *,
    version: int = 2,
    context: str = "",
    session: str | None = None,
    vector: bytes | None = None,
    **more: Any,
) -> Given:
    fact = MemoryUpdated(
        memory_id=number,
        version=version,
        content=content,
        context=context,
        category="pattern",
        tags=["pattern"],
        confidence=0.95,
        scope_files=["arm.py"],
        session_id=session,
        embedding=None if vector is None else 0,
    )
    return happened(fact, vector=vector, **more)


def embedded(
    number: int,
    content: str,
    *,
    version: int = 1,
    session: str | None = None,
    confidence: float = 0.8,
    vector: bytes = NORTH,
    **more: Any,
) -> Given:
    fact = Embedded(
        memory_id=number,
        version=version,
        content_hash=content_hash(content),
        confidence=confidence,
        embedding=0,
        session_id=session,
    )
    return happened(fact, vector=vector, **more)


def decayed(*, collection: str = "default", **more: Any) -> Given:
    fact = MemoriesDecayed(
        collection=collection, rate=0.01, min_days=1.0, floor=0.05, spared=["constraint"]
    )
    return happened(fact, collection=collection, **more)


# --- graph ---------------------------------------------------------------------------------------


def described(
    number: int,
    text: str,
    *,
    version: int = 1,
    model: str = MODEL.name,
    vector: bytes | None = NORTH,
    **more: Any,
) -> Given:
    fact = EntityDescribed(
        entity_id=number,
        version=version,
        text=text,
        model=model,
        embedding=None if vector is None else 0,
    )
    return _made_by(model, vector, stated(fact, **more))


def reflected(
    number: int,
    content: str,
    *,
    target: int | None = None,
    author: str = "nolan",
    mood: str | None = None,
    **more: Any,
) -> Given:
    fact = ReflectionAdded(
        reflection_id=number,
        target_type="global" if target is None else "entity",
        target_id=target,
        author=author,
        content=content,
        mood=mood,
    )
    return stated(fact, **more)


def reflection_embedded(
    number: int, *, model: str = MODEL.name, vector: bytes | None = NORTH, **more: Any
) -> Given:
    fact = ReflectionEmbedded(
        reflection_id=number, model=model, embedding=None if vector is None else 0
    )
    return _made_by(model, vector, stated(fact, **more))


def _made_by(model: str, vector: bytes | None, given: Given) -> Given:
    return replace(given, inputs=[] if vector is None else [Embedding(model, vector)])


def unsaid(number: int, *said: str, **more: Any) -> Given:
    return stated(ObservationsRemoved(entity_id=number, observations=list(said)), **more)


def deleted(
    number: int,
    name: str,
    kind: str = "Generic",
    *,
    said: tuple[str, ...] = (),
    relations: tuple[RelationKept, ...] = (),
    **more: Any,
) -> Given:
    fact = EntityDeleted(
        entity_id=number,
        name=name,
        entity_type=kind,
        observations=list(said),
        relations=list(relations),
    )
    return stated(fact, **more)


# --- everything ----------------------------------------------------------------------------------

ROBOT: tuple[Given, ...] = (
    started(S1),
    learned(1, "grip the cup firmly", session=S1, vector=NORTH),
    learned(2, "grip the cup tightly", session=S1, vector=at_cosine(0.9)),
    learned(3, "never lift a wet tray", category="constraint", confidence=0.95),
    happened(DuplicateFound(existing_id=1, method="jaccard", similarity=0.8)),
    perceived(4, "the tray slips when wet", session=S1, vector=EAST),
    learned(5, "open the drawer", collection="kitchen", vector=unit(0, 0, 1)),
    learned(6, "theirs", tenant="rival", vector=NORTH),
    recalled(1, 3, at_us=days(1)),
    embedded(3, "never lift a wet tray", vector=unit(1, 1), at_us=days(1)),
    updated(4, "the tray slips on steel", session=S1, vector=unit(0, 1, 1), at_us=days(2)),
    updated(5, "close the drawer", collection="kitchen", at_us=days(3)),
    forgotten(6, tenant="rival", at_us=days(3)),
    decayed(at_us=days(9)),
    happened(MemoriesConsolidated(session_id=S1, kept=1, superseded=[2]), at_us=days(9)),
    ended(S1, at_us=days(9)),
    started(S2, collection="kitchen", at_us=days(9)),
    recalled(1, at_us=days(10)),
)
"""Every fact of the robot family."""

GRAPH: tuple[Given | tuple[Given, ...], ...] = (
    created(1, "Astro", "Tool"),
    observed(1, "has islands", "is fast", "is quick", flagged=[2]),
    created(2, "Starlight", "Tool"),
    created(3, "Vercel", "Host", at_us=days(1)),
    related(1, 1, "uses", 2, at_us=days(1)),
    related(2, 1, "runs on", 3, at_us=days(1)),
    related(3, 2, "part_of", 1, at_us=days(1)),
    described(1, "Astro (Tool): has islands", version=2, at_us=days(1)),
    described(3, "Vercel (Host)", vector=EAST, at_us=days(1)),
    described(3, "Vercel (Host)", model="other", vector=None, at_us=days(1)),
    stated(EntityTypeChanged(entity_id=2, entity_type="Framework"), at_us=days(2)),
    unsaid(1, "is quick", at_us=days(2)),
    reflected(1, "everything flows", target=1, mood="insight", at_us=days(2)),
    reflected(2, "and comes back", at_us=days(2)),
    reflection_embedded(1, vector=EAST, at_us=days(2)),
    stated(EntitiesAccessed(entity_ids=[1, 2]), at_us=days(3)),
    stated(EntitiesCoOccurred(entity_ids=[1, 2, 3]), at_us=days(3)),
    (
        stated(
            EntitySplit(
                entity_id=1, name="Astro", parts=[SplitPart(4, "Astro - Speed", 1)], parent_id=1
            ),
            at_us=days(4),
        ),
        created(4, "Astro - Speed", "Tool"),
        unsaid(1, "is fast"),
        observed(4, "is fast"),
        related(4, 1, "contiene", 4),
    ),
    stated(RelationEnded(relation_id=2), at_us=days(5)),
    stated(RelationDeleted(relation=RelationKept(1, "Astro", "Starlight", "uses")), at_us=days(5)),
    created(5, "Astro", "Task", tenant="rival", at_us=days(5)),
    deleted(
        3,
        "Vercel",
        "Host",
        relations=(RelationKept(2, "Astro", "Vercel", "runs on"),),
        at_us=days(6),
    ),
    described(4, "Astro - Speed (Tool): is fast", version=2, vector=unit(1, 1), at_us=days(6)),
    stated(
        GraphImported(sha256="3385dd26", source="memory.jsonl", entities=2, relations=1),
        at_us=days(7),
    ),
)
"""Every fact of the knowledge graph, a split in one decision among them."""

EVERYTHING: tuple[Given | tuple[Given, ...], ...] = tuple(
    part[place]
    for place in range(max(len(ROBOT), len(GRAPH), len(EPISODES)))
    for part in (ROBOT, GRAPH, EPISODES)
    if place < len(part)
)
"""Every fact of every family, one of each in turn."""
