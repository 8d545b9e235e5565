"""The episodes family's language: what can be asked, and what can have happened.

An episode is one task that an agent worked on: its steps, how it ended, what was learned from it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mnemolog.events.arguments import NO_CONTROLS, NOT_BLANK, Arguments
from mnemolog.events.codec import Fact
from mnemolog.events.language import Language

MAX_STEPS = 1000
MAX_STEP_BYTES = 64 * 1024
"""Of a step's parameters, and of its result, as JSON."""
MAX_TAGS = 50
MAX_BULK = 100
MAX_ITEMS = 100
MAX_RESULTS = 100
MAX_PAGE = 1000
MAX_OFFSET = 1_000_000
MAX_PATTERNS = 200
MAX_CODE_BYTES = 256 * 1024
MAX_BATCH = 2048
BATCH = 64
MAX_RELATIONSHIPS = 1000
"""Of one episode: a graph of them is walked."""

TaskType = Annotated[
    Literal["code_generation", "debugging", "refactoring", "testing", "analysis", "documentation"],
    Meta(description="Type of task."),
]
Complexity = Annotated[
    Literal["simple", "moderate", "complex"], Meta(description="How complex the task is.")
]
OutcomeType = Annotated[
    Literal["success", "partial_success", "failure"], Meta(description="How the episode ended.")
]
RelationshipType = Annotated[
    Literal[
        "parent_child", "depends_on", "follows", "related_to", "blocks", "duplicates", "references"
    ],
    Meta(description="Type of relationship."),
]
ACYCLIC = ("parent_child", "depends_on", "blocks")
"""Relationships of these types never lead back to where they began."""
Provider = Literal["openai", "local", "mistral", "azure", "cohere"]

EpisodeId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="Episode UUID.",
        examples=["550e8400-e29b-41d4-a716-446655440001"],
    ),
]
Ids = Annotated[
    list[EpisodeId], Meta(min_length=1, max_length=MAX_BULK, description="Episode UUIDs.")
]
Description = Annotated[
    str,
    Meta(min_length=1, max_length=4000, pattern=NOT_BLANK, description="Description of the task."),
]
Sentence = Annotated[str, Meta(min_length=1, max_length=4000, pattern=NOT_BLANK)]
Query = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4000,
        pattern=NOT_BLANK,
        description="What to look for, in natural language.",
    ),
]
Domain = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        pattern=NO_CONTROLS,
        description="Task domain, e.g. 'web-api'.",
        examples=["web-api"],
    ),
]
Label = Annotated[str, Meta(min_length=1, max_length=128, pattern=NO_CONTROLS)]
TagText = Annotated[str, Meta(max_length=300)]
"""Trimmed and lower-cased a tag has 2 to 100 characters."""
Tags = Annotated[list[TagText], Meta(max_length=MAX_TAGS, description="Tags.")]
SomeTags = Annotated[
    list[TagText], Meta(min_length=1, max_length=MAX_TAGS, description="Tags, at least one.")
]
Items = Annotated[list[Sentence], Meta(max_length=MAX_ITEMS)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Limit = Annotated[int, Meta(ge=1, le=MAX_RESULTS, description="Maximum results.")]
PageLimit = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Maximum episodes.")]
PatternLimit = Annotated[int, Meta(ge=1, le=MAX_PATTERNS, description="Maximum patterns.")]


# --- episodes ------------------------------------------------------------------------------------


class CreateEpisode(Arguments, frozen=True):
    """Create a new episode to track task execution. Call it before a task, then add_episode_step
    for each step, then complete_episode."""

    task_description: Annotated[Description, Meta(description="Clear description of the task.")]
    domain: Domain
    task_type: TaskType
    language: Annotated[Label | None, Meta(description="Programming language.")] = None
    framework: Annotated[Label | None, Meta(description="Framework name.")] = None
    tags: Annotated[Tags | None, Meta(description="Context tags, 2-100 characters each.")] = None
    complexity: Complexity | None = None


class AddEpisodeStep(Arguments, frozen=True):
    """Add an execution step to an ongoing episode."""

    episode_id: EpisodeId
    step_number: Annotated[
        int,
        Meta(ge=1, le=2**31, description="Sequential step number; each once in an episode."),
    ]
    tool: Annotated[Label, Meta(description="Tool or component name.")]
    action: Annotated[Sentence, Meta(description="Description of the action.")]
    parameters: Annotated[dict[str, Any] | None, Meta(description="Parameters used.")] = None
    result: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Result with type (success, error, timeout), output, message.",
            examples=[{"type": "success", "output": "Requirements analyzed"}],
        ),
    ] = None
    latency_ms: Annotated[
        Annotated[int, Meta(ge=0, le=2**40)] | None,
        Meta(description="Execution time in milliseconds."),
    ] = None


