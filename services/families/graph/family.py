"""The knowledge graph family, put together."""

from __future__ import annotations

from typing import Any

from mnemolog.events import graph
from mnemolog.projections.graph import PROJECTION, meaning
from mnemolog.projections.graph.meaning import ENTITY, REFLECTION
from mnemolog.projections.graph.state import graph_space
from mnemolog.services.decider.tool import Place, Tool
from mnemolog.services.families.graph import INTRODUCTION, NAME
from mnemolog.services.families.graph.answering import examining, exports, reads, semantic, upkeep
from mnemolog.services.families.graph.deciding import (
    access,
    entities,
    imports,
    reflections,
    relations,
    splits,
)
from mnemolog.services.families.graph.describing import describe
from mnemolog.services.families.graph.importing.importing import carry_out
from mnemolog.services.families.graph.rules import GraphRules
from mnemolog.services.families.graph.told import THINGS
from mnemolog.services.family import Family, Resource, Spaces
from mnemolog.services.late import Queue


def _in_graph(tenant: str, args: Any) -> Place:
    return Place(graph_space(tenant))


def _space_named(tenant: str, name: str) -> str | None:
    return graph_space(tenant) if name == NAME else None


TOOLS = (
    Tool(
        name="create_entities",
        arguments=graph.CreateEntities,
        effect="adds",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=entities.decide_create_entities,
    ),
    Tool(
        name="create_relations",
        arguments=graph.CreateRelations,
        effect="adds",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=relations.decide_create_relations,
    ),
    Tool(
        name="add_observations",
        arguments=graph.AddObservations,
        effect="adds",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=entities.decide_add_observations,
    ),
    Tool(
        name="delete_entities",
        arguments=graph.DeleteEntities,
        effect="destroys",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=entities.decide_delete_entities,
        heavy=True,
    ),
    Tool(
        name="delete_observations",
        arguments=graph.DeleteObservations,
        effect="destroys",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=entities.decide_delete_observations,
    ),
    Tool(
        name="delete_relations",
        arguments=graph.DeleteRelations,
        effect="destroys",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=relations.decide_delete_relations,
    ),
    Tool(
        name="end_relation",
        arguments=graph.EndRelation,
        effect="destroys",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=relations.decide_end_relation,
    ),
    Tool(
        name="search_nodes",
        arguments=graph.SearchNodes,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_looked,
        answer=reads.answer_search_nodes,
    ),
    Tool(
        name="open_nodes",
        arguments=graph.OpenNodes,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_opened,
        answer=reads.answer_open_nodes,
    ),
    Tool(
        name="read_graph",
        arguments=graph.ReadGraph,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_looked,
        answer=reads.answer_read_graph,
    ),
    Tool(
        name="analyze_entity_split",
        arguments=graph.AnalyzeEntitySplit,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_looked,
        answer=examining.answer_analyze,
        heavy=True,
    ),
    Tool(
        name="propose_entity_split",
        arguments=graph.ProposeEntitySplit,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_looked,
        answer=examining.answer_propose,
        heavy=True,
        aliases=("propose_entity_split_tool",),
    ),
    Tool(
        name="execute_entity_split",
        arguments=graph.ExecuteEntitySplit,
        effect="destroys",
        idempotent=False,
        internal=False,
        place=_in_graph,
        decide=splits.decide_execute,
        aliases=("execute_entity_split_tool",),
        heavy=True,
    ),
    Tool(
        name="find_split_candidates",
        arguments=graph.FindSplitCandidates,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_looked,
        answer=examining.answer_candidates,
        heavy=True,
    ),
    Tool(
        name="find_duplicate_observations",
        arguments=graph.FindDuplicateObservations,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_looked,
        answer=upkeep.answer_duplicates,
        heavy=True,
    ),
    Tool(
        name="consolidation_report",
        arguments=graph.ConsolidationReport,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_looked,
        answer=upkeep.answer_report,
        heavy=True,
    ),
    Tool(
        name="migrate",
        arguments=graph.Migrate,
        effect="adds",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=imports.decide_migrate,
        carry_out=carry_out,
    ),
    Tool(
        name=imports.BEGIN,
        arguments=imports.BeginImport,
        effect="adds",
        idempotent=False,
        internal=True,
        place=_in_graph,
        decide=imports.decide_begin,
    ),
    Tool(
        name=imports.CHUNK,
        arguments=imports.ImportGraph,
        effect="adds",
        idempotent=False,
        internal=True,
        place=_in_graph,
        decide=imports.decide_import,
        heavy=True,
    ),
    Tool(
        name=exports.NAME,
        arguments=exports.ExportGraph,
        effect="reads",
        idempotent=True,
        internal=True,
        place=_in_graph,
        decide=access.decide_looked,
        answer=exports.answer_export,
    ),
    Tool(
        name="search_semantic",
        arguments=graph.SearchSemantic,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_opened,
        answer=semantic.answer_search_semantic,
        awaits=ENTITY,
    ),
    Tool(
        name="add_reflection",
        arguments=graph.AddReflection,
        effect="adds",
        idempotent=False,
        internal=False,
        place=_in_graph,
        decide=reflections.decide_add_reflection,
    ),
    Tool(
        name="search_reflections",
        arguments=graph.SearchReflections,
        effect="reads",
        idempotent=True,
        internal=False,
        place=_in_graph,
        decide=access.decide_looked,
        answer=semantic.answer_search_reflections,
        awaits=REFLECTION,
    ),
    Tool(
        name=describe.NAME,
        arguments=describe.Describe,
        effect="adds",
        idempotent=False,
        internal=True,
        place=describe.place,
        decide=describe.decide_describe,
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
    ),
    things=THINGS,
    late=(
        Queue(
            kinds=(ENTITY, REFLECTION),
            asks=meaning.TO_DESCRIBE,
            notes=meaning.DESCRIBES,
            tool=describe.NAME,
            waiting=meaning.undescribed,
            count=meaning.count_undescribed,
            count_in=meaning.count_undescribed,
            waits_since=meaning.waits_since,
            last_noted=meaning.last_described,
            made=describe.made,
            ask=describe.ask,
        ),
    ),
)
