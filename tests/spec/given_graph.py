"""The words of `given` for the knowledge graph.

    graph.given(created(1, "Astro", "Tool")) \\
         .when(create(entity("Astro", "Tool", "6.x"))) \\
         .then(ObservationsAdded(...))

A read is answered from the state as a gateway would, and then decided like any other call, so that
what it leaves on the log is specified with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
from msgspec.structs import replace

from mnemolog.events.codec import Fact
from mnemolog.events.envelope import Answered, Refusal
from mnemolog.events.graph import EntityCreated, ObservationsAdded, RelationCreated
from mnemolog.projections.graph.state import graph_space
from mnemolog.projections.ports import Vector
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.decider.tool import Asked
from mnemolog.services.reader.reader import Reader
from tests.spec.given import Ask, Given, Scenario, ask, happened

Reply = dict[str, Any]


def stated(fact: Fact, *, tenant: str = "default", **more: Any) -> Given:
    """A fact that has happened to a tenant's graph."""
    return happened(fact, tenant=tenant, space=graph_space(tenant), **more)


def created(number: int, name: str, kind: str = "Generic", **more: Any) -> Given:
    return stated(EntityCreated(entity_id=number, name=name, entity_type=kind), **more)


def observed(number: int, *said: str, flagged: Sequence[int] = (), **more: Any) -> Given:
    fact = ObservationsAdded(entity_id=number, observations=list(said), flagged=list(flagged))
    return stated(fact, **more)


def related(number: int, source: int, kind: str, target: int, **more: Any) -> Given:
    fact = RelationCreated(
        relation_id=number, source_id=source, target_id=target, relation_type=kind
    )
    return stated(fact, **more)


# --- what is asked -------------------------------------------------------------------------------


def entity(name: str, kind: str | None = None, *observations: str) -> Reply:
    given: Reply = {"name": name, "observations": list(observations)}
    return given if kind is None else {**given, "entityType": kind}


def triple(source: str, kind: str, target: str) -> Reply:
    return {"from": source, "to": target, "relationType": kind}


def create(*entities: Reply, **more: Any) -> Ask:
    return ask("create_entities", entities=list(entities), **more)


def relate(*triples: Reply, **more: Any) -> Ask:
    return ask("create_relations", relations=list(triples), **more)


def add(name: str, *observations: str, **more: Any) -> Ask:
    return ask("add_observations", name=name, observations=list(observations), **more)


def delete(*names: str, **more: Any) -> Ask:
    return ask("delete_entities", entityNames=list(names), **more)


def unsay(name: str, *observations: str, **more: Any) -> Ask:
    return ask("delete_observations", name=name, observations=list(observations), **more)


def unrelate(*triples: Reply, **more: Any) -> Ask:
    return ask("delete_relations", relations=list(triples), **more)


def end(relation_id: int, **more: Any) -> Ask:
    return ask("end_relation", relation_id=relation_id, **more)


def search(query: str, **more: Any) -> Ask:
    return ask("search_nodes", query=query, **more)


def open_nodes(*names: str, **more: Any) -> Ask:
    return ask("open_nodes", names=list(names), **more)


def read(**more: Any) -> Ask:
    return ask("read_graph", **more)


def analyze(name: str, **more: Any) -> Ask:
    return ask("analyze_entity_split", entity_name=name, **more)


def propose(name: str, **more: Any) -> Ask:
    return ask("propose_entity_split", entity_name=name, **more)


def part(name: str, kind: str, *observations: str) -> Reply:
    return {"name": name, "entity_type": kind, "observations": list(observations)}


def split(name: str, *parts: Reply, **more: Any) -> Ask:
    return ask("execute_entity_split", entity_name=name, approved_splits=list(parts), **more)


def candidates(**more: Any) -> Ask:
    return ask("find_split_candidates", **more)


def duplicates(name: str, **more: Any) -> Ask:
    return ask("find_duplicate_observations", entity_name=name, **more)


def report(**more: Any) -> Ask:
    return ask("consolidation_report", **more)