class CompleteEpisode(Arguments, frozen=True):
    """Complete an episode and trigger the learning cycle: reward, reflection and patterns. A
    success and a partial success need a verdict, a partial success completed and failed, a failure
    a reason."""

    episode_id: EpisodeId
    outcome_type: OutcomeType
    verdict: Annotated[
        Sentence | None, Meta(description="Outcome description (success, partial_success).")
    ] = None
    artifacts: Annotated[Items | None, Meta(description="Artifact names (success).")] = None
    completed: Annotated[Items | None, Meta(description="Completed items (partial_success).")] = (
        None
    )
    failed: Annotated[Items | None, Meta(description="Failed items (partial_success).")] = None
    reason: Annotated[Sentence | None, Meta(description="Failure reason (failure).")] = None
    error_details: Annotated[Sentence | None, Meta(description="Error details (failure).")] = None


class GetEpisode(Arguments, frozen=True):
    """Get complete details of an episode: steps, outcome, reward, reflection and patterns."""

    episode_id: EpisodeId


class DeleteEpisode(Arguments, frozen=True):
    """Delete an episode permanently, with its steps, tags and relationships; patterns lose its
    evidence. That it was there, and who deleted it, stays in the audit trail."""

    episode_id: EpisodeId
    confirm: Annotated[bool, Meta(description="Must be true to confirm.")]


class GetEpisodeTimeline(Arguments, frozen=True):
    """Get the chronological timeline of an episode's steps."""

    episode_id: EpisodeId


class BulkEpisodes(Arguments, frozen=True):
    """Retrieve multiple episodes by their ids, at most 100; those that do not exist are named."""

    episode_ids: Ids


class QueryMemory(Arguments, frozen=True):
    """Query episodic memory for relevant past experiences, by words and meaning. The domain weighs,
    task_type filters."""

    query: Annotated[Query, Meta(description="Search query describing the task.")]
    domain: Domain
    task_type: TaskType | None = None
    limit: Limit = 10
    sort: Annotated[
        Literal["relevance", "newest", "oldest", "duration", "success"],
        Meta(description="What comes first; duration: the quickest, success: what succeeded."),
    ] = "relevance"


# --- patterns ------------------------------------------------------------------------------------


class AnalyzePatterns(Arguments, frozen=True):
    """Analyze the patterns that past episodes of a type of task have shown."""

    task_type: TaskType
    min_success_rate: Annotated[Share, Meta(description="Minimum success rate, 0-1.")] = 0.7
    limit: PatternLimit = 20


class SearchPatterns(Arguments, frozen=True):
    """Search for patterns semantically similar to a query."""

    query: Annotated[Query, Meta(description="Natural language query.")]
    domain: Domain
    tags: Tags | None = None
    limit: Limit = 5
    min_relevance: Annotated[Share, Meta(description="Minimum relevance, 0-1.")] = 0.3
    filter_by_domain: Annotated[bool, Meta(description="Only patterns of the domain.")] = False


