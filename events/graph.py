"""The knowledge graph family's language: what can be asked, and what can have happened."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mnemolog.events.arguments import (
    NO_CONTROLS,
    NOT_BLANK,
    UNLISTED,
    Arguments,
    UnknownField,
)
from mnemolog.events.codec import Fact
from mnemolog.events.language import Language

MAX_ENTITIES = 50
MAX_OBSERVATIONS = 100
MAX_RELATIONS = 200
MAX_SPLITS = 50
MAX_PAGE = 1000
MAX_TOGETHER = 50
"""Of what is returned together, the first so many co-occur: pairs grow with the square."""
DEFAULT_TYPE = "Generic"
MAX_RESULTS = 100
MAX_REFLECTION = 5000

EntityName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        pattern=NO_CONTROLS,
        description="Unique name, case-sensitive.",
    ),
]
Label = Annotated[str, Meta(min_length=1, max_length=256, pattern=NO_CONTROLS)]
Said = Annotated[list[str], Meta(max_length=MAX_OBSERVATIONS)]
"""Texts to look for. What cannot be there is not there; that is no mistake."""
Text = Annotated[str, Meta(min_length=1, max_length=2000, pattern=NOT_BLANK)]
Texts = Annotated[list[Text], Meta(max_length=MAX_OBSERVATIONS)]
Cursor = Annotated[
    int, Meta(ge=0, le=2**53 - 1, description="next_cursor of the page before; 0 for the first.")
]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many entities at most, 1-1000.")]
IncludeEnded = Annotated[bool, Meta(description="Show relations that were ended, too.")]


# What these carry in replies and in a memory file may be sent back with them.
Echo = Annotated[Any, Meta(extra_json_schema=UNLISTED)]


class EntityInput(Arguments, frozen=True, omit_defaults=True, rename={"entity_type": "entityType"}):
    name: EntityName
    entity_type: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        Meta(description="Category, e.g. Project, Task, Person. New ones: Generic."),
    ] = None
    observations: Annotated[Texts | None, Meta(description="Single facts, each a sentence.")] = None
    id: Echo = None
    type: Echo = None

    def __post_init__(self) -> None:
        if self.entity_type is None and self.type not in (None, "entity"):
            # Meant as its entityType, most likely; passed over, the entity would have none.
            raise UnknownField("type")


class RelationInput(
    Arguments,
    frozen=True,
    omit_defaults=True,
    rename={"source": "from", "target": "to", "relation_type": "relationType"},
):
    source: Annotated[EntityName, Meta(description="Name of the entity it starts from.")]
    target: Annotated[EntityName, Meta(description="Name of the entity it leads to.")]
    relation_type: Annotated[Label, Meta(description="In active voice, e.g. uses, works_at.")]
    id: Echo = None
    type: Echo = None
    active: Echo = None
    ended_at: Echo = None


class ObservationInput(Arguments, frozen=True, rename={"entity_name": "entityName"}):
    entity_name: EntityName
    contents: Texts


class DeletionInput(Arguments, frozen=True, rename={"entity_name": "entityName"}):
    entity_name: str
    observations: Said


class CreateEntities(Arguments, frozen=True):
    """Create entities in the knowledge graph, or add to those that exist: new observations are
    appended, known ones are kept once, nothing is overwritten but the type."""

    entities: Annotated[list[EntityInput], Meta(max_length=MAX_ENTITIES, description="Up to 50.")]


class CreateRelations(Arguments, frozen=True):
    """Create directed relations between existing entities, in active voice. Each is answered on
    its own: one that cannot be made says why."""

    relations: Annotated[
        list[RelationInput],
        Meta(max_length=MAX_RELATIONS, description="Up to 200, each on its own."),
    ]


class AddObservations(Arguments, frozen=True):
    """Add observations to existing entities. Either name and observations for one entity, or
    observations as a list of {entityName, contents}."""

    observations: Annotated[
        list[Text | ObservationInput],
        Meta(
            max_length=MAX_OBSERVATIONS,
            description="Texts for the entity in name, or objects that name theirs; up to 100.",
        ),
    ]
    name: Annotated[EntityName | None, Meta(description="The entity that the texts are about.")] = (
        None
    )


class DeleteEntities(Arguments, frozen=True, rename={"entity_names": "entityNames"}):
    """Delete entities with their observations and relations. What they said, and who deleted
    them, stays in the audit trail. To say that something is no longer so, use end_relation."""

    entity_names: Annotated[
        list[str],
        Meta(max_length=MAX_ENTITIES, description="Exact names, up to 50."),
    ]


class DeleteObservations(Arguments, frozen=True):
    """Delete observations, by their exact text. Either name and observations for one entity, or
    deletions as a list of {entityName, observations}."""

    name: Annotated[EntityName | None, Meta(description="The entity that the texts are about.")] = (
        None
    )
    observations: Annotated[
        Said | None, Meta(description="Exact texts of what is no longer to be said of it.")
    ] = None
    deletions: Annotated[
        Annotated[list[DeletionInput], Meta(max_length=MAX_ENTITIES)] | None,
        Meta(description="Instead of the two: up to 50 entities, with the texts of each."),
    ] = None


class DeleteRelations(Arguments, frozen=True):
    """Delete relations, each named by from, to and relationType. To keep that a relation once
    held, use end_relation instead."""

    relations: Annotated[
        list[RelationInput],
        Meta(max_length=MAX_RELATIONS, description="Up to 200, each on its own."),
    ]


class EndRelation(Arguments, frozen=True):
    """Say that a relation no longer holds. It stays in the history with the time it ended; the
    inverse of contains/part_of (contiene/parte_de) ends with it."""

    relation_id: Annotated[int, Meta(gt=0, le=2**53 - 1, description="Id of the relation.")]


class SearchNodes(Arguments, frozen=True):
    """Find entities whose name, type or observations contain a text, whatever its case and
    accents, with the relations that touch them."""

    query: Annotated[
        str, Meta(max_length=500, description="The text to look for; an empty one is in all.")
    ]
    limit: Limit = 100
    cursor: Cursor = 0
    include_ended: IncludeEnded = False


class OpenNodes(Arguments, frozen=True):
    """Fetch entities by their exact names, with all observations and the relations that touch
    them. Names that do not exist are left out."""

    names: Annotated[list[str], Meta(max_length=MAX_PAGE, description="Exact names, up to 1000.")]
    include_ended: IncludeEnded = False


class ReadGraph(Arguments, frozen=True):
    """Read the whole knowledge graph, page by page."""

    limit: Limit = MAX_PAGE
    cursor: Cursor = 0
    include_ended: IncludeEnded = False


class AnalyzeEntitySplit(Arguments, frozen=True):
    """Tell whether an entity has grown too large for its type (over 15 observations for a
    session, 25 for a project, 20 for others), and which topics its observations fall into.
    Changes nothing."""

    entity_name: Annotated[EntityName, Meta(description="Exact name of the entity.")]


class ProposeEntitySplit(Arguments, frozen=True):
    """Propose how to split an entity that has grown too large: a part per topic, and the relations
    that tie the parts to it. Changes nothing; what is approved goes to execute_entity_split."""

    entity_name: Annotated[EntityName, Meta(description="Exact name of the entity.")]


class SplitInput(Arguments, frozen=True):
    name: EntityName
    entity_type: Annotated[Label, Meta(description="Mostly that of the original.")]
    observations: Annotated[
        list[Text],
        Meta(min_length=1, max_length=MAX_PAGE, description="Exact texts to move, up to 1000."),
    ]


class ExecuteEntitySplit(Arguments, frozen=True):
    """Split an entity as approved: the parts are created, the observations move to them, and
    contiene/parte_de relations tie them to the original or another parent. All of it happens, or
    nothing. A part that exists with the same type takes the observations in."""

    entity_name: Annotated[EntityName, Meta(description="Exact name of the entity to split.")]
    approved_splits: Annotated[
        list[SplitInput],
        Meta(
            min_length=1,
            max_length=MAX_SPLITS,
            description="The parts, up to 50; an observation goes to one of them.",
        ),
    ]
    parent_entity_name: Annotated[
        EntityName | None,
        Meta(description="Existing entity that the parts belong to; left out: the original."),
    ] = None


class FindSplitCandidates(Arguments, frozen=True):
    """Find all entities that have grown too large for their type, with the topics of their
    observations, those most over their threshold first. Changes nothing."""


class FindDuplicateObservations(Arguments, frozen=True):
    """Find observations of an entity that may say the same: alike in meaning, or one largely
    contained in another at least twice as long. Needs the embedding model. Changes nothing; delete
    what is superfluous with delete_observations."""

    entity_name: Annotated[EntityName, Meta(description="Exact name of the entity.")]
    threshold: Annotated[
        float, Meta(ge=0.0, le=1.0, description="Least cosine similarity, 0-1.")
    ] = 0.85
    containment_threshold: Annotated[
        float,
        Meta(ge=0.0, le=1.0, description="Least share of the shorter text's words, 0-1."),
    ] = 0.7


class ConsolidationReport(Arguments, frozen=True):
    """Report what in the knowledge graph may need care: entities to split, observations that
    resemble others, entities that nobody looks at, and large ones. Changes nothing."""

    stale_days: Annotated[
        float,
        Meta(ge=0.0, le=36_500.0, description="Days without access that make an entity stale."),
    ] = 90.0


class Migrate(Arguments, frozen=True):
    """Import the memory file (JSON lines) of Anthropic's memory server. Safe to repeat: entities
    that exist get what is new, known observations and relations are kept once. Lines that cannot
    be read are skipped and listed."""

    source_path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="Path of the file, such as ~/memory.jsonl. Over HTTP it must be in the "
            "server's import directory.",
        ),
    ]


Query = Annotated[
    str,
    Meta(min_length=1, max_length=500, pattern=NOT_BLANK, description="What to look for."),
]
Results = Annotated[int, Meta(ge=1, le=MAX_RESULTS, description="How many results at most, 1-100.")]
Short = Annotated[str, Meta(min_length=1, max_length=64, pattern=NO_CONTROLS)]
Target = Literal["entity", "session", "relation", "global"]


class SearchSemantic(Arguments, frozen=True):
    """Find entities by meaning and words, best first. What is used often, recently and together
    ranks higher. Needs the embedding model."""

    query: Query
    limit: Results = 10


class AddReflection(Arguments, frozen=True):
    """Add a reflection in free prose: what something means, rather than what is so. It is about
    an entity, a relation, the session, or everything."""

    target_type: Annotated[Target, Meta(description="What it is about.")]
    content: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_REFLECTION,
            pattern=NOT_BLANK,
            description="Free prose, up to 5000 characters.",
        ),
    ]
    author: Annotated[Short, Meta(description="Who reflects, e.g. nolan or sofia.")] = "sofia"
    mood: Annotated[
        Short | None, Meta(description="E.g. insight, duda, satisfaccion; any short word.")
    ] = None
    target_id: Annotated[
        Annotated[int, Meta(gt=0, le=2**53 - 1)] | None,
        Meta(description="Id of the entity or relation; none for session and global."),
    ] = None


class SearchReflections(Arguments, frozen=True):
    """Find reflections by meaning and words, best first, by author, mood or target_type if wanted.
    Needs the embedding model."""

    query: Query
    author: Annotated[Short | None, Meta(description="Only this author's.")] = None
    mood: Annotated[Short | None, Meta(description="Only those of this mood.")] = None
    target_type: Annotated[Target | None, Meta(description="Only those about this.")] = None
    limit: Results = 10


class EntityCreated(Fact, frozen=True, tag="graph.entity_created"):
    entity_id: int
    name: str
    entity_type: str


class EntityTypeChanged(Fact, frozen=True, tag="graph.entity_type_changed"):
    entity_id: int
    entity_type: str


class ObservationsAdded(Fact, frozen=True, tag="graph.observations_added"):
    """`flagged` are places in `observations` of those that resemble one the entity had."""

    entity_id: int
    observations: list[str]
    flagged: list[int] = []


class ObservationsRemoved(Fact, frozen=True, tag="graph.observations_removed"):
    entity_id: int
    observations: list[str]


class SplitPart(msgspec.Struct, frozen=True):
    """An entity that observations were moved to, and how many."""

    entity_id: int
    name: str
    moved: int


class EntitySplit(Fact, frozen=True, tag="graph.entity_split"):
    """Observations of an entity moved to others. It tells why the facts after it happened, which
    carry the split out: entities created, observations removed and added, relations created."""

    entity_id: int
    name: str
    parts: list[SplitPart]
    parent_id: int


class RelationKept(msgspec.Struct, frozen=True):
    """What a relation said, for the record of its end."""

    relation_id: int
    source: str
    target: str
    relation_type: str


class EntityDeleted(Fact, frozen=True, tag="graph.entity_deleted"):
    """An entity is gone, and what it said, and the relations that touched it, with it."""

    entity_id: int
    name: str
    entity_type: str
    observations: list[str]
    relations: list[RelationKept]


class RelationCreated(Fact, frozen=True, tag="graph.relation_created"):
    relation_id: int
    source_id: int
    target_id: int
    relation_type: str


class RelationEnded(Fact, frozen=True, tag="graph.relation_ended"):
    relation_id: int


class RelationDeleted(Fact, frozen=True, tag="graph.relation_deleted"):
    relation: RelationKept


class EntitiesAccessed(Fact, frozen=True, tag="graph.entities_accessed"):
    entity_ids: list[int]


class EntitiesCoOccurred(Fact, frozen=True, tag="graph.entities_co_occurred"):
    """These were returned together: each pair of them co-occurred once."""

    entity_ids: list[int]


class GraphImported(Fact, frozen=True, tag="graph.graph_imported"):
    """A file was imported to its end, in calls of its own before this one. `source` is the file's
    name without its directory; `errors` are observations that were left out, `skipped` lines."""

    sha256: str
    source: str
    entities: int
    relations: int
    errors: int = 0
    skipped: int = 0


class EntityDescribed(Fact, frozen=True, tag="graph.entity_described"):
    """How an entity of one version reads as a text, for the search by words and by meaning.
    `embedding` is None where `model` does not cover the text's script."""

    entity_id: int
    version: int
    text: str
    model: str
    embedding: int | None = None


class ReflectionAdded(Fact, frozen=True, tag="graph.reflection_added"):
    reflection_id: int
    target_type: str
    author: str
    content: str
    target_id: int | None = None
    mood: str | None = None


class ReflectionEmbedded(Fact, frozen=True, tag="graph.reflection_embedded"):
    """`embedding` is None where `model` does not cover the text's script."""

    reflection_id: int
    model: str
    embedding: int | None = None


LANGUAGE = Language(
    name="graph",
    facts=(
        EntityDescribed,
        ReflectionAdded,
        ReflectionEmbedded,
        EntityCreated,
        EntityTypeChanged,
        ObservationsAdded,
        ObservationsRemoved,
        EntitySplit,
        EntityDeleted,
        RelationCreated,
        RelationEnded,
        RelationDeleted,
        EntitiesAccessed,
        EntitiesCoOccurred,
        GraphImported,
    ),
)
