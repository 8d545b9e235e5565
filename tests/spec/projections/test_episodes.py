"""What each fact about episodes does to the state, the text index and the vectors."""

from __future__ import annotations

import numpy as np
import pytest

from mnemolog.events.codec import Fact, tag_of
from mnemolog.events.episodes import (
    LANGUAGE,
    CodeExecuted,
    EmbeddingsConfigured,
    EpisodeCompleted,
    EpisodeCreated,
    EpisodeDeleted,
    EpisodeEmbedded,
    EpisodeTagged,
    MeaningProvided,
    PatternEmbedded,
    PatternFound,
    PatternSeen,
    RelationshipAdded,
    RelationshipRemoved,
    StepAdded,
)
from mnemolog.projections.described import index_space
from mnemolog.projections.episodes import patterns, relationships, state
from mnemolog.projections.episodes import provided as chosen
from mnemolog.projections.episodes.patterns import Evidence
from mnemolog.projections.episodes.state import DESCRIBED, EPISODE, PATTERN, Episode, Step
from tests.spec.given import MODEL, NORTH, NOW_US, days
from tests.spec.projections.episode_words import (
    CHOSEN,
    begun,
    completed,
    configured,
    executed,
    found,
    gone,
    linked,
    meant,
    name,
    pattern_meant,
    provided,
    seen,
    stepped,
    tagged,
    unlinked,
)
from tests.spec.projections.fed import Fed, Specs
from tests.spec.projections.words import EAST

SPACE = "default/episodes"
EPISODES_INDEX, PATTERNS_INDEX = index_space(SPACE, EPISODE), index_space(SPACE, PATTERN)
about = Specs(LANGUAGE)


@pytest.mark.parametrize("fact", about.facts, ids=tag_of)
def test_every_fact_has_a_spec(fact: type[Fact]) -> None:
    about.check(fact)


def one(fed: Fed, number: int) -> Episode:
    episode = state.episode(fed.view, fed.space(SPACE), name(number))
    assert episode is not None
    return episode


def waiting(fed: Fed) -> list[tuple[str, int]]:
    """What the model has to describe."""
    rows = DESCRIBED.waiting(fed.view, MODEL.name, 100)
    assert DESCRIBED.count(fed.view, MODEL.name) == len(rows)
    return [(row.kind, row.number) for row in rows]


def counted(fed: Fed, number: int) -> tuple[int, float, int, int]:
    pattern = patterns.patterns(fed.view, fed.space(SPACE), [number])[number]
    return pattern.occurrences, pattern.successes, pattern.first_at_us, pattern.last_at_us


# --- episodes ------------------------------------------------------------------------------------


@about(EpisodeCreated)
def test_an_episode_is_there_and_found_among_its_tenants(fed: Fed) -> None:
    fed.given(begun(1, "Fix the login", "jwt", "auth"), begun(2, "Login", tenant="b"))
    episode = one(fed, 1)
    assert (episode.description, episode.domain, episode.status) == (
        "Fix the login",
        "web-api",
        "active",
    )
    assert (episode.version, episode.steps, episode.duration_ms) == (1, 0, 0)
    assert state.tags(fed.view, 1) == ["auth", "jwt"]
    assert state.episode(fed.view, fed.space(SPACE), name(2)) is None
    for word in ("login", "jwt", "rust", "debugging"):
        assert fed.by_words(word, EPISODES_INDEX) == [1]
    assert fed.by_words("login", index_space("b/episodes", EPISODE)) == [2]
    assert fed.view.peek_id(state.EPISODES) == 3
    assert fed.view.touching("episode:1") == fed.view.touching(f"episode:{name(1)}") == {0}
    assert waiting(fed) == [(EPISODE, 2), (EPISODE, 1)]


@about(StepAdded)
def test_a_step_is_kept_and_counted(fed: Fed) -> None:
    fed.given(begun(1), stepped(1, 5, failed=True, at_us=days(1)), stepped(1, 2, at_us=days(2)))
    episode = one(fed, 1)
    assert (episode.steps, episode.failed_steps, episode.latency_ms) == (2, 1, 10)
    assert (episode.last_step, episode.last_step_at_us) == (5, days(2))
    assert state.steps(fed.view, 1) == [
        Step(2, "editor", "Step 2", 0, "success", '{"a":1}', None, 5, days(2)),
        Step(5, "editor", "Step 5", 1, "error", '{"a":1}', None, 5, days(1)),
    ]
    assert [step.parameters for step in state.outline(fed.view, 1)] == [None, None]
    assert [step.number for step in state.outline(fed.view, 1, 1)] == [2]
    assert state.tools_of(fed.view, [1]) == {"editor": 1}
    assert state.size(fed.view, [1]) == 2 * len('Step 2{"a":1}')
    assert state.size(fed.view, []) == 0
    assert fed.view.touching("episode:1") == {0, 1, 2}


@about(StepAdded)
def test_a_step_changes_neither_words_nor_meaning(fed: Fed) -> None:
    fed.given(begun(1))
    assert fed.changed_by(stepped(1, 1)) == {
        "state/audit",
        "state/episode",
        "state/episode_step",
    }
    assert waiting(fed) == [(EPISODE, 1)]


