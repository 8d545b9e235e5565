"""Given facts, then this is in the projections: the words of a projection's own specifications.

    fed.given(learned(1, "grip at 15N"), forgotten(1))
    assert fed.by_words("grip") == []

Nobody asks and nobody decides. What is given becomes the decisions of a log, and the real
projections are fed from it: the state, the text index and the vectors. A `Log` can be delivered to
`Stores` in any way that a log ever is: again, in other batches, to stores that stopped or were
killed meanwhile, with something missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import ParamSpec, Self

import numpy as np
from msgspec.structs import replace

from mnemolog.events.chain import Head, extend, void_reason
from mnemolog.events.codec import Fact, encode_decision, tag_of
from mnemolog.events.envelope import Decision
from mnemolog.events.language import Language
from mnemolog.projections.projection import Projected
from mnemolog.projections.state.store import PartitionState
from mnemolog.projections.state.view import Writable
from mnemolog.projections.text.index import TantivyText
from mnemolog.projections.vectors.edge import EdgeVectors
from mnemolog.services.counted import Counted
from mnemolog.services.node.following.follow import feed_text, feed_vectors
from tests.families import PROJECTED
from tests.spec.given import DIMS, MODEL, Given, decision_of

P = ParamSpec("P")
Digests = dict[str, str]
"""A hash of each part's contents, such as `state/memory`, `text/SPACE` or `vectors/SPACE`."""


class Log:
    """The decisions of partition 0, which nobody decided."""

    def __init__(self, projected: Projected = PROJECTED) -> None:
        self.projected = projected
        self.records: list[bytes] = []
        self.counted: dict[int, Counted] = {}
        """Those that count, by their offset."""
        self.head = Head()

    def __len__(self) -> int:
        return len(self.records)

    def add(self, *facts: Given | tuple[Given, ...]) -> Self:
        """Each fact in a decision of its own; those of a tuple happened at once."""
        for one in facts:
            together = one if isinstance(one, tuple) else (one,)
            self.add_decision(decision_of(self.head, *together))
        return self

    def add_void(self, one: Given) -> Self:
        """What somebody decided who had not seen the last decision."""
        behind = replace(decision_of(self.head, one), previous=b"\1" * 32)
        assert void_reason(self.head, behind) is not None
        return self.add_decision(behind)

    def add_decision(self, decision: Decision) -> Self:
        data = encode_decision(decision)
        if void_reason(self.head, decision) is None:
            facts = self.projected.facts.decode(decision.facts)
            self.counted[len(self)] = Counted(len(self), decision, facts)
            self.head = extend(self.head, decision, data)
        self.records.append(data)
        return self

    def facts(self) -> list[Fact]:
        return [fact for one in self.counted.values() for fact in one.facts]


