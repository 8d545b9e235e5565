"""MessagePack in two stages, so that what is newer than this program is recognised, not guessed.

A record is `[kind, version, body]`; stage one reads kind and version, stage two the body. A fact
is a map whose `type` names it; the name carries the version from the second one on
(`robot.memory_learned`, `robot.memory_learned/2`). Old versions are lifted by upcasters, small
functions from the old body to the next one, for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from mnemolog.events.envelope import Call, Decision

VERSION: Final = 1

_T = TypeVar("_T")
_Body = dict[str, Any]
Upcast = Callable[[_Body], _Body]


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


class _FactHead(msgspec.Struct):
    type: str


_encoder = msgspec.msgpack.Encoder()
_record = msgspec.msgpack.Decoder(_Record)
_call = msgspec.msgpack.Decoder(Call)
_decision = msgspec.msgpack.Decoder(Decision)
_fact_head = msgspec.msgpack.Decoder(_FactHead)

# What reading bytes that are no record of ours can raise, upcasters included.
_UNREADABLE = (
    msgspec.MsgspecError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

_facts: dict[str, tuple[type[Fact], msgspec.msgpack.Decoder[Fact]]] = {}
_upcasts: dict[str, tuple[Upcast, str]] = {}


def register(*types: type[Fact]) -> None:
    """Make fact types known to the codec; every family registers its own."""
    for fact_type in types:
        tag = tag_of(fact_type)
        if tag in _facts and _facts[tag][0] is not fact_type:
            raise ValueError(f"two facts are called {tag}")
        _facts[tag] = (fact_type, msgspec.msgpack.Decoder(fact_type))


def register_upcast(old_tag: str, new_tag: str, upcast: Upcast) -> None:
    """`upcast` lifts the body of an `old_tag` fact to that of `new_tag`, one version at a time."""
    _upcasts[old_tag] = (upcast, new_tag)


def tag_of(fact_type: type[Fact]) -> str:
    tag = fact_type.__struct_config__.tag
    if not isinstance(tag, str):
        raise TypeError(f"{fact_type.__name__} has no tag of its own")
    return tag


def known_tags() -> list[str]:
    return sorted(_facts)


def encode_call(call: Call) -> bytes:
    return _encoder.encode(("call", VERSION, call))


def encode_decision(decision: Decision) -> bytes:
    return _encoder.encode(("decision", VERSION, decision))


def encode_fact(fact: Fact) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(fact))


def decode_call(data: bytes) -> Call:
    return _body(data, "call", _call)


def decode_decision(data: bytes) -> Decision:
    return _body(data, "decision", _decision)


def decode_facts(raw: Iterable[msgspec.Raw]) -> list[Fact]:
    return [decode_fact(bytes(one)) for one in raw]


def decode_fact(data: bytes) -> Fact:
    try:
        tag = _fact_head.decode(data).type
        if tag in _upcasts:
            body = msgspec.msgpack.decode(data)
            while tag in _upcasts:
                upcast, tag = _upcasts[tag]
                body = {**upcast(body), "type": tag}
            data = _encoder.encode(body)
        known = _facts.get(tag)
        if known is None:
            raise NewerVersion(
                f"the fact {tag!r} is not known to this version; upgrade mnemolog to read this log"
            )
        return known[1].decode(data)
    except _UNREADABLE as error:
        raise Undecodable(f"not a fact: {error}") from error


def _body(data: bytes, kind: str, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
    try:
        record = _record.decode(data)
        if record.version > VERSION:
            raise NewerVersion(
                f"a {record.kind} of version {record.version} was written by a newer mnemolog; "
                f"this one reads up to version {VERSION}: upgrade it"
            )
        if record.kind != kind or record.version < 1:
            found = f"{record.kind[:40]} of version {record.version}"
            raise Undecodable(f"expected a {kind}, found a {found}")
        return decoder.decode(record.body)
    except _UNREADABLE as error:
        raise Undecodable(f"not a {kind}: {error}") from error
