"""The measured operations of the knowledge graph, the same calls to every system."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from random import Random
from typing import Any

import msgspec

from benchmarks import corpus, graph_corpus
from benchmarks.mcp_client import StdioClient
from benchmarks.measure import SETTLE_S, in_turns
from benchmarks.results import (
    ADD_OBSERVATIONS,
    CREATE_ENTITIES,
    CREATE_RELATIONS,
    GRAPH_OPERATIONS,
    OPEN_NODES,
    SEARCH_NODES,
    SEARCH_SEMANTIC,
    Taken,
)

# Seeds away from the one that stores are prepared with: what is measured is new to every store.
CREATE_SEED, OBSERVE_SEED, PICK_SEED = 2001, 2002, 2003
OPENED = 3
QUIET_S, QUIET_SHARE, QUIET_WITHIN_S = 0.3, 0.1, 10.0
"""A server is at rest when it took less than this share of so long a time."""


class GraphPlan(msgspec.Struct, frozen=True):
    """How much is measured."""

    sizes: tuple[int, ...]
    operations: int
    warm_up: int


FULL = GraphPlan((300, 3_000, 30_000), 80, 10)
QUICK = GraphPlan((300,), 20, 5)


class GraphTarget(Taken):
    """One running server with a graph of a known size, and what was measured on it."""

    def __init__(
        self, client: StdioClient, prepared: Sequence[graph_corpus.Entity], *, by_meaning: bool
    ) -> None:
        super().__init__(client.server.name, len(prepared), GRAPH_OPERATIONS)
        self.client = client
        self.by_meaning = by_meaning
        """Whether it searches by meaning, and so works on after the reply to a write."""
        self.rss_mb = 0.0
        self._prepared = prepared
        # Looked up, not searched for: what the client does between two calls must not grow with
        # the graph, or the larger one's server is measured after longer pauses.
        self._lines: dict[str, set[str]] = defaultdict(set)
        for one in prepared:
            self._lines[one.line].add(one.name)
        self._wrote = False

    def search_nodes(self, number: int) -> None:
        """Search by the name of a line; its five entities must be found."""
        line = self._picked(number, 1)[0].line
        body = self._call(SEARCH_NODES, {"query": line})
        found = {one["name"] for one in body["entities"]}
        self._check("search_nodes found the line", self._lines[line] <= found)

    def open_nodes(self, number: int) -> None:
        """Open three entities by name."""
        names = [one.name for one in self._picked(number, OPENED)]
        body = self._call(OPEN_NODES, {"names": names})
        found = {one["name"] for one in body["entities"]}
        self._check("open_nodes found all", found == set(names))

    def search_semantic(self, query: str) -> None:
        """Search by meaning; it must say ten things, and be waiting for nothing."""
        body = self._call(SEARCH_SEMANTIC, {"query": query})
        self._check("search_semantic found 10", len(body["results"]) == 10)
        self._check("search_semantic saw everything", "pending" not in body)

    def create_entities(self, entity: graph_corpus.Entity) -> None:
        """Create one entity with its observations."""
        body = self._call(CREATE_ENTITIES, {"entities": [entity.arguments()]})
        self._check_rows("created", body, {"name": entity.name})
        self._wrote = True

    def add_observations(self, number: int, text: str) -> None:
        """Add one observation to an entity that was there before."""
        name = self._picked(number, 1)[0].name
        added = [{"entityName": name, "contents": [text]}]
        body = self._call(ADD_OBSERVATIONS, {"observations": added})
        self._check("observed", text in msgspec.json.encode(body).decode())
        self._wrote = True

    def create_relations(self, number: int) -> None:
        """Relate two entities that were there before."""
        source, target = self._picked(number, 2)
        relation = {
            "from": source.name,
            "to": target.name,
            # Of its own, so that no pair is drawn twice.
            "relationType": f"was_seen_near_{number}",
        }
        body = self._call(CREATE_RELATIONS, {"relations": [relation]})
        self._check_rows("related", body, relation)
        self._wrote = True

    def note_rss(self) -> None:
        """Keep the largest resident size seen."""
        self.rss_mb = max(self.rss_mb, self.client.rss_mb())

    def settle(self) -> None:
        """What it does after its replies is part of its own turn, not of the next one's."""
        time.sleep(SETTLE_S)
        if not (self._wrote and self.by_meaning):
            return
        self._wrote = False
        deadline = time.monotonic() + QUIET_WITHIN_S
        while time.monotonic() < deadline:
            before = self.client.cpu_s()
            time.sleep(QUIET_S)
            if self.client.cpu_s() - before < QUIET_S * QUIET_SHARE:
                return

    def _picked(self, number: int, count: int) -> list[graph_corpus.Entity]:
        """Some prepared entities, the same for the same number and size."""
        return Random(f"{PICK_SEED} {number}").sample(self._prepared, count)

    def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        reply = self.client.call(tool, arguments)
        self._keep(tool, reply.milliseconds)
        return reply.body

    def _check_rows(self, what: str, body: dict[str, Any], wanted: dict[str, str]) -> None:
        """The reply's one row says `wanted`: the peer answers with a list, Mnemolog names it."""
        rows = next((rows for rows in body.values() if isinstance(rows, list)), [])
        self._check(what, len(rows) == 1 and wanted.items() <= rows[0].items())


def measure_graph(targets: Sequence[GraphTarget], plan: GraphPlan) -> None:
    """Reads first, because they leave the stores as they are; then writes.

    Every target of a size gets the same calls in the same order.
    """
    count = plan.warm_up + plan.operations
    queries = list(islice(corpus.queries(PICK_SEED), count))
    entities = list(islice(graph_corpus.entities(CREATE_SEED), count))
    texts = [memory.insight for memory in corpus.take(count, OBSERVE_SEED)]
    in_turns(targets, plan, lambda target, i: target.search_nodes(i))
    in_turns(targets, plan, lambda target, i: target.open_nodes(i))
    if semantic := [target for target in targets if target.by_meaning]:
        in_turns(semantic, plan, lambda target, i: target.search_semantic(queries[i]))
    in_turns(targets, plan, lambda target, i: target.create_entities(entities[i]))
    in_turns(targets, plan, lambda target, i: target.add_observations(i, texts[i]))
    in_turns(targets, plan, lambda target, i: target.create_relations(i))
