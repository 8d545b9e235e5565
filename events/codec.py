"""MessagePack in two stages, so that what is newer than this program is recognised, not guessed.

A record is `[kind, version, body]`; stage one reads kind and version, stage two the body. A fact
is a map whose `type` names it; the name carries the version from the second one on
(`robot.memory_learned`, `robot.memory_learned/2`). Which facts there are, and how old ones are
lifted, is a family's matter: `events/language.py`.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from mnemolog.events.envelope import Call, Decision

VERSION: Final = 1
REFUSED_VERSION: Final = 2
"""Of a call that was refused before it was decided. A program that does not know of that would
carry it out: to such a one it is a record of a newer version."""
NEWEST: Final = {"call": REFUSED_VERSION, "decision": VERSION}

_T = TypeVar("_T")


class Undecodable(Exception):
    """The bytes are not a record of this log."""


class NewerVersion(Exception):
    """The record or fact was written by a newer version of this program."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Something that happened, in the past tense. Subclasses name their tag explicitly."""


class _Record(msgspec.Struct, array_like=True):
    kind: str
    version: int
    body: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_record = msgspec.msgpack.Decoder(_Record)
_call = msgspec.msgpack.Decoder(Call)
_decision = msgspec.msgpack.Decoder(Decision)

# What reading bytes that are no record of ours can raise, upcasters included.
UNREADABLE = (
    msgspec.MsgspecError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def tag_of(fact_type: type[Fact]) -> str:
    tag = fact_type.__struct_config__.tag
    if not isinstance(tag, str):
        raise TypeError(f"{fact_type.__name__} has no tag of its own")
    return tag


def encode_call(call: Call) -> bytes:
    version = VERSION if call.refused is None else REFUSED_VERSION
    return _encoder.encode(("call", version, call))


def encode_decision(decision: Decision) -> bytes:
    return _encoder.encode(("decision", VERSION, decision))


def encode_fact(fact: Fact) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(fact))


def decode_call(data: bytes) -> Call:
    return _body(data, "call", _call)


def decode_decision(data: bytes) -> Decision:
    return _body(data, "decision", _decision)


def _body(data: bytes, kind: str, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
    try:
        record = _record.decode(data)
        newest = NEWEST.get(record.kind, VERSION)
        if record.version > newest:
            raise NewerVersion(
                f"a {record.kind} of version {record.version} was written by a newer mnemolog; "
                f"this one reads up to version {newest}: upgrade it"
            )
        if record.kind != kind or record.version < 1:
            found = f"{record.kind[:40]} of version {record.version}"
            raise Undecodable(f"expected a {kind}, found a {found}")
        return decoder.decode(record.body)
    except UNREADABLE as error:
        raise Undecodable(f"not a {kind}: {error}") from error
