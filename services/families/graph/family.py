"""The knowledge graph family, put together."""

from __future__ import annotations

from typing import Any

from mnemolog.events import graph
from mnemolog.events.envelope import Call
from mnemolog.projections.graph import PROJECTION, meaning
from mnemolog.projections.graph.meaning import ENTITY, REFLECTION
from mnemolog.projections.graph.state import entity_names, graph_space
from mnemolog.services.decider.tool import Edge, Place, adds, destroys, reads
from mnemolog.services.families.graph import INTRODUCTION, NAME
from mnemolog.services.families.graph.answering import examining, exports, nodes, semantic, upkeep
from mnemolog.services.families.graph.deciding import (
    access,
    entities,
    imports,
    reflections,
    relations,
    splits,
)
from mnemolog.services.families.graph.describing import describe
from mnemolog.services.families.graph.prompts import ENTITY as ENTITY_NAME
from mnemolog.services.families.graph.prompts import PROMPTS
from mnemolog.services.families.graph.replies import show_changed
from mnemolog.services.families.graph.rules import GraphRules
from mnemolog.services.families.graph.told import THINGS
from mnemolog.services.family import Family, Resource, Spaces
from mnemolog.services.late import Queue
from mnemolog.services.scopes import ADMIN


def _in_graph(tenant: str, args: Any) -> Place:
    return Place(graph_space(tenant))


def _space_named(tenant: str, name: str) -> str | None:
    return graph_space(tenant) if name == NAME else None


def _import(edge: Edge, call: Call, args: graph.Migrate) -> Call:
    # Here and not above: few import anything, and everybody waits for a start.
    from mnemolog.services.families.graph.importing.importing import carry_out

    return carry_out(edge, call, args)


TOOLS = (
    adds(
        "create_entities",
        graph.CreateEntities,
        _in_graph,
        entities.decide_create_entities,
        idempotent=True,
        shows=show_changed,
    ),
    adds(
        "create_relations",
        graph.CreateRelations,
        _in_graph,
        relations.decide_create_relations,
        idempotent=True,
    ),
    adds(
        "add_observations",
        graph.AddObservations,
        _in_graph,
        entities.decide_add_observations,
        idempotent=True,
        shows=show_changed,
    ),
    destroys(
        "delete_entities",
        graph.DeleteEntities,
        _in_graph,
        entities.decide_delete_entities,
        idempotent=True,
        heavy=True,
    ),
    destroys(
        "delete_observations",
        graph.DeleteObservations,
        _in_graph,
        entities.decide_delete_observations,
        idempotent=True,
        shows=show_changed,
    ),
    destroys(
        "delete_relations",
        graph.DeleteRelations,
        _in_graph,
        relations.decide_delete_relations,
        idempotent=True,
    ),
    destroys(
        "end_relation", graph.EndRelation, _in_graph, relations.decide_end_relation, idempotent=True
    ),
    reads(
        "search_nodes",
        graph.SearchNodes,
        _in_graph,
        access.decide_looked,
        nodes.answer_search_nodes,
    ),
    reads("open_nodes", graph.OpenNodes, _in_graph, access.decide_opened, nodes.answer_open_nodes),
    reads("read_graph", graph.ReadGraph, _in_graph, access.decide_looked, nodes.answer_read_graph),
    reads(
        "analyze_entity_split",
        graph.AnalyzeEntitySplit,
        _in_graph,
        access.decide_looked,
        examining.answer_analyze,
        heavy=True,
    ),
    reads(
        "propose_entity_split",
        graph.ProposeEntitySplit,
        _in_graph,
        access.decide_looked,
        examining.answer_propose,
        heavy=True,
        aliases=("propose_entity_split_tool",),
    ),
    destroys(
        "execute_entity_split",
        graph.ExecuteEntitySplit,
        _in_graph,
        splits.decide_execute,
        idempotent=False,
        aliases=("execute_entity_split_tool",),
        heavy=True,
    ),
    reads(
        "find_split_candidates",
        graph.FindSplitCandidates,
        _in_graph,
        access.decide_looked,
        examining.answer_candidates,
        heavy=True,
    ),
    reads(
        "find_duplicate_observations",
        graph.FindDuplicateObservations,
        _in_graph,
        access.decide_looked,
        upkeep.answer_duplicates,
        heavy=True,
    ),
    reads(
        "consolidation_report",
        graph.ConsolidationReport,
        _in_graph,
        access.decide_looked,
        upkeep.answer_report,
        heavy=True,
    ),
    adds(
        "migrate",
        graph.Migrate,
        _in_graph,
        imports.decide_migrate,
        idempotent=True,
        carry_out=_import,
        scope=ADMIN,
    ),
    adds(
        imports.BEGIN,
        imports.BeginImport,
        _in_graph,
        imports.decide_begin,
        idempotent=False,
        internal=True,
    ),
    adds(
        imports.CHUNK,
        imports.ImportGraph,
        _in_graph,
        imports.decide_import,
        idempotent=False,
        internal=True,
        heavy=True,
    ),
    reads(
        exports.NAME,
        exports.ExportGraph,
        _in_graph,
        access.decide_looked,
        exports.answer_export,
        internal=True,
    ),
    reads(
        "search_semantic",
        graph.SearchSemantic,
        _in_graph,
        access.decide_opened,
        semantic.answer_search_semantic,
        awaits=ENTITY,
    ),
    adds(
        "add_reflection",
        graph.AddReflection,
        _in_graph,
        reflections.decide_add_reflection,
        idempotent=False,
    ),
    reads(
        "search_reflections",
        graph.SearchReflections,
        _in_graph,
        access.decide_looked,
        semantic.answer_search_reflections,
        awaits=REFLECTION,
    ),
    adds(
        describe.NAME,
        describe.Describe,
        describe.place,
        describe.decide_describe,
        idempotent=False,
        internal=True,
        texts=describe.texts,
        heavy=True,
    ),
)


FAMILY = Family(
    name=NAME,
    introduction=INTRODUCTION,
    projection=PROJECTION,
    tools=TOOLS,
    spaces=Spaces(
        path=NAME,
        words="graph",
        title="Graph changes",
        description="The newest changes of the knowledge graph.",
        find=_space_named,
    ),
    rules=GraphRules(),
    resources=(
        # Under the name that Anthropic's memory server gives it.
        Resource(
            uri="memory://knowledge-graph",
            name="knowledge-graph",
            title="Knowledge graph",
            description="Entities and relations as read_graph gives them, the first page.",
            tool="read_graph",
            space=NAME,
        ),
        Resource(
            uri="memory://entities/{entity}",
            name="entity",
            title="An entity",
            description="An entity with its observations and relations, as open_nodes gives it.",
            tool="open_nodes",
            space=NAME,
            arguments=lambda given: {"names": [given["entity"]]},
        ),
    ),
    things=THINGS,
    prompts=PROMPTS,
    completes={ENTITY_NAME.name: entity_names},
    late=(
        Queue(
            kinds=(ENTITY, REFLECTION),
            asks=meaning.TO_DESCRIBE,
            notes=meaning.DESCRIBES,
            tool=describe.NAME,
            waiting=meaning.DESCRIBED.waiting,
            count=meaning.DESCRIBED.count,
            count_in=meaning.DESCRIBED.count,
            waits_since=meaning.DESCRIBED.waits_since,
            last_noted=meaning.DESCRIBED.last,
            made=describe.made,
            ask=describe.ask,
        ),
    ),
)