class RecommendPatterns(Arguments, frozen=True):
    """Get pattern recommendations for a specific task, before it is begun."""

    task_description: Description
    domain: Domain
    tags: Tags | None = None
    limit: Limit = 3


class AnalysisConfig(Arguments, frozen=True):
    """How series are analysed."""

    forecast_horizon: Annotated[int, Meta(ge=1, le=100, description="Points to forecast.")] = 10
    anomaly_sensitivity: Annotated[Share, Meta(description="Higher finds more, 0-1.")] = 0.5
    enable_causal_inference: Annotated[bool, Meta(description="Whether to look for causes.")] = True
    significance_level: Annotated[
        float, Meta(gt=0.0, le=0.5, description="p-values below this are significant.")
    ] = 0.05


class AdvancedPatternAnalysis(Arguments, frozen=True):
    """Statistical analysis and forecasting on time series: correlations, change points, trends,
    forecasts, anomalies and causes, with their p-values and bounds."""

    time_series_data: Annotated[
        dict[str, Any],
        Meta(
            description="Variable name to array of values, all of one length.",
            examples=[{"episode_duration": [100, 120, 110, 130, 125]}],
        ),
    ]
    analysis_type: Annotated[
        Literal["statistical", "predictive", "comprehensive"],
        Meta(description="What to compute; comprehensive: both."),
    ]
    config: AnalysisConfig | None = None


class EpisodeFilter(Arguments, frozen=True):
    """Which episodes; what is left out does not matter."""

    domain: Domain | None = None
    task_type: TaskType | None = None
    tags: Tags | None = None
    success_only: Annotated[bool, Meta(description="Only successful ones.")] = False


class BatchQueryEpisodes(Arguments, frozen=True):
    """Query multiple episodes with filtering, paging and statistics."""

    episode_ids: Annotated[Ids | None, Meta(description="Specific episode ids.")] = None
    filter: EpisodeFilter | None = None
    include_steps: Annotated[bool, Meta(description="Show the steps.")] = True
    include_patterns: Annotated[bool, Meta(description="Show the patterns.")] = False
    include_reflections: Annotated[bool, Meta(description="Show the reflections.")] = False
    limit: PageLimit = 100
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET, description="Episodes to skip.")] = 0
    aggregate_stats: Annotated[bool, Meta(description="Statistics over all of them, too.")] = True


class TimeRange(Arguments, frozen=True):
    """From `start` on and before `end`; ISO 8601."""

    start: Annotated[str, Meta(max_length=64, description="From here on.")] | None = None
    end: Annotated[str, Meta(max_length=64, description="Before this.")] | None = None


class BatchPatternAnalysis(Arguments, frozen=True):
    """Analyze patterns across multiple episodes: which lead to success, which do not."""

    domain: Domain
    task_type: TaskType | None = None
    time_range: Annotated[TimeRange | None, Meta(description="Start and end, ISO 8601.")] = None
    min_episodes: Annotated[
        int, Meta(ge=1, le=1000, description="Minimum episodes that show a pattern.")
    ] = 3
    min_success_rate: Annotated[Share, Meta(description="Minimum success rate, 0-1.")] = 0.6
    include_anti_patterns: Annotated[bool, Meta(description="Low-success patterns, too.")] = True
    limit: PatternLimit = 50


Metric = Literal["duration", "reward_score", "step_count", "success_rate", "error_rate", "latency"]


class BatchCompareEpisodes(Arguments, frozen=True):
    """Compare 2 to 10 episodes: metrics side by side, approaches, and what the data says."""

    episode_ids: Annotated[
        list[EpisodeId], Meta(min_length=2, max_length=10, description="Episode UUIDs, 2-10.")
    ]
    compare_metrics: (
        Annotated[
            list[Metric],
            Meta(min_length=1, max_length=10, description="Metrics to compare; all when left out."),
        ]
        | None
    ) = None
    compare_approaches: Annotated[bool, Meta(description="Compare tools and their order.")] = True
    generate_insights: Annotated[bool, Meta(description="Say what the data shows.")] = True


