"""A family's language: the facts it can state, and how those of earlier versions are read.

A language is a value. Whoever reads facts is given the languages that it is to understand, so what
a program can replay does not depend on what happens to be imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mnemolog.events.codec import UNREADABLE, Fact, NewerVersion, Undecodable, tag_of

Body = dict[str, Any]


class _FactHead(msgspec.Struct):
    type: str


_encoder = msgspec.msgpack.Encoder()
_fact_head = msgspec.msgpack.Decoder(_FactHead)


class Upcast(msgspec.Struct, frozen=True):
    """`lift` makes the body of a `new_tag` fact out of that of an `old_tag` one. An upcast goes
    one version up, and stays for ever."""

    old_tag: str
    new_tag: str
    lift: Callable[[Body], Body]


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of the family `name`. Their tags begin with it: `robot.memory_learned`, and from
    the second version on `robot.memory_learned/2`."""

    name: str
    facts: tuple[type[Fact], ...]
    upcasts: tuple[Upcast, ...] = ()

    def __post_init__(self) -> None:
        tags = [tag_of(fact) for fact in self.facts]
        strange = [tag for tag in tags if not tag.startswith(f"{self.name}.")]
        if strange:
            raise ValueError(f"{strange[0]} is no tag of the family {self.name}")
        if len(set(tags)) < len(tags):
            raise ValueError(f"two facts of the family {self.name} have one tag")
        known = {*tags, *(one.old_tag for one in self.upcasts)}
        lost = [one.new_tag for one in self.upcasts if one.new_tag not in known]
        if lost:
            raise ValueError(f"an upcast leads to {lost[0]}, which the family does not know")


class Facts:
    """Reads the facts of some languages."""

    def __init__(self, languages: Sequence[Language]) -> None:
        names = [language.name for language in languages]
        if len(set(names)) < len(names):
            raise ValueError(f"two languages have one name: {', '.join(names)}")
        self._decoders: dict[str, msgspec.msgpack.Decoder[Fact]] = {
            tag_of(fact): msgspec.msgpack.Decoder(fact)
            for language in languages
            for fact in language.facts
        }
        self._upcasts: Mapping[str, Upcast] = {
            one.old_tag: one for language in languages for one in language.upcasts
        }

    @property
    def tags(self) -> list[str]:
        return sorted(self._decoders)

    def decode(self, raw: Iterable[msgspec.Raw]) -> list[Fact]:
        return [self.decode_one(bytes(one)) for one in raw]

    def decode_one(self, data: bytes) -> Fact:
        try:
            tag = _fact_head.decode(data).type
            if tag in self._upcasts:
                body = msgspec.msgpack.decode(data)
                while tag in self._upcasts:
                    upcast = self._upcasts[tag]
                    tag = upcast.new_tag
                    body = {**upcast.lift(body), "type": tag}
                data = _encoder.encode(body)
            decoder = self._decoders.get(tag)
            if decoder is None:
                raise NewerVersion(
                    f"the fact {tag!r} is not known to this version; upgrade mnemolog to read this "
                    "log"
                )
            return decoder.decode(data)
        except UNREADABLE as error:
            raise Undecodable(f"not a fact: {error}") from error