def reflect(content: str, target: str = "global", **more: Any) -> Ask:
    return ask("add_reflection", target_type=target, content=content, **more)


def describe(*descriptions: Reply, space: str = "default/graph", **more: Any) -> Ask:
    """What the service asks of itself once a text has its vector."""
    return ask("mnemolog.describe", space=space, descriptions=list(descriptions), **more)


def description(
    number: int, text: str, version: int = 1, *, kind: str = "entity", covered: bool = True
) -> Reply:
    return {
        "kind": kind,
        "number": number,
        "version": version,
        "text": text,
        "covered": covered,
    }


# --- the scenario --------------------------------------------------------------------------------


class Graph(Scenario):
    """A partition from nothing; `answer` is what the last read told its caller. `passages` has the
    vectors of texts that reads compare: a text that is not in it is not covered by the model, and
    None stands for a model that is not there."""

    answer: Reply
    passages: Mapping[str, bytes] | None = None
    embedded = 0
    """How many texts reads had embedded."""

    def when(self, asked: Ask) -> Self:
        tool = self.catalogue.tools.get(asked.tool)
        if tool is not None and tool.answer is not None and asked.answered is None:
            found = self._answered(asked)
            if isinstance(found, Refusal):
                asked = replace(asked, refused=found)
            else:
                asked = replace(asked, answered=found)
        super().when(asked)
        return self

    def when_unanswered(self, asked: Ask) -> Self:
        """As `when`, for a read that no gateway has answered."""
        super().when(asked)
        return self

    def after(self, *asked: Ask) -> Self:
        """Each of these is asked, and none may be refused."""
        for one in asked:
            self.when(one).then_taken()
        return self

    def then_taken(self) -> Self:
        assert self.decision is not None
        assert not self.decision.refused, self.reply
        return self

    def told(self, asked: Ask) -> Reply:
        """What a read tells its caller, or the reply of a write."""
        self.when(asked).then_taken()
        tool = self.catalogue.tools[asked.tool]
        return self.answer if tool.reads else self.reply

    def names(self, asked: Ask) -> list[str]:
        return [one["name"] for one in self.told(asked)["entities"]]

    def said(self, name: str) -> list[str]:
        """The observations of an entity, read without leaving a trace."""
        rows = self.state.view.all(
            "SELECT content FROM observation JOIN entity ON entity.id = entity"
            " WHERE name = ? ORDER BY place",
            name,
        )
        return [row[0] for row in rows]

    def access(self, number: int) -> tuple[int, int, int]:
        """How often, on how many days, and when last an entity was accessed."""
        sql = "SELECT access_count, access_days, accessed_at_us FROM entity WHERE id = ?"
        return cast("tuple[int, int, int]", self.state.view.one(sql, number))

    def pairs(self) -> dict[tuple[int, int], int]:
        """How often each pair of entities was returned together."""
        rows = self.state.view.all("SELECT first, second, times FROM together")
        return {(first, second): times for first, second, times in rows}

    def _answered(self, asked: Ask) -> Answered | Refusal | None:
        return self.answered(asked, self._reader)

    def _reader(self, read: Asked) -> Reader:
        # The reads of the graph look at the state alone.
        return Reader(
            self.state.reader(),
            cast(Any, None),
            None,
            lambda _: None,
            self._embed_passages,
            self.model,
        )

    def _embed_passages(self, texts: Sequence[str]) -> list[Vector | None] | None:
        if self.passages is None:
            return None
        self.embedded += len(texts)
        found = [self.passages.get(text) for text in texts]
        return [None if one is None else np.frombuffer(one, np.float16) for one in found]


def searchable(state: PartitionState) -> list[tuple[int, str]]:
    """What the search index holds, checked against itself."""
    state.view.run("INSERT INTO node_text (node_text) VALUES ('integrity-check')")
    assert state.view.all("SELECT id, content FROM node ORDER BY id") == state.view.all(
        "SELECT rowid, content FROM node_text ORDER BY rowid"
    )
    return sorted(state.view.all("SELECT entity, content FROM node"))
