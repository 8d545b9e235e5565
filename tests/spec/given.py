"""Given facts, when a call, then facts: the words the specifications are written in.

    robot.given(learned(1, "grip at 15N"), forgotten(1)) \\
         .when(forget(1, "again")) \\
         .then_refused("Memory 1 was already forgotten: …")

What is given becomes decisions that carry those facts, what is asked goes through the real
deciding over a real state in memory, and what was decided is carried out, so that a
specification can ask again. Time is always passed in; vectors are given per text, so a cosine is
what the specification says it is. A sentence that ends in `…` stands for any that begins so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import msgspec
import numpy as np

from mnemolog.events.arguments import Refused
from mnemolog.events.chain import Head
from mnemolog.events.codec import Fact, encode_call, encode_decision, encode_fact
from mnemolog.events.envelope import Answered, Call, Decision, Embedding, Refusal, sha256
from mnemolog.events.ids import partition_of_space, session_id
from mnemolog.events.robot import (
    MemoriesConsolidated,
    MemoriesRecalled,
    MemoryForgotten,
    MemoryLearned,
    SessionEnded,
    SessionStarted,
)
from mnemolog.projections.robot import state
from mnemolog.projections.robot.state import robot_space
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.catalogue import Catalogue
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.decider.partition import PartitionDecider
from mnemolog.services.decider.tool import Asked
from mnemolog.services.reader.reader import Reader, VectorModel
from tests.families import CATALOGUE, deciding

DAY_US = 86_400_000_000
NOW_US = 20_000 * DAY_US
"""The time of everything that does not say another."""

MODEL = VectorModel("spec-model", 0.875)
DIMS = 8


def days(number: float) -> int:
    """The moment that many days after `NOW_US`, in microseconds."""
    return NOW_US + round(number * DAY_US)


# --- vectors -------------------------------------------------------------------------------------


def unit(*values: float) -> bytes:
    """A vector in the log's form: float16, of unit length, padded with zeros."""
    vector = np.zeros(DIMS)
    vector[: len(values)] = values
    return (vector / np.linalg.norm(vector)).astype(np.float16).tobytes()


NORTH = unit(1.0)
"""What the other vectors are measured from."""

AT_0_875 = unit(0.875, 0.375, 0.25, 0.125, 0.125)
"""Lies at a cosine of exactly 0.875 from `NORTH`: float16 holds each of its parts exactly."""


def at_cosine(cosine: float, axis: int = 1) -> bytes:
    """A vector that lies at about this cosine from `NORTH`, leaning towards `axis`."""
    values = [0.0] * DIMS
    values[0], values[axis] = cosine, float(np.sqrt(1.0 - cosine * cosine))
    return unit(*values)


# --- what is given -------------------------------------------------------------------------------


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that has happened, when, and in whose space. As `msgspec.Raw` it is what an earlier
    version wrote."""

    fact: Fact | msgspec.Raw
    at_us: int
    tenant: str
    space: str
    inputs: list[Embedding]
    actor: str = ""


def happened(
    fact: Fact | msgspec.Raw,
    *,
    at_us: int = NOW_US,
    tenant: str = "default",
    collection: str = "default",
    space: str | None = None,
    vector: bytes | None = None,
) -> Given:
    """In a robot's collection, unless a space is named."""
    inputs = [] if vector is None else [Embedding(MODEL.name, vector)]
    place = robot_space(tenant, collection) if space is None else space
    return Given(fact=fact, at_us=at_us, tenant=tenant, space=place, inputs=inputs)


def decision_of(head: Head, one: Given, *more: Given) -> Decision:
    """What is given, as the decision that comes after `head`; `more` happened with it, at once."""
    facts = [given.fact for given in (one, *more)]
    return Decision(
        call_id=f"given-{head.next_call}",
        call_offset=head.next_call,
        call_hash=sha256(b"given"),
        previous=head.hash,
        at_us=max(one.at_us, head.at_us),
        tool="given",
        tenant=one.tenant,
        space=one.space,
        reply=b"{}",
        facts=[fact if isinstance(fact, msgspec.Raw) else encode_fact(fact) for fact in facts],
        inputs=one.inputs,
        actor=one.actor,
    )


def learned(
    memory_id: int,
    content: str,
    *,
    category: str = "code",
    confidence: float = 0.8,
    session: str | None = None,
    context: str = "",
    kind: str = "fact",
    at_us: int = NOW_US,
    tenant: str = "default",
    collection: str = "default",
    vector: bytes | None = None,
) -> Given:
    fact = MemoryLearned(
        memory_id=memory_id,
        collection=collection,
        content=content,
        category=category,
        tags=[category],
        confidence=confidence,
        session_id=session,
        context=context,
        kind=kind,
        perception_type="visual" if kind == "perception" else None,
        embedding=None if vector is None else 0,
    )
    return happened(fact, at_us=at_us, tenant=tenant, collection=collection, vector=vector)


