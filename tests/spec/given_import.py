"""A file, imported as a node does it, over the real deciding and a state in memory.

    store = Store(); store.migrate(file) -> the reply; store.export() -> the file again

Every call that goes to the log is kept in `asked`. `break_off_after` lets an import fail like a
process that is killed: what was decided stays, the rest does not happen.
"""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from mnemolog.events.codec import encode_call
from mnemolog.events.envelope import Call
from mnemolog.events.graph import Migrate
from mnemolog.services.api import Answer, Files, Ran, Unavailable
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.decider.tool import Edge
from mnemolog.services.families.graph.answering.exports import ExportGraph, answer_export
from mnemolog.services.families.graph.deciding.imports import CHUNK
from mnemolog.services.families.graph.importing.anthropic import write_entity, write_relation
from mnemolog.services.families.graph.importing.importing import carry_out
from mnemolog.services.reader.reader import Reader
from tests.spec.given import NOW_US
from tests.spec.given_graph import Graph

Reply = dict[str, Any]


class Store:
    def __init__(self) -> None:
        self.graph = Graph()
        self.asked: list[Call] = []
        self.told: list[tuple[int, int]] = []
        self.stopping = False
        self.break_off_after: int | None = None
        self._calls = itertools.count(1)

    def migrate(
        self, path: Path | str, *, key: str | None = None, files: Files | None = None
    ) -> Reply:
        """The reply to the call; `{"error": …}` when it was refused."""
        args = Migrate(source_path=str(path))
        call = Call(
            id=f"migrate-{next(self._calls)}",
            tool="migrate",
            arguments=msgspec.json.encode(args),
            space="default/graph",
            received_at_us=NOW_US,
            idempotency_key=key,
        )
        edge = Edge(
            self._submit,
            lambda: self.stopping,
            lambda *done: self.told.append(done),
            10.0,
            lambda: NOW_US,
            _no_code,
            files or Files(cwd="/", home="/nowhere"),
        )
        answer = self._submit(carry_out(edge, call, args)).result()
        reply: Reply = msgspec.json.decode(answer.reply)
        assert answer.refused is ("error" in reply)
        return reply

    def chunks(self) -> list[Call]:
        return [call for call in self.asked if call.tool == CHUNK]

    def export(self) -> bytes:
        """The whole graph, as `mnemolog export` writes it."""
        entities, last = self._rows("entities", 0)
        relations, _ = self._rows("relations", last)
        found = [
            line
            for row in entities
            for line in write_entity(row["name"], row["entityType"], row["observations"])
        ]
        found += [write_relation(row["from"], row["to"], row["relationType"]) for row in relations]
        return b"".join(line + b"\n" for line in found)

    def _rows(self, what: Any, until: int) -> tuple[list[Reply], int]:
        rows: list[Reply] = []
        after, more = 0, True
        reader = Reader(self.graph.state.reader(), None, None, lambda _: None)  # type: ignore[arg-type]
        call = Call(id="e", tool="", arguments=b"", space="default/graph", received_at_us=0)
        while more:
            args = ExportGraph(what=what, after=after, until=until)
            page = answer_export(reader, call, args).reply
            rows += page["rows"]
            after, more = page["after"], page["more"]
        return rows, after

    def _submit(self, call: Call) -> Future[Answer]:
        if call.tool == CHUNK and self.break_off_after is not None:
            if self.break_off_after == 0:
                raise Unavailable("broken off")
            self.break_off_after -= 1
        self.asked.append(call)
        data = encode_call(replace(call, received_at_us=NOW_US))
        if call.tool == "migrate":
            self.graph.when_bytes(data)
        else:
            self._decide(data)
        decision = self.graph.decision
        assert decision is not None
        future: Future[Answer] = Future()
        future.set_result(Answer(reply=decision.reply, refused=decision.refused))
        return future

    def _decide(self, data: bytes) -> None:
        """As the scenario does, but without comparing the state before and after."""
        decider = self.graph.decider
        decider.state.begin()
        made = decider.decide(data, decider.read(data), Inputs())
        decider.state.commit()
        self.graph.decision = made.counted.decision
        self.graph.log.append(made.encoded)


def counts(reply: Reply) -> tuple[int, int, int, int]:
    """Entities and relations imported, errors, skipped."""
    assert "error" not in reply, reply
    return (
        reply["entities_imported"],
        reply["relations_imported"],
        reply["errors"],
        reply["skipped"],
    )


def problems(reply: Reply) -> list[tuple[int, str]]:
    found = [(one["line"], one["reason"]) for one in reply.get("problems", [])]
    if len(found) < 100:
        assert Counter(reason for _, reason in found) == reply.get("reasons", {})
    return found


def _no_code(code: str, task: str, given: object) -> Ran:
    raise AssertionError("an import runs no code")