@about(EpisodeCompleted)
def test_a_completed_episode_is_found_by_how_it_ended(fed: Fed) -> None:
    fed.given(begun(1), completed(1, "Fix the login\nIt works", at_us=days(1)))
    episode = one(fed, 1)
    assert (episode.status, episode.completed_at_us, episode.outcome_type) == (
        "completed",
        days(1),
        "success",
    )
    assert (episode.success, episode.reward, episode.duration_ms) == (1.0, 1.0, 86_400_000)
    assert episode.ended is not None and episode.ended.verdict == "It works"
    assert episode.reflected is not None and episode.reflected.successes == ["It works"]
    assert episode.reward_parts is not None and episode.reward_parts.total == 1.0
    assert fed.by_words("works", EPISODES_INDEX) == [1]
    assert fed.view.touching("episode:1") == {0, 1}


@about(EpisodeTagged)
def test_other_tags_are_found_and_described_anew(fed: Fed) -> None:
    fed.given(begun(1, "Fix the login", "auth", "jwt"), meant(1))
    assert waiting(fed) == []
    fed.given(tagged(1, "Fix the login oauth", ("oauth",), ("jwt",)))
    assert state.tags(fed.view, 1) == ["auth", "oauth"]
    assert one(fed, 1).version == 2
    assert fed.by_words("oauth", EPISODES_INDEX) == [1]
    assert fed.by_words("jwt", EPISODES_INDEX) == []
    assert waiting(fed) == [(EPISODE, 1)]
    assert fed.view.touching("episode:1") == {0, fed.last}


@about(EpisodeDeleted)
def test_what_is_deleted_leaves_nothing_but_its_life(fed: Fed) -> None:
    nothing = fed.given(begun(2)).digests()
    fed.given(
        begun(1, "Fix the login", "auth"),
        stepped(1, 1),
        (completed(1), found(1), seen(1, 1)),
        linked(1, 2, 1),
        meant(1),
        pattern_meant(1),
    )
    fed.given(gone(1, patterns=(1,), links=(1,)))
    assert state.episode(fed.view, fed.space(SPACE), name(1)) is None
    assert not state.steps(fed.view, 1) and not state.tags(fed.view, 1)
    assert relationships.outgoing(fed.view, [2]) == []
    assert fed.by_words("login", EPISODES_INDEX) == [2]
    assert fed.by_words("reader", PATTERNS_INDEX) == []
    assert fed.by_meaning(NORTH, EPISODES_INDEX) == fed.by_meaning(NORTH, PATTERNS_INDEX) == []
    assert waiting(fed) == [(EPISODE, 2)]
    kept = {"episode", "episode_step", "episode_tag", "pattern", "evidence", "relationship"}
    for table in (*kept, "episodes_meaning"):
        assert fed.digests()[f"state/{table}"] == nothing[f"state/{table}"]
    for thing in ("episode:1", "episode:2", "pattern:1"):
        assert fed.last in fed.view.touching(thing)


@about(EpisodeDeleted)
def test_a_pattern_that_others_show_loses_the_evidence(fed: Fed) -> None:
    fed.given(begun(1), begun(2), begun(3))
    fed.given((completed(1, at_us=days(1)), found(1), seen(1, 1)))
    fed.given((completed(2, success=0.1, at_us=days(2)), seen(1, 2, 0.1)))
    fed.given((completed(3, success=0.2, at_us=days(3)), seen(1, 3, 0.2)))
    fed.given(gone(1, at_us=days(4)))
    occurrences, successes, first, last = counted(fed, 1)
    assert (occurrences, first, last) == (2, days(2), days(3))
    assert successes == pytest.approx(0.3)
    assert patterns.only_from(fed.view, 2) == []
    assert fed.by_words("reader", PATTERNS_INDEX) == [1]


# --- patterns ------------------------------------------------------------------------------------


@about(PatternFound)
def test_a_pattern_is_there_and_found(fed: Fed) -> None:
    fed.given(begun(1), found(1, "reader then editor"))
    pattern = patterns.pattern_with(fed.view, fed.space(SPACE), "key-1")
    assert pattern is not None
    assert (pattern.id, pattern.kind, pattern.tool_names, pattern.tag_names) == (
        1,
        "ToolSequence",
        ["reader", "editor"],
        ["auth"],
    )
    assert counted(fed, 1) == (0, 0.0, NOW_US, NOW_US)
    assert fed.by_words("reader", PATTERNS_INDEX) == [1]
    assert fed.by_words("reader", EPISODES_INDEX) == []
    assert fed.view.peek_id(state.PATTERNS) == 2
    assert sorted(waiting(fed)) == [(EPISODE, 1), (PATTERN, 1)]
    assert fed.view.touching("pattern:1") == {fed.last}


