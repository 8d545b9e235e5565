"""The knowledge graph family."""

from __future__ import annotations

from typing import Any

from events import graph
from projections.state.graph import graph_space
from services.decider.graph import entities, exports, imports, reads, relations
from services.decider.tool import Place, Tool


def _in_graph(tenant: str, args: Any) -> Place:
    return Place(graph_space(tenant))


TOOLS = (
    Tool(
        name="create_entities",
        arguments=graph.CreateEntities,
        place=_in_graph,
        decide=entities.decide_create_entities,
        idempotent=True,
    ),
    Tool(
        name="create_relations",
        arguments=graph.CreateRelations,
        place=_in_graph,
        decide=relations.decide_create_relations,
        idempotent=True,
    ),
    Tool(
        name="add_observations",
        arguments=graph.AddObservations,
        place=_in_graph,
        decide=entities.decide_add_observations,
        idempotent=True,
    ),
    Tool(
        name="delete_entities",
        arguments=graph.DeleteEntities,
        place=_in_graph,
        decide=entities.decide_delete_entities,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="delete_observations",
        arguments=graph.DeleteObservations,
        place=_in_graph,
        decide=entities.decide_delete_observations,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="delete_relations",
        arguments=graph.DeleteRelations,
        place=_in_graph,
        decide=relations.decide_delete_relations,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="end_relation",
        arguments=graph.EndRelation,
        place=_in_graph,
        decide=relations.decide_end_relation,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="search_nodes",
        arguments=graph.SearchNodes,
        place=_in_graph,
        decide=reads.decide_looked,
        answer=reads.answer_search_nodes,
    ),
    Tool(
        name="open_nodes",
        arguments=graph.OpenNodes,
        place=_in_graph,
        decide=reads.decide_open_nodes,
        answer=reads.answer_open_nodes,
    ),
    Tool(
        name="read_graph",
        arguments=graph.ReadGraph,
        place=_in_graph,
        decide=reads.decide_looked,
        answer=reads.answer_read_graph,
    ),
    Tool(
        name="migrate",
        arguments=graph.Migrate,
        place=_in_graph,
        decide=imports.decide_migrate,
        idempotent=True,
    ),
    Tool(
        name=imports.BEGIN,
        arguments=imports.BeginImport,
        place=_in_graph,
        decide=imports.decide_begin,
        internal=True,
    ),
    Tool(
        name=imports.CHUNK,
        arguments=imports.ImportGraph,
        place=_in_graph,
        decide=imports.decide_import,
        internal=True,
    ),
    Tool(
        name=exports.NAME,
        arguments=exports.ExportGraph,
        place=_in_graph,
        decide=reads.decide_looked,
        answer=exports.answer_export,
        internal=True,
    ),
)
