"""decide(state, call) -> decision: the same inputs give the same bytes, on any node."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from mnemolog.events.arguments import Refused
from mnemolog.events.chain import Head
from mnemolog.events.codec import NewerVersion, Undecodable, decode_call, encode_fact
from mnemolog.events.envelope import Call, Decision, Embedding, sha256
from mnemolog.projections.state.store import Outcome, Writable
from mnemolog.services.decider.catalogue import read_call
from mnemolog.services.decider.rules import Rules
from mnemolog.services.decider.tool import Context, Model, partition_of

MAX_DECISION_BYTES = 7 * 1024 * 1024
"""Every log takes a record of this size; Kafka's topics are made for 8 MiB."""


class Inputs(msgspec.Struct, frozen=True):
    """What a decision needs and the call does not hold: the vectors of its texts, and whose they
    are."""

    model: Model | None = None
    vectors: Mapping[str, bytes] = {}


def decide(
    state: Writable, head: Head, offset: int, data: bytes, inputs: Inputs, rules: Rules
) -> Decision:
    """What follows from the call `data` at `offset`, after everything up to `head`.

    Its time is the later of the call's and the decision's before it. Whatever is wrong with the
    call, there is a decision: a refused one.
    """
    try:
        call = decode_call(data)
    except (Undecodable, NewerVersion) as error:
        call = _unreadable(data)
        return _refused(_blank(call, head, offset, data), Refused(f"Unreadable call: {error}"))
    blank = _blank(call, head, offset, data)
    read = call.answered is not None and not call.answered.reply
    earlier = None if read else state.outcome(call.tenant, _key(call))
    if earlier is not None:
        return _again(blank, call, earlier)
    embeddings = (
        [Embedding(inputs.model.name, vector) for vector in inputs.vectors.values()]
        if inputs.model
        else []
    )
    try:
        tool, args = read_call(call)
        belongs = partition_of(tool.place(call.tenant, args), state.partitions)
        if belongs != state.partition:
            raise Refused(f"This call belongs into partition {belongs}, not {state.partition}")
        context = Context(
            state=state,
            call=call,
            at_us=blank.at_us,
            rules=rules,
            model=inputs.model,
            inputs=embeddings,
            embeddings={text: i for i, text in enumerate(inputs.vectors)},
        )
        decided = tool.decide(context, args)
    except Refused as refused:
        return _refused(blank, refused)
    decision = replace(
        blank,
        space=decided.space,
        reply=msgspec.json.encode(decided.reply),
        facts=[encode_fact(fact) for fact in decided.facts],
        inputs=embeddings,
    )
    if tool.reads or (tool.internal and call.idempotency_key is None):
        return decision  # Nobody asks for its outcome again.
    return replace(
        decision,
        key=_key(call),
        own_key=call.idempotency_key is None,
        fingerprint=call.fingerprint,
    )


def failed(head: Head, offset: int, data: bytes, error: Exception) -> Decision:
    """In place of a decision that this program failed to make: a refusal that says so."""
    try:
        call = decode_call(data)
    except (Undecodable, NewerVersion):
        call = _unreadable(data)
    return _refused(
        _blank(call, head, offset, data),
        Refused(f"Internal error ({type(error).__name__}): the call was not carried out"),
    )


def too_large(decision: Decision, size: int) -> Decision:
    """In place of a decision that no log would take: a refusal, which changes nothing."""
    blank = replace(
        decision, facts=[], inputs=[], key=None, own_key=False, fingerprint=b"", reply=b""
    )
    return _refused(
        blank,
        Refused(
            f"What follows from this call takes {size:,} bytes on the log, and at most "
            f"{MAX_DECISION_BYTES:,} are allowed; ask for less at once, or split what has grown "
            "too large"
        ),
    )


def _unreadable(data: bytes) -> Call:
    return Call(id=sha256(data).hex()[:32], tool="", arguments=b"", space="", received_at_us=0)


def _key(call: Call) -> str:
    return call.idempotency_key or call.id


def _blank(call: Call, head: Head, offset: int, data: bytes) -> Decision:
    return Decision(
        call_id=call.id,
        call_offset=offset,
        call_hash=sha256(data),
        previous=head.hash,
        at_us=max(call.received_at_us, head.at_us),
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
    reply = msgspec.json.encode({"error": refused.sentence})
    return replace(blank, reply=reply, refused=True, code=refused.code)