@about(PatternSeen)
def test_evidence_of_a_pattern_is_counted(fed: Fed) -> None:
    fed.given(begun(1), begun(2), (found(1), seen(1, 1)))
    fed.given(seen(1, 2, 0.5, at_us=days(1)))
    assert counted(fed, 1) == (2, 1.5, NOW_US, days(1))
    assert patterns.evidence(fed.view, 1) == [
        Evidence(1, 1, 1.0, NOW_US),
        Evidence(1, 2, 0.5, days(1)),
    ]
    assert [pattern.id for pattern in patterns.patterns_of(fed.view, 2)] == [1]
    assert fed.view.touching("pattern:1") == {2, 3}


# --- relationships -------------------------------------------------------------------------------


@about(RelationshipAdded)
def test_a_relationship_stands_between_its_ends(fed: Fed) -> None:
    fed.given(begun(1), begun(2), linked(1, 1, 2))
    (link,) = relationships.outgoing(fed.view, [1])
    assert (link.uuid, link.type, link.reason, link.priority) == (
        "link-1",
        "depends_on",
        "needs it",
        8,
    )
    assert relationships.incoming(fed.view, [2]) == [link]
    assert relationships.outgoing(fed.view, [2]) == relationships.incoming(fed.view, [1]) == []
    assert relationships.between(fed.view, 1, 2, "depends_on") == link
    assert fed.view.peek_id(state.RELATIONSHIPS) == 2
    assert fed.last in fed.view.touching("episode:1") & fed.view.touching("episode:2")


@about(RelationshipRemoved)
def test_a_relationship_that_is_removed_is_gone(fed: Fed) -> None:
    fed.given(begun(1), begun(2), linked(1, 1, 2), linked(2, 1, 2, "follows"), unlinked(1, 1, 2))
    assert [link.type for link in relationships.outgoing(fed.view, [1])] == ["follows"]
    assert fed.last in fed.view.touching("episode:1") & fed.view.touching("episode:2")
    assert fed.view.peek_id(state.RELATIONSHIPS) == 3


# --- by meaning ----------------------------------------------------------------------------------


@about(EpisodeEmbedded)
def test_an_episode_is_found_by_meaning(fed: Fed) -> None:
    fed.given(begun(1), begun(2), meant(1), meant(2, vector=None))
    assert fed.by_meaning(NORTH, EPISODES_INDEX) == [(1, 1)]
    kept = DESCRIBED.meanings(fed.view, MODEL.name, EPISODE, [1, 2])
    assert {number: vector.tobytes() for number, vector in kept.items()} == {1: NORTH}
    assert waiting(fed) == []
    fed.given(tagged(1, "Fix the login", ("auth",)), meant(1, version=2, vector=EAST))
    assert fed.by_meaning(NORTH, EPISODES_INDEX) == []
    assert fed.by_meaning(EAST, EPISODES_INDEX) == [(1, 2)]
    fed.given(meant(2, model="other"))
    assert fed.by_meaning(NORTH, EPISODES_INDEX) == []


@about(PatternEmbedded)
def test_a_pattern_is_found_by_meaning(fed: Fed) -> None:
    fed.given(begun(1), found(1), pattern_meant(1), pattern_meant(1, model="other", vector=EAST))
    assert fed.by_meaning(NORTH, PATTERNS_INDEX) == [(1, 1)]
    assert fed.by_meaning(EAST, PATTERNS_INDEX) == []
    assert fed.by_meaning(NORTH, EPISODES_INDEX) == []
    assert waiting(fed) == [(EPISODE, 1)]


def unprovided(fed: Fed) -> list[tuple[str, int]]:
    found = chosen.waiting(fed.view, "default/episodes", 10)
    return sorted((one.kind, one.number) for one in found)


@about(EmbeddingsConfigured)
def test_a_model_that_was_chosen_has_everything_before_it(fed: Fed) -> None:
    fed.given(begun(1), begun(2), found(1), configured())
    choice = chosen.choice(fed.view, "default/episodes")
    assert choice is not None and (choice.name, choice.dims) == (CHOSEN, 8)
    assert unprovided(fed) == [("episode", 1), ("episode", 2), ("pattern", 1)]
    fed.given(provided("episode", 1), configured("other"))
    assert unprovided(fed) == [("episode", 1), ("episode", 2), ("pattern", 1)]


@about(MeaningProvided)
def test_a_vector_of_the_chosen_model_is_kept(fed: Fed) -> None:
    fed.given(begun(1), begun(2), configured(), provided("episode", 1))
    assert unprovided(fed) == [("episode", 2)]
    choice = chosen.choice(fed.view, "default/episodes")
    assert choice is not None
    query = np.frombuffer(NORTH, dtype=np.float16)
    assert [number for number, _ in chosen.nearest(fed.view, choice, "episode", query, 5)] == [1]
    fed.given(tagged(1, "Fix the login", ("auth",)))
    assert unprovided(fed) == [("episode", 1), ("episode", 2)]


# --- code ----------------------------------------------------------------------------------------


@about(CodeExecuted)
def test_code_leaves_nothing(fed: Fed) -> None:
    fed.given(begun(1))
    assert fed.changed_by(executed()) == set()
