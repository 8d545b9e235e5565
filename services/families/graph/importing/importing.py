"""`migrate`, carried out at the edge: the file is read here, and goes through the log in chunks.

Entities go first and relations after them, so the order of the lines does not matter; where the
first relation stands is remembered, so that a file in the usual order is read about once. Memory
stays flat: a line, a chunk, and the few chunks that are waiting for their decisions.

A chunk is keyed by the call that asks for the import, and by what is in it. A call that is sent
again, because the process that had it was killed, finds its chunks on the log and goes on after
them. A new call decides all of them anew: what is there already is merged in a moment, and what was
deleted since comes back.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from concurrent.futures import Future
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from mnemolog.events.arguments import Arguments, Refused
from mnemolog.events.envelope import Answered, Call
from mnemolog.events.graph import EntityInput, Migrate, RelationInput
from mnemolog.services.api import Answer, Unavailable
from mnemolog.services.decider.tool import Edge
from mnemolog.services.families.graph.deciding.imports import (
    BEGIN,
    CHUNK,
    Began,
    BeginImport,
    Brought,
    ImportGraph,
)
from mnemolog.services.families.graph.importing.anthropic import (
    PROBLEMS_SHOWN,
    EntityLine,
    Problem,
    RelationLine,
    read_line,
)
from mnemolog.services.families.graph.importing.lines import MAX_LINE_BYTES, Line
from mnemolog.services.families.graph.importing.sources import Source, open_source

CHUNK_ITEMS = 200
CHUNK_BYTES = 256 * 1024
"""A chunk is closed before it grows over this; an item alone may be larger, up to 1.2 MB."""
CHUNK_OBSERVATIONS = 2_000
"""Each is compared with the entity's others, and who else writes waits for the whole chunk."""
WAITING = 2
"""Chunks that may wait for their decisions: the file is read on meanwhile."""
DETAIL_SHOWN = 200
LOG_EVERY_S = 10.0
TELL_EVERY_S = 0.2

_log = structlog.get_logger("mnemolog.import")


def carry_out(edge: Edge, call: Call, args: Migrate) -> Call:
    """The call as it is to be decided, with what came of it. Raises `Unavailable` when it could
    not be carried to its end."""
    started = time.perf_counter()
    try:
        source = open_source(args.source_path, edge.files)
        with source.file:
            run = _Import(edge, call, source)
            if run.decided:
                return call
            reply = run.reply() if run.to_the_end() else _changed(source)
    except Refused as refused:
        reply = {"error": refused.sentence}
    return _answered(call, reply, started)


def _answered(call: Call, reply: dict[str, Any], started: float) -> Call:
    took_ms = round((time.perf_counter() - started) * 1000, 1)
    return replace(call, answered=Answered([], ms=took_ms, reply=msgspec.json.encode(reply)))


def _changed(source: Source) -> dict[str, Any]:
    return {
        "error": f"{source.given!r} was changed while it was read; some of it is imported. "
        "Migrate again when nobody writes to it"
    }


class _Chunk(msgspec.Struct):
    """`ends` are the lines whose last item is in it: an entity with very many observations is
    more than one item."""

    first_line: int
    entities: list[EntityInput] = []
    relations: list[RelationInput] = []
    ends: list[int] = []
    size: int = 0
    observations: int = 0

    def has_room(self, size: int, observations: int) -> bool:
        items = len(self.entities) + len(self.relations)
        return items == 0 or (
            items < CHUNK_ITEMS
            and self.size + size <= CHUNK_BYTES
            and self.observations + observations <= CHUNK_OBSERVATIONS
        )