def perceived(memory_id: int, description: str, **more: Any) -> Given:
    more = {"category": "observation", "confidence": 0.9, "kind": "perception", **more}
    return learned(memory_id, description, **more)


def forgotten(memory_id: int, reason: str = "wrong", **more: Any) -> Given:
    return happened(MemoryForgotten(memory_id=memory_id, reason=reason), **more)


def recalled(*memory_ids: int, **more: Any) -> Given:
    return happened(MemoriesRecalled(memory_ids=list(memory_ids)), **more)


def superseded(memory_id: int, *, by: int, session: str = "", **more: Any) -> Given:
    fact = MemoriesConsolidated(session_id=session, kept=by, superseded=[memory_id])
    return happened(fact, **more)


def started(session: str, *, collection: str = "default", **more: Any) -> Given:
    fact = SessionStarted(session_id=session, collection=collection)
    return happened(fact, collection=collection, **more)


def ended(session: str, **more: Any) -> Given:
    return happened(SessionEnded(session_id=session), **more)


S1, S2 = session_id("first", 0), session_id("second", 0)
"""Two sessions of partition 0."""


# --- what is asked -------------------------------------------------------------------------------


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A call as somebody would make it, with the vectors that its texts have."""

    tool: str
    arguments: bytes
    at_us: int = NOW_US
    tenant: str = "default"
    key: str | None = None
    call_id: str | None = None
    answered: Answered | None = None
    refused: Refusal | None = None
    vectors: Mapping[str, bytes] = {}


_ENVELOPE = ("at_us", "tenant", "key", "call_id", "answered", "refused", "vectors")


def ask(tool: str, /, **given: Any) -> Ask:
    """`tool` with the arguments given; what belongs to the envelope goes there."""
    envelope = {name: given.pop(name) for name in _ENVELOPE if name in given}
    return Ask(tool=tool, arguments=msgspec.json.encode(given), **envelope)


def learn(insight: str, *, vector: bytes | None = None, **more: Any) -> Ask:
    vectors = {} if vector is None else {insight: vector}
    return ask("learn", insight=insight, vectors=vectors, **more)


def save_perception(description: str, *, vector: bytes | None = None, **more: Any) -> Ask:
    vectors = {} if vector is None else {description: vector}
    return ask("save_perception", description=description, vectors=vectors, **more)


def update(memory_id: int, new_content: str, *, vector: bytes | None = None, **more: Any) -> Ask:
    vectors = {} if vector is None else {new_content: vector}
    return ask("update", memory_id=memory_id, new_content=new_content, vectors=vectors, **more)


def forget(memory_id: int, reason: str, **more: Any) -> Ask:
    return ask("forget", memory_id=memory_id, reason=reason, **more)


def recall(query: str, *, returned: Sequence[int], mode: str = "hybrid", **more: Any) -> Ask:
    """A recall that a gateway has answered with the memories `returned`."""
    return ask("recall", query=query, answered=Answered(ids=list(returned), mode=mode), **more)


def start_session(**more: Any) -> Ask:
    return ask("start_session", **more)


def end_session(session: str, **more: Any) -> Ask:
    return ask("end_session", session_id=session, **more)


def collection_in(partition: int, partitions: int) -> str:
    """A collection whose calls belong into that partition."""
    return next(
        name
        for name in (f"c{i}" for i in range(1000))
        if partition_of_space(robot_space("default", name), partitions) == partition
    )


# --- the scenario --------------------------------------------------------------------------------


class Scenario:
    """One partition from nothing, and what has been decided in it so far."""

    def __init__(
        self,
        *rules: msgspec.Struct,
        model: VectorModel | None = MODEL,
        partition: int = 0,
        partitions: int = 1,
        catalogue: Catalogue = CATALOGUE,
    ) -> None:
        self.catalogue = catalogue
        self.state = PartitionState(None, partition, partitions, catalogue.projected)
        self.decider = PartitionDecider(self.state, deciding(*rules, catalogue=catalogue))
        self.model = model
        self.log: list[bytes] = []
        self.decision: Decision | None = None
        self.answer: dict[str, Any] = {}
        """What a read answered last."""
        self._before: dict[str, str] = {}
        self._asked = 0

    # given

    def given(self, *facts: Given) -> Self:
        """Each fact in a decision of its own, in this order."""
        for one in facts:
            self._take(encode_decision(decision_of(self.state.head, one)))
        return self

    # when

    def when(self, asked: Ask) -> Self:
        self._asked += 1
        call = Call(
            id=asked.call_id or f"call-{self._asked}",
            tool=asked.tool,
            arguments=asked.arguments,
            space=f"{asked.tenant}/",
            received_at_us=asked.at_us,
            tenant=asked.tenant,
            idempotency_key=asked.key,
            answered=asked.answered,
            refused=asked.refused,
        )
        return self.when_bytes(encode_call(call), asked.vectors)

    def when_bytes(self, data: bytes, vectors: Mapping[str, bytes] | None = None) -> Self:
        """As `when`, with the record as it lies on the log."""
        self._before = self.state.digest()
        self.decider.state.begin()
        # Without a model there is nobody to make vectors.
        inputs = Inputs(self.model, vectors or {}) if self.model else Inputs()
        made = self.decider.decide(data, self.decider.read(data), inputs)
        self.decider.state.commit()
        self.decision = made.counted.decision
        self.log.append(made.encoded)
        return self

    # then

    def then(self, *facts: Fact) -> Self:
        """Exactly these facts follow, in this order, and the call is not refused."""
        decision = self._decided()
        assert not decision.refused, f"refused: {decision.reply.decode()}"
        assert self.decode(decision) == list(facts)
        return self

    def then_reply(self, reply: dict[str, Any]) -> Self:
        """The caller is told this, neither more nor less."""
        assert not self._decided().refused, f"refused: {self._decided().reply.decode()}"
        assert self.reply == reply
        return self

    def then_reply_has(self, **parts: Any) -> Self:
        """The caller is told this, among other things."""
        assert not self._decided().refused, f"refused: {self._decided().reply.decode()}"
        assert {name: self.reply.get(name) for name in parts} == parts
        return self

    def then_refused(self, sentence: str) -> Self:
        """The call is refused with this sentence, and leaves no trace in the state."""
        decision = self._decided()
        assert decision.refused, f"not refused: {decision.reply.decode()}"
        assert set(self.reply) == {"error"}
        error = self.reply["error"]
        if sentence.endswith("…"):
            assert error.startswith(sentence[:-1]), error
        else:
            assert error == sentence
        return self.then_nothing_changed()

    def then_nothing_changed(self) -> Self:
        """No fact follows, and the state is what it was."""
        assert self._decided().facts == []
        assert self.state.digest() == self._before
        return self

    # what there is now

    @property
    def reply(self) -> dict[str, Any]:
        """What the caller is told."""
        decision = self._decided()
        decoded: dict[str, Any] = msgspec.json.decode(decision.reply)
        tool = self.catalogue.tools.get(decision.tool)
        if tool is not None and tool.shows is not None and not decision.refused:
            decoded = tool.shows(self.state.view, decoded)
        return decoded

    def answered(self, asked: Ask, reader: Callable[[Asked], Reader]) -> Answered | Refusal | None:
        """A read as a node answers it, with what `reader` lets it look at: what it refuses goes to
        the log with its sentence. None: it is refused before that."""
        call = Call(
            id="read",
            tool=asked.tool,
            arguments=asked.arguments,
            space="",
            received_at_us=asked.at_us,
            tenant=asked.tenant,
        )
        read = self.catalogue.read(call, self.state.partitions)
        if read.refused is not None:
            return None
        assert read.tool is not None and read.tool.answer is not None
        try:
            found = read.tool.answer(reader(read), read.call, read.args)
        except Refused as refused:
            return Refusal(refused.sentence, refused.code, dict(refused.data))
        self.answer = msgspec.json.decode(msgspec.json.encode(found.reply))
        return Answered(ids=found.ids, mode=found.mode)

    def rebuilt(self) -> PartitionState:
        """Another state, from the decisions alone."""
        fresh = PartitionState(
            None, self.state.partition, self.state.partitions, self.catalogue.projected
        )
        fresh.begin()
        for offset, data in enumerate(self.log):
            fresh.apply(offset, data)
        fresh.commit()
        return fresh

    def decode(self, decision: Decision) -> list[Fact]:
        return self.catalogue.projected.facts.decode(decision.facts)

    def _decided(self) -> Decision:
        assert self.decision is not None, "nothing was asked: use when(...) first"
        return self.decision

    def _take(self, data: bytes) -> None:
        self.state.begin()
        facts = self.state.apply(self.state.next_offset, data)
        assert facts is not None, "what is given has to count"
        self.state.commit()
        self.log.append(data)


class Robot(Scenario):
    """A scenario in which memories are learned."""

    def then_created(self, memory_id: int) -> Self:
        return self.then_reply_has(status="created", memory_id=memory_id)

    def then_duplicate(self, existing_id: int, method: str, similarity: float) -> Self:
        return self.then_reply(
            {
                "status": "duplicate",
                "method": method,
                "existing_id": existing_id,
                "similarity": similarity,
            }
        )

    def memory(self, number: int) -> state.Memory:
        found = state.memory(self.state.view, number)
        assert found is not None, f"there is no memory {number}"
        return found