# --- tags ----------------------------------------------------------------------------------------


class AddEpisodeTags(Arguments, frozen=True):
    """Add tags to an episode. Tags are trimmed and lower-cased, 2 to 100 characters each."""

    episode_id: EpisodeId
    tags: SomeTags


class RemoveEpisodeTags(Arguments, frozen=True):
    """Remove tags from an episode."""

    episode_id: EpisodeId
    tags: SomeTags


class SetEpisodeTags(Arguments, frozen=True):
    """Set or replace all tags of an episode; an empty list takes all away."""

    episode_id: EpisodeId
    tags: Tags


class GetEpisodeTags(Arguments, frozen=True):
    """Get the tags of an episode."""

    episode_id: EpisodeId


class SearchEpisodesByTags(Arguments, frozen=True):
    """Search episodes by tags, the newest first."""

    tags: SomeTags
    require_all: Annotated[bool, Meta(description="All tags (true) or any (false).")] = False
    limit: PageLimit = 100


# --- relationships -------------------------------------------------------------------------------


class AddEpisodeRelationship(Arguments, frozen=True):
    """Add a relationship between two episodes. depends_on, parent_child and blocks stay acyclic."""

    from_episode_id: EpisodeId
    to_episode_id: EpisodeId
    relationship_type: RelationshipType
    reason: Annotated[Sentence | None, Meta(description="Explanation.")] = None
    priority: Annotated[
        Annotated[int, Meta(ge=1, le=10)] | None, Meta(description="Priority 1-10.")
    ] = None
    created_by: Annotated[Label | None, Meta(description="Creator identifier.")] = None


class RemoveEpisodeRelationship(Arguments, frozen=True):
    """Remove a relationship."""

    relationship_id: Annotated[
        str, Meta(min_length=1, max_length=64, description="Relationship UUID.")
    ]


class GetEpisodeRelationships(Arguments, frozen=True):
    """Get the relationships of an episode."""

    episode_id: EpisodeId
    direction: Annotated[
        Literal["outgoing", "incoming", "both"], Meta(description="Which way they lead.")
    ] = "both"
    relationship_type: RelationshipType | None = None


class FindRelatedEpisodes(Arguments, frozen=True):
    """Find episodes that a given episode is related to, in either direction."""

    episode_id: EpisodeId
    relationship_type: RelationshipType | None = None
    limit: Limit = 10
    include_metadata: Annotated[bool, Meta(description="Show the relationships, too.")] = False


class CheckRelationshipExists(Arguments, frozen=True):
    """Check if a relationship exists."""

    from_episode_id: EpisodeId
    to_episode_id: EpisodeId
    relationship_type: RelationshipType


class GetDependencyGraph(Arguments, frozen=True):
    """Get the graph of relationships around an episode, for visualization."""

    episode_id: EpisodeId
    depth: Annotated[int, Meta(ge=1, le=5, description="Maximum depth (1-5).")] = 2
    format: Annotated[Literal["json", "dot"], Meta(description="json, or dot for Graphviz.")] = (
        "json"
    )


class ValidateNoCycles(Arguments, frozen=True):
    """Check if adding a relationship would create a cycle."""

    from_episode_id: EpisodeId
    to_episode_id: EpisodeId
    relationship_type: RelationshipType


class GetTopologicalOrder(Arguments, frozen=True):
    """Get a topological ordering of episodes: what others depend on comes first."""

    episode_ids: Ids


# --- embeddings, monitoring, code ----------------------------------------------------------------


