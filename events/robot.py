"""The robot family's language: what can be asked, and what can have happened."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from mnemolog.events.arguments import Arguments, Name
from mnemolog.events.codec import Fact
from mnemolog.events.language import Body, Language, Upcast

MAX_INSIGHT = 300
MAX_FILTER_CONDITIONS = 10
MAX_CONTEXT_BYTES = 64 * 1024
"""Of a context as JSON text, and of what else is given as JSON, except for `MAX_DATA_BYTES`."""
MAX_DATA_BYTES = 256 * 1024
"""Of a perception's data as JSON text."""
PROTECTED = ("constraint", "gotcha", "postmortem")
"""Categories that neither fade nor get merged."""

JsonObject = str | dict[str, Any]
PerceptionType = Literal["visual", "tactile", "auditory", "proprioceptive", "procedural"]
MemoryId = Annotated[
    int, Meta(gt=0, le=2**53 - 1, description="Id of the memory, as learn or recall gave it.")
]
Collection = Annotated[
    Name, Meta(description="Logical namespace that groups memories, such as one task or fleet.")
]
_Insight = Annotated[
    str,
    Meta(
        min_length=1,
        description="The experience in one or two sentences, 1-300 characters; longer text is "
        "trimmed to 300. Include the numbers, objects and conditions that make it useful later.",
    ),
]
_Context = Annotated[
    JsonObject,
    Meta(
        description="JSON object, usually as text, with the partitions params, spatial, robot, "
        'task and env, e.g. {"params": {"grip_force": {"value": 12.5, "unit": "N"}}, '
        '"spatial": {"object_position": [1.3, 0.7, 0.42]}, "task": {"success": true}, '
        '"env": {"sim_or_real": "real"}}. recall can filter and sort by any path in it. '
        "At most 64 KiB."
    ),
]
_Session = Annotated[str | None, Meta(description="Session from start_session to link this to.")]


class Learn(Arguments, frozen=True):
    """Record a lesson, fact, strategy or observation so that every robot can recall it. Category,
    tags and confidence are inferred; a text that says what a stored one already says is not stored
    twice: the reply then names the existing memory."""

    insight: _Insight
    context: _Context = ""
    collection: Collection = "default"
    session_id: _Session = None


class Recall(Arguments, frozen=True):
    """Find relevant memories by meaning and by words (BM25 and vectors, fused). Use it before
    acting, with a plain-language description of the situation."""

    query: Annotated[
        str, Meta(min_length=1, max_length=2000, description="What to look for, in plain language.")
    ]
    collection: Collection = "default"
    n: Annotated[int, Meta(ge=1, le=100, description="How many memories to return, 1-100.")] = 5
    min_confidence: Annotated[
        float, Meta(ge=0.0, le=1.0, description="Leave out memories below this confidence, 0-1.")
    ] = 0.3
    session_id: Annotated[
        str | None, Meta(description="Only memories of this session, ended or not.")
    ] = None
    context_filter: Annotated[
        JsonObject | None,
        Meta(
            description="JSON object, usually as text: dot-paths into the context with a value "
            '(equality) or operators $lt, $lte, $gt, $gte, $ne, e.g. {"task.success": true, '
            '"params.force.value": {"$gte": 10, "$lte": 20}}. All must hold; at most 10 conditions.'
        ),
    ] = None
    spatial_sort: Annotated[
        JsonObject | None,
        Meta(
            description="JSON object, usually as text: order by distance to a point, e.g. "
            '{"field": "spatial.object_position", "target": [1.3, 0.7, 0.42], '
            '"max_distance": 0.1}; max_distance is optional.'
        ),
    ] = None


class SavePerception(Arguments, frozen=True):
    """Store a perception, trajectory or sensor reading with a description it can be found by.
    Perceptions are recordings: they are never judged duplicates."""

    description: Annotated[
        str,
        Meta(
            min_length=5,
            max_length=2000,
            description="What was perceived, in words; at least 5 characters.",
        ),
    ]
    perception_type: Annotated[PerceptionType, Meta(description="The sense it came by.")] = "visual"
    data: Annotated[
        JsonObject | None,
        Meta(
            description="JSON object, usually as text: actions, trajectories, readings. "
            "At most 256 KiB."
        ),
    ] = None
    metadata: Annotated[
        JsonObject | None,
        Meta(
            description="JSON object, usually as text: format, sample rate, units. At most 64 KiB."
        ),
    ] = None
    collection: Collection = "default"
    session_id: _Session = None