class Stores:
    """The projections below a directory, each opened when it is first needed. The state is in
    memory, unless it has to outlive its process."""

    def __init__(
        self, directory: Path, projected: Projected = PROJECTED, *, on_disk: bool = False
    ) -> None:
        self.directory = directory
        self.projected = projected
        self._on_disk = on_disk

    @cached_property
    def state(self) -> PartitionState:
        path = self.directory / "state" / "p0000.db" if self._on_disk else None
        return PartitionState(path, 0, 1, self.projected)

    @cached_property
    def text(self) -> TantivyText:
        return TantivyText(self.directory / "text")

    @cached_property
    def vectors(self) -> EdgeVectors:
        return EdgeVectors(self.directory / "vectors", DIMS, MODEL.name)

    # delivering

    def take(self, log: Log, offsets: Iterable[int], *, batch: int = 1000) -> Self:
        """The decisions at `offsets`, in this order: so many in a transaction of the state, and
        then in the indexes."""
        wanted = list(offsets)
        for start in range(0, len(wanted), batch):
            part = wanted[start : start + batch]
            self.take_state(log, part)
            self.take_text(log, part)
            self.take_vectors(log, part)
        return self

    def take_state(self, log: Log, offsets: Iterable[int], *, undone: bool = False) -> None:
        """In one transaction, which is `undone` at the end or when it fails."""
        self.state.begin()
        try:
            for offset in offsets:
                self.state.apply(offset, log.records[offset])
        except BaseException:
            self.state.rollback()
            raise
        if undone:
            self.state.rollback()
        else:
            self.state.commit()

    def take_text(self, log: Log, offsets: Iterable[int]) -> None:
        for offset in offsets:
            if offset in log.counted:
                feed_text(self.text, self.projected, 0, log.counted[offset])

    def take_vectors(self, log: Log, offsets: Iterable[int]) -> None:
        for offset in offsets:
            if offset in log.counted:
                feed_vectors(self.vectors, self.projected, MODEL.name, 0, log.counted[offset])

    def commit(self) -> None:
        self.text.commit()
        self.vectors.commit()

    # what there is now

    def checkpoints(self) -> tuple[int, int, int]:
        """The last decision that each has: the state, the text, the vectors."""
        return self.state.next_offset - 1, self.text.checkpoint(0), self.vectors.checkpoint(0)

    def digests(self) -> Digests:
        found = {
            "state": self.state.digest(),
            "text": self.text.digest(),
            "vectors": self.vectors.digest(),
        }
        return {
            f"{name}/{part}": value
            for name, digest in found.items()
            for part, value in digest.items()
        }

    # ending

    def reopened(self) -> Stores:
        """Closed, as a service is that ends, and opened again."""
        self.close()
        return Stores(self.directory, self.projected, on_disk=True)

    def killed(self) -> Stores:
        """What a process that was killed here leaves behind: what is in the files now."""
        left = self.directory.with_name(f"{self.directory.name}-left")
        shutil.copytree(self.directory, left)
        self.close()
        return Stores(left, self.projected, on_disk=True)

    def close(self) -> None:
        for name in ("text", "vectors", "state"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()


class Fed:
    """Projections from nothing that follow what is given. The state has it at once; an index gets
    the whole log again whenever it is asked."""

    def __init__(self, directory: Path, projected: Projected = PROJECTED) -> None:
        self.log = Log(projected)
        self.stores = Stores(directory, projected)

    def given(self, *facts: Given | tuple[Given, ...]) -> Self:
        start = len(self.log)
        self.log.add(*facts)
        self.stores.take_state(self.log, range(start, len(self.log)))
        return self

    @property
    def view(self) -> Writable:
        return self.stores.state.view

    @property
    def last(self) -> int:
        """The offset of the last call, which is the last decision's."""
        return self.log.head.next_call - 1

    def space(self, name: str) -> int:
        number = self.view.space_id(name)
        assert number is not None, f"nothing happened in {name}"
        return number

    def by_words(
        self,
        query: str,
        space: str,
        *,
        session: str | None = None,
        min_confidence: float | None = None,
    ) -> list[int]:
        """What the text index finds, in the order of the ids."""
        self.stores.take_text(self.log, range(len(self.log)))
        hits = self.stores.text.search(
            space, query, 100, session=session, min_confidence=min_confidence
        )
        return sorted(hit.id for hit in hits)

    def by_meaning(
        self,
        vector: bytes,
        space: str,
        *,
        session: str | None = None,
        min_confidence: float | None = None,
    ) -> list[tuple[int, int]]:
        """Id and version of what the vector index has in this direction, by the ids."""
        self.stores.take_vectors(self.log, range(len(self.log)))
        hits = self.stores.vectors.search(
            space,
            np.frombuffer(vector, np.float16),
            100,
            session=session,
            min_confidence=min_confidence,
        )
        return sorted((hit.id, hit.version) for hit in hits if hit.score > 0.99)

    def digests(self) -> Digests:
        """The state's, and the indexes' after the whole log."""
        self.stores.take_text(self.log, range(len(self.log)))
        self.stores.take_vectors(self.log, range(len(self.log)))
        return self.stores.digests()

    def changed_by(self, *facts: Given | tuple[Given, ...]) -> set[str]:
        """Give these, and tell which parts are not what they were."""
        before = self.digests()
        after = self.given(*facts).digests()
        return {name for name in before | after if before.get(name) != after.get(name)}


class Specs:
    """Which facts of a language have a specification, and that it is about them."""

    def __init__(self, language: Language) -> None:
        self.facts: Sequence[type[Fact]] = language.facts
        self._told: set[type[Fact]] = set()

    def __call__(self, fact: type[Fact]) -> Callable[[Callable[P, None]], Callable[P, None]]:
        """Marks a test that says what `fact` does; one in which it never happens, fails."""
        self._told.add(fact)

        def mark(test: Callable[P, None]) -> Callable[P, None]:
            @wraps(test)
            def told(*args: P.args, **kwargs: P.kwargs) -> None:
                test(*args, **kwargs)
                (fed,) = (one for one in (*args, *kwargs.values()) if isinstance(one, Fed))
                assert any(type(one) is fact for one in fed.log.facts()), "it never happened"

            return told

        return mark

    def check(self, fact: type[Fact]) -> None:
        assert fact in self._told, f"nothing says what {tag_of(fact)} does"