class ConfigureEmbeddings(Arguments, frozen=True):
    """Configure which model makes the vectors of your episodes and patterns. It is asked once
    before anything changes; then everything is embedded anew in the background, which
    test_embeddings tells of. Provider local without a model is the service's own. Keys are never
    sent to this tool: name the environment variable that holds one."""

    provider: Annotated[Provider, Meta(description="openai, local, mistral, azure or cohere.")]
    model: Annotated[
        Label | None, Meta(description="Model name; for azure the name of the deployment.")
    ] = None
    api_key_env: Annotated[
        Annotated[str, Meta(min_length=1, max_length=500)] | None,
        Meta(
            description="Name of the environment variable of the service that holds the API key.",
            examples=["OPENAI_API_KEY"],
        ),
    ] = None
    base_url: Annotated[
        Annotated[str, Meta(min_length=1, max_length=2000)] | None,
        Meta(description="Custom base URL, of a host that the service's operator allows."),
    ] = None
    batch_size: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_BATCH)] | None,
        Meta(description="Texts embedded at once (1-2048); 64 unless told."),
    ] = None
    similarity_threshold: Annotated[
        Share | None,
        Meta(description="Minimum similarity of query_semantic_memory where it is given none."),
    ] = None


class TryEmbeddings(Arguments, frozen=True):
    """Test the embedding provider: whether it answers, how fast, and how much is embedded."""


class QuerySemanticMemory(Arguments, frozen=True):
    """Search episodic memory using semantic similarity alone."""

    query: Query
    domain: Annotated[Domain | None, Meta(description="Filter by domain.")] = None
    task_type: TaskType | None = None
    limit: Limit = 10
    similarity_threshold: Annotated[
        Share | None,
        Meta(description="Minimum similarity; 0.7, or what configure_embeddings was given."),
    ] = None


class HealthCheck(Arguments, frozen=True):
    """Check the server's health."""


class GetMetrics(Arguments, frozen=True):
    """Get monitoring metrics."""

    metric_type: Annotated[
        Literal["all", "performance", "episodes", "system"], Meta(description="Which metrics.")
    ] = "all"


class QualityMetrics(Arguments, frozen=True):
    """Get memory quality metrics: how good episodes are, and where that goes."""

    time_range: Annotated[
        Literal["24h", "7d", "30d", "90d", "all"], Meta(description="How far back to look.")
    ] = "7d"
    quality_threshold: Annotated[Share, Meta(description="What counts as good, 0-1.")] = 0.7
    include_trends: Annotated[bool, Meta(description="Where quality goes, too.")] = True


class CodeContext(Arguments, frozen=True):
    """What code is run with."""

    task: Annotated[Description, Meta(description="Task description.")]
    input: Annotated[Any, Meta(description="Input data as JSON.")]


class ExecuteAgentCode(Arguments, frozen=True):
    """Execute TypeScript or JavaScript in a sandbox without any permission. `input` and `task` are
    at hand; the value of the last expression is the reply."""

    code: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_CODE_BYTES,
            pattern=NOT_BLANK,
            description="TypeScript or JavaScript.",
        ),
    ]
    context: CodeContext


# --- facts ---------------------------------------------------------------------------------------


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an episode ended."""

    type: str
    verdict: str | None = None
    artifacts: list[str] = []
    completed: list[str] = []
    failed: list[str] = []
    reason: str | None = None
    error_details: str | None = None


class Reward(msgspec.Struct, frozen=True):
    """total = base × efficiency × complexity × quality + learning."""

    total: float
    base: float
    efficiency: float
    complexity: float
    quality: float
    learning: float


class Reflection(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an episode's own steps say about it."""

    successes: list[str] = []
    improvements: list[str] = []
    insights: list[str] = []


class EpisodeCreated(Fact, frozen=True, tag="episodes.episode_created"):
    """`number` is the state's, `episode_id` the caller's."""

    number: int
    episode_id: str
    task_description: str
    domain: str
    task_type: str
    language: str | None = None
    framework: str | None = None
    tags: list[str] = []
    complexity: str | None = None


