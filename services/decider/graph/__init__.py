"""The knowledge graph family."""

from __future__ import annotations

from typing import Any

from events import graph
from projections.state.graph import graph_space
from services.decider.graph import entities, exports, imports, reads, relations, splits, upkeep
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
        name="analyze_entity_split",
        arguments=graph.AnalyzeEntitySplit,
        place=_in_graph,
        decide=splits.decide_examined,
        answer=splits.answer_analyze,
        heavy=True,
    ),
    Tool(
        name="propose_entity_split",
        arguments=graph.ProposeEntitySplit,
        place=_in_graph,
        decide=splits.decide_examined,
        answer=splits.answer_propose,
        heavy=True,
        aliases=("propose_entity_split_tool",),
    ),
    Tool(
        name="execute_entity_split",
        arguments=graph.ExecuteEntitySplit,
        place=_in_graph,
        decide=splits.decide_execute,
        destructive=True,
        aliases=("execute_entity_split_tool",),
    ),
    Tool(
        name="find_split_candidates",
        arguments=graph.FindSplitCandidates,
        place=_in_graph,
        decide=reads.decide_looked,
        answer=splits.answer_candidates,
        heavy=True,
    ),
    Tool(
        name="find_duplicate_observations",
        arguments=graph.FindDuplicateObservations,
        place=_in_graph,
        decide=upkeep.decide_duplicates,
        answer=upkeep.answer_duplicates,
        heavy=True,
    ),
    Tool(
        name="consolidation_report",
        arguments=graph.ConsolidationReport,
        place=_in_graph,
        decide=reads.decide_looked,
        answer=upkeep.answer_report,
        heavy=True,
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