class _Import:
    """One file on its way. `decided`: the call was carried out before."""

    def __init__(self, edge: Edge, call: Call, source: Source) -> None:
        self._edge = edge
        self._call = call
        self._source = source
        self._sha256 = source.sha256()
        self._asked = 0
        self._chunk: _Chunk | None = None
        self._waiting: deque[tuple[Future[Answer], _Chunk]] = deque()
        self._relations_from: Line | None = None
        self._entities = self._relations = self._errors = self._skipped = 0
        self._new: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._problems: dict[str, list[tuple[int, Problem]]] = {"entities": [], "relations": []}
        self._told_s = self._logged_s = time.monotonic()
        self._key = call.idempotency_key or call.id
        begin = BeginImport(sha256=self._sha256, key=self._key)
        began = msgspec.json.decode(self._result(self._submit(BEGIN, begin)).reply, type=Began)
        self.decided = began.decided

    def to_the_end(self) -> bool:
        """Import everything; False when the file was changed meanwhile."""
        self._pass_over("entities")
        if self._relations_from is not None:
            self._pass_over("relations")
        self._edge.progress(self._source.size, self._source.size)
        return self._source.is_as_it_was()

    def reply(self) -> dict[str, Any]:
        """The counts, and the first problems in the order of their lines."""
        found: dict[str, Any] = {
            "entities_imported": self._entities,
            "relations_imported": self._relations,
            "errors": self._errors,
            "skipped": self._skipped,
            "new": {name: self._new[name] for name in ("entities", "observations", "relations")},
            "file": {"name": self._source.name, "sha256": self._sha256},
        }
        if self._reasons:
            problems = sorted(
                self._problems["entities"] + self._problems["relations"], key=lambda one: one[0]
            )
            found["reasons"] = dict(sorted(self._reasons.items()))
            found["problems"] = [
                {"line": line, "reason": one.reason, "detail": one.detail}
                for line, one in problems[:PROBLEMS_SHOWN]
            ]
        return found

    def _pass_over(self, what: str) -> None:
        start = self._relations_from if what == "relations" else None
        at, number = (start.at, start.number) if start is not None else (0, 1)
        for line in self._source.lines(at, number):
            if line.text is None:
                found: EntityLine | RelationLine | Problem = Problem(
                    "line_too_long",
                    f"The line has {line.size:,} bytes, {MAX_LINE_BYTES:,} are allowed",
                )
            else:
                found = read_line(line.text)
            if isinstance(found, RelationLine):
                if what == "relations":
                    self._add(line.number, found.input, last=True)
                elif self._relations_from is None:
                    self._relations_from = line
            elif what == "entities":
                self._entity(line.number, found)
            self._tell(what, line.at + line.size)
        self._flush()
        while self._waiting:
            self._settle()

    def _entity(self, line: int, found: EntityLine | Problem) -> None:
        if isinstance(found, Problem):
            self._skip(line, found, "entities")
            return
        self._errors += sum(found.left_out.values())
        self._reasons.update(found.left_out)
        for problem in found.problems:
            self._keep(line, problem, "entities")
        for one in found.inputs:
            self._add(line, one, last=one is found.inputs[-1])

    def _add(self, line: int, item: EntityInput | RelationInput, *, last: bool) -> None:
        size = len(msgspec.json.encode(item))
        said = len(item.observations or []) if isinstance(item, EntityInput) else 0
        if self._chunk is not None and not self._chunk.has_room(size, said):
            self._flush()
        if self._chunk is None:
            self._chunk = _Chunk(line, [], [], [])
        if isinstance(item, EntityInput):
            self._chunk.entities.append(item)
        else:
            self._chunk.relations.append(item)
        self._chunk.size += size
        self._chunk.observations += said
        if last:
            self._chunk.ends.append(line)

    def _flush(self) -> None:
        """Send the chunk, once there is room among those that wait."""
        if self._chunk is None:
            return
        chunk, self._chunk = self._chunk, None
        while len(self._waiting) >= WAITING:
            self._settle()
        args = ImportGraph(
            sha256=self._sha256,
            first_line=chunk.first_line,
            entities=chunk.entities,
            relations=chunk.relations,
        )
        self._waiting.append((self._submit(CHUNK, args), chunk))

    def _settle(self) -> None:
        """Count what came of the chunk that waits longest."""
        future, chunk = self._waiting.popleft()
        answer = self._result(future)
        what = "relations" if chunk.relations else "entities"
        if answer.refused:
            sentence = str(msgspec.json.decode(answer.reply).get("error"))
            for line in chunk.ends:
                self._skip(line, Problem("refused", sentence), what)
            return
        brought = msgspec.json.decode(answer.reply, type=Brought)
        self._new.update(
            entities=brought.entities,
            observations=brought.observations,
            relations=brought.relations,
        )
        if chunk.entities:
            self._entities += len(chunk.ends)
            return
        self._relations += len(chunk.ends) - len(brought.missing)
        for at, name in brought.missing.items():
            missing = Problem("entity_not_found", f"Entity not found: {name}")
            self._skip(chunk.ends[at], missing, what)

    def _skip(self, line: int, problem: Problem, of: str) -> None:
        self._skipped += 1
        self._reasons[problem.reason] += 1
        self._keep(line, problem, of)

    def _keep(self, line: int, problem: Problem, of: str) -> None:
        """Of each pass the first problems are kept; together they hold the file's first."""
        if len(self._problems[of]) < PROBLEMS_SHOWN:
            detail = problem.detail[:DETAIL_SHOWN]
            self._problems[of].append((line, Problem(problem.reason, detail)))

    def _submit(self, name: str, args: Arguments) -> Future[Answer]:
        call = Call(
            id=f"{self._call.id}.{self._asked}",
            tool=name,
            arguments=msgspec.json.encode(args),
            space=self._call.space,
            received_at_us=self._edge.clock(),
            tenant=self._call.tenant,
            actor=self._call.actor,
            client=self._call.client,
        )
        if name == CHUNK:
            key = f"import:{self._key}:{call.fingerprint.hex()}"
            call = replace(call, idempotency_key=key)
        self._asked += 1
        return self._edge.submit(call)

    def _result(self, future: Future[Answer]) -> Answer:
        try:
            return future.result(self._edge.patience_s)
        except TimeoutError:
            raise Unavailable(
                f"No decision within {self._edge.patience_s:g} s, and the import is not done; "
                "migrate again to complete it"
            ) from None

    def _tell(self, what: str, at: int) -> None:
        """Two passes, each half of the way."""
        if self._edge.stopping():
            raise Unavailable(
                "The service is ending and the import is not done; migrate again to complete it"
            )
        now_s = time.monotonic()
        if now_s - self._told_s < TELL_EVERY_S:
            return
        self._told_s = now_s
        done = (at if what == "entities" else self._source.size + at) // 2
        self._edge.progress(done, self._source.size)
        if now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            _log.info("importing", done=done, of=self._source.size, asked=self._asked)
