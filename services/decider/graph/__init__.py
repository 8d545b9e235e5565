"""The knowledge graph family."""

from __future__ import annotations

from typing import Any

from events import graph
from projections.state.graph import graph_space
from projections.state.meaning import ENTITY, REFLECTION
from services.decider.graph import describe, entities, reads, relations, semantic
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
        name="search_semantic",
        arguments=graph.SearchSemantic,
        place=_in_graph,
        decide=semantic.decide_search_semantic,
        answer=semantic.answer_search_semantic,
        awaits=ENTITY,
    ),
    Tool(
        name="add_reflection",
        arguments=graph.AddReflection,
        place=_in_graph,
        decide=semantic.decide_add_reflection,
    ),
    Tool(
        name="search_reflections",
        arguments=graph.SearchReflections,
        place=_in_graph,
        decide=semantic.decide_search_reflections,
        answer=semantic.answer_search_reflections,
        awaits=REFLECTION,
    ),
    Tool(
        name=describe.NAME,
        arguments=describe.Describe,
        place=describe.place,
        decide=describe.decide_describe,
        texts=describe.texts,
        internal=True,
    ),
)
