"""What each golden file holds, as values of today.

`NAME.hex` is the record or fact of that name as it was first written, in hex. A file is written
once and never changed: logs with such bytes exist.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mnemolog.events.codec import Fact, encode_call, encode_decision, encode_fact
from mnemolog.events.envelope import Answered, Call, Decision, Embedding, Refusal, Trace, Truncated
from mnemolog.events.graph import (
    EntitiesAccessed,
    EntitiesCoOccurred,
    EntityCreated,
    EntityDeleted,
    EntityDescribed,
    EntitySplit,
    EntityTypeChanged,
    GraphImported,
    ObservationsAdded,
    ObservationsRemoved,
    ReflectionAdded,
    ReflectionEmbedded,
    RelationCreated,
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
    MemoriesRecalled,
    MemoryForgotten,
    MemoryLearned,
    MemoryUpdated,
    SessionEnded,
    SessionStarted,
)
from tests.golden import episodes

FOLDER = Path(__file__).parent
SESSION = "5a0e2b1c-9d3f-8e47-a1b2-c3d4e5f60000"

FACTS: dict[str, Fact] = {
    "robot.memory_learned": MemoryLearned(
        memory_id=42,
        collection="kitchen",
        content="抓取力不得超过 15N, see config/grip.yaml",
        category="constraint",
        tags=["constraint", "root_cause"],
        confidence=0.85,
        kind="perception",
        context='{"task": {"success": true}}',
        scope_files=["config/grip.yaml"],
        session_id=SESSION,
        perception_type="tactile",
        data='{"force": [1.5, 2]}',
        metadata='{"hz": 50}',
        embedding=0,
    ),
    "robot.memory_learned.least": MemoryLearned(
        memory_id=1,
        collection="default",
        content="approach slowly",
        category="code",
        tags=["code"],
        confidence=0.8,
    ),
    "robot.duplicate_found": DuplicateFound(existing_id=15, method="jaccard", similarity=0.78),
    "robot.memory_updated": MemoryUpdated(
        memory_id=1,
        version=2,
        content="grip_force=11.0N optimal (recalibrated)",
        context="{}",
        category="observation",
        tags=["observation", "pattern"],
        confidence=0.95,
        scope_files=["arm.py"],
        session_id=SESSION,
        embedding=0,
    ),
    "robot.memory_updated.least": MemoryUpdated(
        memory_id=1,
        version=300,
        content="approach quickly",
        context="",
        category="code",
        tags=[],
        confidence=0.8,
        scope_files=[],
    ),
    "robot.memory_forgotten": MemoryForgotten(memory_id=3, reason="Sensor calibration error"),
    "robot.memories_recalled": MemoriesRecalled(memory_ids=[3, 1, 70_000, 2**40]),
    "robot.session_started": SessionStarted(
        session_id=SESSION, collection="kitchen", context='{"robot": "UR5e"}'
    ),
    "robot.session_started.least": SessionStarted(session_id=SESSION, collection="default"),
    "robot.session_ended": SessionEnded(session_id=SESSION, outcome_score=0.75),
    "robot.session_ended.least": SessionEnded(session_id=SESSION),
    "robot.memories_decayed.2": MemoriesDecayed(
        collection="default",
        rate=0.01,
        min_days=1.0,
        floor=0.05,
        spared=["constraint", "gotcha", "postmortem"],
    ),
    "robot.memories_consolidated": MemoriesConsolidated(
        session_id=SESSION, kept=5, superseded=[6, 9]
    ),
    "robot.embedded": Embedded(
        memory_id=7,
        version=2,
        content_hash="c0ffee",
        confidence=0.9,
        embedding=1,
        session_id=SESSION,
    ),
    "robot.embedded.least": Embedded(
        memory_id=7, version=1, content_hash="c0ffee", confidence=0.8, embedding=0
    ),
    "graph.entity_created": EntityCreated(
        entity_id=42, name="Sesión 2026-03-31", entity_type="Sesion"
    ),
    "graph.entity_type_changed": EntityTypeChanged(entity_id=42, entity_type="Proyecto"),
    "graph.observations_added": ObservationsAdded(
        entity_id=42, observations=["Stack: Astro 6.x + Starlight 0.38.x", "部署在 Vercel"]
    ),
    "graph.observations_added.flagged": ObservationsAdded(
        entity_id=42, observations=["Vercel", "Astro"], flagged=[0]
    ),
    "graph.entity_split": EntitySplit(
        entity_id=42,
        name="Proyecto cachorritos",
        parts=[SplitPart(43, "Proyecto cachorritos - Arquitectura", 2), SplitPart(70_000, "T", 1)],
        parent_id=42,
    ),
    "graph.observations_removed": ObservationsRemoved(
        entity_id=2**40, observations=["Accent color: teal (#2dd4bf)"]
    ),
    "graph.entity_deleted": EntityDeleted(
        entity_id=42,
        name="CachorroSpace",
        entity_type="Project",
        observations=["Deployed on Vercel at cachorro.space"],
        relations=[RelationKept(7, "CachorroSpace", "Astro", "uses")],
    ),
    "graph.relation_created": RelationCreated(
        relation_id=7, source_id=42, target_id=70_000, relation_type="contiene"
    ),
    "graph.relation_ended": RelationEnded(relation_id=7),
    "graph.relation_deleted": RelationDeleted(
        relation=RelationKept(7, "CachorroSpace", "Astro", "uses")
    ),
    "graph.entities_accessed": EntitiesAccessed(entity_ids=[42, 1]),
    "graph.entities_co_occurred": EntitiesCoOccurred(entity_ids=[42, 1, 70_000]),
    "graph.graph_imported": GraphImported(
        sha256="3385dd26b7f49319c6d59597ec1a556651d3278bf46f066cb247af8dd1dbbcfe",
        source="memoria.jsonl",
        entities=32,
        relations=37,
        errors=1,
        skipped=2,
    ),
    "graph.graph_imported.least": GraphImported(
        sha256="3385dd26b7f49319c6d59597ec1a556651d3278bf46f066cb247af8dd1dbbcfe",
        source="memory.jsonl",
        entities=0,
        relations=70_000,
    ),
    "graph.entity_described": EntityDescribed(
        entity_id=42,
        version=300,
        text="CachorroSpace (Project): 部署在 Vercel",
        model="bge-small-en-v1.5",
        embedding=0,
    ),
    "graph.entity_described.least": EntityDescribed(
        entity_id=42, version=1, text="A (Generic)", model="bge-small-en-v1.5"
    ),
    "graph.reflection_added": ReflectionAdded(
        reflection_id=5,
        target_type="entity",
        target_id=15,
        author="nolan",
        content="This entity shaped the entire project.",
        mood="insight",
    ),
    "graph.reflection_added.least": ReflectionAdded(
        reflection_id=1, target_type="global", author="sofia", content="todo fluye"
    ),
    "graph.reflection_embedded": ReflectionEmbedded(
        reflection_id=5, model="bge-small-en-v1.5", embedding=1
    ),
    "graph.reflection_embedded.least": ReflectionEmbedded(
        reflection_id=5, model="bge-small-en-v1.5"
    ),
    **episodes.FACTS,
}

OLD_FACTS: dict[str, Fact] = {
    "robot.memories_decayed": FACTS["robot.memories_decayed.2"],
}
"""As earlier versions wrote them, and what they are lifted to."""

CALLS: dict[str, Call] = {
    "call.refused": Call(
        id="000641d2c3b4a596f0e1d2c3b4a59687",
        tool="recall",
        arguments=b'{"query": " "}',
        space="default/robot/default",
        received_at_us=1_773_000_000_123_456,
        refused=Refusal("query must not be empty: say what to look for"),
    ),
    "call.refused.code": Call(
        id="c",
        tool="cook",
        arguments=b"{}",
        space="default/",
        received_at_us=0,
        refused=Refusal("Unknown tool 'cook'", -32602),
    ),
    "call": Call(
        id="000641d2c3b4a596f0e1d2c3b4a59687",
        tool="recall",
        arguments='{"query": "红色杯子"}'.encode(),
        space="acme/robot/kitchen",
        received_at_us=1_773_000_000_123_456,
        tenant="acme",
        actor="ana",
        client="arm-controller 2.1",
        idempotency_key="k-1",
        key_id="key-7",
        answered=Answered(ids=[1, 500], mode="hybrid", ms=8.5),
        truncated=Truncated("The arguments are too large", 5_000_000, bytes(range(32))),
    ),
    "call.carried_out": Call(
        id="000641d2c3b4a596f0e1d2c3b4a59687",
        tool="migrate",
        arguments=b'{"source_path":"~/memory.jsonl"}',
        space="default/graph",
        received_at_us=1_773_000_000_123_456,
        answered=Answered(ids=[], ms=41.5, reply=b'{"error":"There is no file"}'),
    ),
    "call.traced": Call(
        id="000641d2c3b4a596f0e1d2c3b4a59687",
        tool="learn",
        arguments=b'{"insight": "cups slip when wet"}',
        space="default/robot/default",
        received_at_us=1_773_000_000_123_456,
        trace=Trace(
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "rojo=00f067,congo=t61rcW"
        ),
    ),
    "call.traced.least": Call(
        id="c",
        tool="learn",
        arguments=b"{}",
        space="default/robot/default",
        received_at_us=0,
        trace=Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"),
    ),
    "call.least": Call(
        id="c", tool="learn", arguments=b"{}", space="default/robot/default", received_at_us=0
    ),
}

DECISIONS: dict[str, Decision] = {
    "decision": Decision(
        call_id="000641d2c3b4a596f0e1d2c3b4a59687",
        call_offset=70_000,
        call_hash=bytes(range(32)),
        previous=bytes(range(32, 64)),
        at_us=1_773_000_000_123_456,
        tool="learn",
        tenant="acme",
        space="acme/robot/kitchen",
        reply=b'{"status":"created","memory_id":42}',
        facts=[
            encode_fact(FACTS["robot.memory_learned"]),
            encode_fact(FACTS["robot.duplicate_found"]),
        ],
        inputs=[Embedding("bge-small-en-v1.5", bytes.fromhex("003c0000"))],
        refused=True,
        code=-32602,
        key="k-1",
        own_key=True,
        fingerprint=bytes(range(16)),
    ),
    "decision.key_space": Decision(
        call_id="c",
        call_offset=1,
        call_hash=bytes(32),
        previous=bytes(32),
        at_us=1_773_000_000_123_456,
        tool="forget",
        tenant="acme",
        space="acme/robot/kitchen",
        reply=b"{}",
        key="k-2",
        fingerprint=bytes(range(16)),
        key_space="acme/robot",
    ),
    "decision.actor": Decision(
        call_id="c",
        call_offset=1,
        call_hash=bytes(32),
        previous=bytes(32),
        at_us=1_773_000_000_123_456,
        tool="learn",
        tenant="acme",
        space="acme/robot/kitchen",
        reply=b"{}",
        facts=[encode_fact(FACTS["robot.memory_learned.least"])],
        actor="作業員 3",
    ),
    "decision.least": Decision(
        call_id="c",
        call_offset=0,
        call_hash=bytes(32),
        previous=bytes(32),
        at_us=0,
        tool="",
        tenant="default",
        space="",
        reply=b"",
    ),
}


def encoded() -> dict[str, bytes]:
    """Every golden value as this program writes it."""
    return (
        {name: encode_call(call) for name, call in CALLS.items()}
        | {name: encode_decision(decision) for name, decision in DECISIONS.items()}
        | {name: bytes(encode_fact(fact)) for name, fact in FACTS.items()}
    )


def golden(name: str) -> bytes:
    """The bytes in `NAME.hex`."""
    path = FOLDER / f"{name}.hex"
    if not path.exists():
        raise AssertionError(
            f"{path.name} is missing; a new record or fact gets its golden file once:\n"
            + as_hex(encoded()[name])
        )
    return bytes.fromhex(path.read_text())


def as_hex(data: bytes) -> str:
    text = data.hex()
    return "".join(f"{text[i : i + 80]}\n" for i in range(0, len(text), 80))


def body(data: bytes) -> Any:
    """What MessagePack itself says is in a record or fact."""
    return msgspec.msgpack.decode(data)