class StepAdded(Fact, frozen=True, tag="episodes.step_added"):
    """`parameters` and `result` are JSON."""

    number: int
    step_number: int
    tool: str
    action: str
    failed: bool = False
    result_type: str | None = None
    parameters: str | None = None
    result: str | None = None
    latency_ms: int | None = None


class EpisodeCompleted(Fact, frozen=True, tag="episodes.episode_completed"):
    """`text` is what it is found by in words, now that it has ended; `success` is the share of it
    that succeeded."""

    number: int
    outcome: Outcome
    success: float
    reward: Reward
    reflection: Reflection
    text: str


class EpisodeTagged(Fact, frozen=True, tag="episodes.episode_tagged"):
    """`text` is what it is found by in words from now on."""

    number: int
    text: str
    added: list[str] = []
    removed: list[str] = []


class EpisodeDeleted(Fact, frozen=True, tag="episodes.episode_deleted"):
    """`patterns` have no evidence but this episode's, and are gone with it; so are its
    `relationships`."""

    number: int
    episode_id: str
    task_description: str
    status: str
    steps: int
    outcome: str | None = None
    patterns: list[int] = []
    relationships: list[int] = []


class PatternFound(Fact, frozen=True, tag="episodes.pattern_found"):
    """Something that an episode showed and none before it. `key` tells it from others; `text` is
    what it is found by; `tools` are those that it is about."""

    pattern: int
    kind: str
    key: str
    domain: str
    task_type: str
    description: str
    text: str
    tools: list[str] = []
    tags: list[str] = []


class PatternSeen(Fact, frozen=True, tag="episodes.pattern_seen"):
    """An episode is evidence of a pattern; `success` is how far the episode succeeded."""

    pattern: int
    number: int
    success: float


class RelationshipAdded(Fact, frozen=True, tag="episodes.relationship_added"):
    relationship: int
    relationship_id: str
    source: int
    target: int
    relationship_type: str
    reason: str | None = None
    priority: int | None = None
    created_by: str | None = None


class RelationshipRemoved(Fact, frozen=True, tag="episodes.relationship_removed"):
    """`source_id` and `target_id` are the episodes' own ids."""

    relationship: int
    relationship_id: str
    source: int
    target: int
    source_id: str
    target_id: str
    relationship_type: str


class EpisodeEmbedded(Fact, frozen=True, tag="episodes.episode_embedded"):
    """`embedding` is a place in the decision's inputs; None: the model does not cover the text."""

    number: int
    version: int
    model: str
    embedding: int | None = None


class PatternEmbedded(Fact, frozen=True, tag="episodes.pattern_embedded"):
    pattern: int
    model: str
    embedding: int | None = None


class EmbeddingsConfigured(Fact, frozen=True, tag="episodes.embeddings_configured"):
    """From now on `name` makes the space's vectors; empty: the service's own model does. The key is
    in the variable `api_key_env`, and nowhere else."""

    name: str
    provider: str
    model: str = ""
    api_key_env: str = ""
    base_url: str = ""
    batch_size: int = BATCH
    similarity_threshold: float | None = None
    dims: int = 0


class MeaningProvided(Fact, frozen=True, tag="episodes.meaning_provided"):
    """A vector of an episode or a pattern, by the model that the space is configured for, unit
    length and float16. None: the model does not cover the text."""

    kind: str
    number: int
    version: int
    model: str
    vector: bytes | None = None


class CodeExecuted(Fact, frozen=True, tag="episodes.code_executed"):
    """The code is in the call, and what came of it in the reply. Code that failed is a refused
    call."""

    sha256: str


LANGUAGE = Language(
    name="episodes",
    facts=(
        EpisodeCreated,
        StepAdded,
        EpisodeCompleted,
        EpisodeTagged,
        EpisodeDeleted,
        PatternFound,
        PatternSeen,
        RelationshipAdded,
        RelationshipRemoved,
        EpisodeEmbedded,
        PatternEmbedded,
        EmbeddingsConfigured,
        MeaningProvided,
        CodeExecuted,
    ),
)
