"""decide(state, call) -> decision: the same inputs give the same bytes, on any node."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mnemolog.events.arguments import Refused
from mnemolog.events.chain import Head
from mnemolog.events.codec import NewerVersion, Undecodable, decode_call, encode_fact
from mnemolog.events.envelope import Call, Decision, Embedding, sha256
from mnemolog.projections.state.view import Outcome, Writable
from mnemolog.services.catalogue import Catalogue, Rules
from mnemolog.services.decider.tool import Asked, Context
from mnemolog.services.reader.reader import VectorModel

MAX_DECISION_BYTES = 7 * 1024 * 1024
"""Every log takes a record of this size; Kafka's topics are made for 8 MiB."""


class Inputs(msgspec.Struct, frozen=True):
    """What a decision needs and the call does not hold: the vectors of its texts, and whose they
    are."""

    model: VectorModel | None = None
    vectors: Mapping[str, bytes] = {}


def read(catalogue: Catalogue, data: bytes, partitions: int) -> Asked | None:
    """The call in a record of the log; None when it is none that this program can read."""
    try:
        return catalogue.read(decode_call(data), partitions)
    except (Undecodable, NewerVersion):
        return None


class Deciding(msgspec.Struct, frozen=True):
    """decide(state, call) -> decision, by these families and rules."""

    catalogue: Catalogue
    rules: Rules

    def decide(
        self,
        state: Writable,
        head: Head,
        offset: int,
        data: bytes,
        asked: Asked | None,
        inputs: Inputs,
        at_us: int,
    ) -> Decision:
        """What follows from the call `data` at `offset`, after everything up to `head`; `asked` is
        that call, read, and `at_us` the decision's time.

        Whatever is wrong with the call, there is a decision: a refused one.
        """
        if asked is None:
            return _refused(*_unreadable(head, offset, data, at_us))
        call, tool = asked.call, asked.tool
        blank = _blank(call, head, offset, data, at_us)
        if tool is None or not tool.reads:
            earlier = state.outcome(call.tenant, call.space, _key(call))
            if earlier is not None:
                return _again(blank, call, earlier)
        if asked.refused is not None:
            return _refused(blank, asked.refused)
        assert tool is not None
        if asked.partition != state.partition:
            wrong = f"This call belongs into partition {asked.partition}, not {state.partition}"
            return _refused(blank, Refused(wrong))
        model = inputs.model
        embeddings = (
            [Embedding(model.name, vector) for vector in inputs.vectors.values()] if model else []
        )
        context = Context(
            state=state,
            call=call,
            at_us=at_us,
            rules=self.rules[self.catalogue.family_of[tool.name].name],
            model=model,
            inputs=embeddings,
            embeddings={text: i for i, text in enumerate(inputs.vectors)},
        )
        try:
            decided = tool.decide(context, asked.args)
        except Refused as refused:
            return _refused(blank, refused)
        # Nobody asks for the outcome of a read, or of the service's own work, again.
        kept = not tool.reads and not (tool.internal and call.idempotency_key is None)
        return replace(
            blank,
            space=decided.space,
            reply=msgspec.json.encode(decided.reply),
            facts=[encode_fact(fact) for fact in decided.facts],
            inputs=embeddings,
            key=_key(call) if kept else None,
            own_key=kept and call.idempotency_key is None,
            fingerprint=call.fingerprint if kept else b"",
            key_space=call.space if kept else "",
            actor="" if tool.reads else call.actor,
        )


def failed(
    asked: Asked | None, head: Head, offset: int, data: bytes, at_us: int, error: Exception
) -> Decision:
    """In place of a decision that this program failed to make: a refusal that says so."""
    blank = (
        _unreadable(head, offset, data, at_us)[0]
        if asked is None
        else _blank(asked.call, head, offset, data, at_us)
    )
    return _refused(
        blank,
        Refused(f"Internal error ({type(error).__name__}): the call was not carried out"),
    )


def too_large(decision: Decision, size: int) -> Decision:
    """In place of a decision that no log would take: a refusal, which changes nothing."""
    blank = replace(
        decision,
        facts=[],
        inputs=[],
        key=None,
        own_key=False,
        fingerprint=b"",
        key_space="",
        actor="",
        reply=b"",
    )
    return _refused(
        blank,
        Refused(
            f"What follows from this call takes {size:,} bytes on the log, and at most "
            f"{MAX_DECISION_BYTES:,} are allowed; ask for less at once, or split what has grown "
            "too large"
        ),
    )


def _unreadable(head: Head, offset: int, data: bytes, at_us: int) -> tuple[Decision, Refused]:
    call = Call(id=sha256(data).hex()[:32], tool="", arguments=b"", space="", received_at_us=0)
    reason = "it is not a call of this log"
    try:
        decode_call(data)
    except NewerVersion as error:
        reason = str(error)
    except Undecodable:
        pass
    return _blank(call, head, offset, data, at_us), Refused(f"Unreadable call: {reason}")


def _key(call: Call) -> str:
    return call.idempotency_key or call.id


def _blank(call: Call, head: Head, offset: int, data: bytes, at_us: int) -> Decision:
    return Decision(
        call_id=call.id,
        call_offset=offset,
        call_hash=sha256(data),
        previous=head.hash,
        at_us=at_us,
        tool=call.tool,
        tenant=call.tenant,
        space=call.space,
        reply=b"",
    )


def _again(blank: Decision, call: Call, earlier: Outcome) -> Decision:
    """The outcome of a call that was asked before under the same key, said again, with no facts."""
    if earlier.fingerprint not in (call.fingerprint, call.fingerprint_v1):
        return _refused(
            blank,
            Refused(
                f"The idempotency key {_key(call)!r} was used for another call; "
                "use a new key for new arguments"
            ),
        )
    return replace(blank, reply=earlier.reply, refused=earlier.refused, code=earlier.code)


def _refused(blank: Decision, refused: Refused) -> Decision:
    """A refusal is decided like anything else. It is not kept under the call's key: the caller
    may correct what was wrong and use the key again."""
    reply = msgspec.json.encode({"error": refused.sentence, **refused.data})
    return replace(blank, reply=reply, refused=True, code=refused.code)