class Forget(Arguments, frozen=True):
    """Invalidate a memory that is wrong. It no longer comes back from recall; who forgot it, when
    and why stays in the audit trail."""

    memory_id: MemoryId
    reason: Annotated[
        str, Meta(min_length=1, max_length=1000, description="Why the memory is wrong.")
    ]


class Update(Arguments, frozen=True):
    """Correct a memory's content. Category, tags and embedding are made anew; the old content
    stays in the audit trail."""

    memory_id: MemoryId
    new_content: _Insight
    context: Annotated[
        JsonObject,
        Meta(description="New context JSON, at most 64 KiB; left empty, the old context stays."),
    ] = ""


class StartSession(Arguments, frozen=True):
    """Begin an episode of work. Link memories to it with its session_id, and end it with
    end_session."""

    collection: Collection = "default"
    context: Annotated[
        JsonObject | None,
        Meta(description="JSON object, usually as text: robot, environment, task. At most 64 KiB."),
    ] = None


class EndSession(Arguments, frozen=True):
    """End an episode: lets unused memories of the collection fade, merges near-duplicates learned
    in the session, and returns a summary with related earlier memories."""

    session_id: Annotated[
        str, Meta(min_length=1, max_length=100, description="Session id from start_session.")
    ]
    outcome_score: Annotated[
        Annotated[float, Meta(ge=0.0, le=1.0)] | None,
        Meta(description="How well the episode went, 0-1."),
    ] = None


class MemoryLearned(Fact, frozen=True, tag="robot.memory_learned"):
    """A memory came to be. `embedding` is the place of its vector in the decision's inputs."""

    memory_id: int
    collection: str
    content: str
    category: str
    tags: list[str]
    confidence: float
    kind: str = "fact"
    context: str = ""
    scope_files: list[str] = []
    session_id: str | None = None
    perception_type: str | None = None
    data: str | None = None
    metadata: str | None = None
    embedding: int | None = None


class DuplicateFound(Fact, frozen=True, tag="robot.duplicate_found"):
    """Somebody said again what memory `existing_id` already says."""

    existing_id: int
    method: str
    similarity: float


class MemoryUpdated(Fact, frozen=True, tag="robot.memory_updated"):
    """A memory says something else now; `version` counts its contents from 1."""

    memory_id: int
    version: int
    content: str
    context: str
    category: str
    tags: list[str]
    confidence: float
    scope_files: list[str]
    session_id: str | None = None
    embedding: int | None = None


class MemoryForgotten(Fact, frozen=True, tag="robot.memory_forgotten"):
    memory_id: int
    reason: str


class MemoriesRecalled(Fact, frozen=True, tag="robot.memories_recalled"):
    """A recall returned these: they count as accessed at the decision's time."""

    memory_ids: list[int]


class SessionStarted(Fact, frozen=True, tag="robot.session_started"):
    session_id: str
    collection: str
    context: str = ""


class SessionEnded(Fact, frozen=True, tag="robot.session_ended"):
    session_id: str
    outcome_score: float | None = None


class MemoriesDecayed(Fact, frozen=True, tag="robot.memories_decayed/2"):
    """The rule that was applied to a whole collection at the decision's time: confidence times
    (1 - rate) to the power of the days since last access, creation or decay. Memories of the
    categories in `spared` did not fade."""

    collection: str
    rate: float
    min_days: float
    floor: float
    spared: list[str]


def decayed_v1_v2(body: Body) -> Body:
    """Which categories were spared was not said; it was these."""
    return {**body, "spared": ["constraint", "gotcha", "postmortem"]}


class MemoriesConsolidated(Fact, frozen=True, tag="robot.memories_consolidated"):
    """`superseded` were merged into `kept`; they can be brought back."""

    session_id: str
    kept: int
    superseded: list[int]


class Embedded(Fact, frozen=True, tag="robot.embedded"):
    """A vector that was made after the reply: the model was missing then, or is a new one.
    It holds only while the memory's content still has this hash."""

    memory_id: int
    version: int
    content_hash: str
    confidence: float
    embedding: int
    session_id: str | None = None


LANGUAGE = Language(
    name="robot",
    facts=(
        MemoryLearned,
        DuplicateFound,
        MemoryUpdated,
        MemoryForgotten,
        MemoriesRecalled,
        SessionStarted,
        SessionEnded,
        MemoriesDecayed,
        MemoriesConsolidated,
        Embedded,
    ),
    upcasts=(Upcast("robot.memories_decayed", "robot.memories_decayed/2", decayed_v1_v2),),
)
