"""What a family's facts do to the state, to the text index and to the vectors, as one value.

A projection says what it can handle: a function for each fact that changes the state, and for those
that change an index. It can be fed facts without anybody deciding anything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mnemolog.events.codec import Fact, tag_of
from mnemolog.events.envelope import Decision
from mnemolog.events.language import Facts, Language
from mnemolog.projections.ports import TextChange, VectorChange
from mnemolog.projections.state import schema
from mnemolog.projections.state.view import Kept, Moment, Writable

Evolve = Callable[[Writable, Any, Moment, Decision], None]
"""Carries one fact out on the state. The decision has its vectors."""
TextOf = Callable[[Any, Decision], Sequence[TextChange]]
"""What one fact changes in the text index."""
VectorsOf = Callable[[Any, Decision, str], Sequence[VectorChange]]
"""What one fact changes in the vector index of a model; those of other models are left out, since
a search never mixes them."""


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """One family's. `tables` is SQL; `canonical` names, each with the query that gives it in order,
    what makes up the canonical hash. `functions` are SQL functions with the number of their
    arguments; `kept` makes what the family keeps in memory beside its tables."""

    language: Language
    tables: str
    canonical: Mapping[str, str]
    state: Mapping[type[Fact], Evolve]
    text: Mapping[type[Fact], TextOf] = {}
    vectors: Mapping[type[Fact], VectorsOf] = {}
    functions: Mapping[str, tuple[int, Callable[..., Any]]] = {}
    kept: Callable[[sqlite3.Connection], Kept] | None = None

    @property
    def name(self) -> str:
        return self.language.name

    def __post_init__(self) -> None:
        facts = set(self.language.facts)
        missing = sorted(tag_of(one) for one in facts - self.state.keys())
        if missing:
            raise ValueError(f"nothing says what {missing[0]} does to the state")
        handled = self.state.keys() | self.text.keys() | self.vectors.keys()
        strange = sorted(one.__name__ for one in handled - facts)
        if strange:
            raise ValueError(f"{strange[0]} is no fact of the family {self.name}")


class Projected:
    """The projections of all families together: what a store holds, and what every fact does."""

    def __init__(self, families: Sequence[Projection]) -> None:
        self.facts = Facts([one.language for one in families])
        self.tables = "".join((schema.SCHEMA, *(one.tables for one in families)))
        _check_tables(families)
        self.canonical = _merged([schema.CANONICAL, *(one.canonical for one in families)])
        self.functions = _merged([one.functions for one in families])
        self.kept = {one.name: one.kept for one in families if one.kept is not None}
        self.evolve = _merged([one.state for one in families])
        self._text = _merged([one.text for one in families])
        self._vectors = _merged([one.vectors for one in families])

    def text_changes(self, decision: Decision, facts: Iterable[Fact]) -> list[TextChange]:
        of = self._text
        return [
            change
            for fact in facts
            if (changes := of.get(type(fact))) is not None
            for change in changes(fact, decision)
        ]

    def vector_changes(
        self, decision: Decision, facts: Iterable[Fact], model: str
    ) -> list[VectorChange]:
        of = self._vectors
        return [
            change
            for fact in facts
            if (changes := of.get(type(fact))) is not None
            for change in changes(fact, decision, model)
        ]


def _check_tables(families: Sequence[Projection]) -> None:
    """That the tables can be made beside each other; a store would say too late that they cannot,
    and take itself for damaged."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(schema.SCHEMA)
        for one in families:
            for name, (count, function) in one.functions.items():
                connection.create_function(name, count, function, deterministic=True)
            try:
                connection.executescript(one.tables)
            except sqlite3.OperationalError as error:
                raise ValueError(
                    f"the tables of the family {one.name} cannot be made: {error}"
                ) from error
    finally:
        connection.close()


def _merged(parts: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    """All of them in one; a name that two have is a mistake."""
    found: dict[Any, Any] = {}
    for part in parts:
        twice = found.keys() & part.keys()
        if twice:
            raise ValueError(f"two families have {sorted(map(str, twice))[0]}")
        found |= part
    return found
