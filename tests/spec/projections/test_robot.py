"""What each fact about memories and sessions does to the state, the text index and the vectors."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mnemolog.events.codec import Fact, tag_of
from mnemolog.events.envelope import Embedding
from mnemolog.events.robot import (
    LANGUAGE,
    DuplicateFound,
    Embedded,
    MemoriesConsolidated,
    MemoriesDecayed,
    MemoriesRecalled,
    MemoryForgotten,
    MemoryLearned,
    MemoryUpdated,
    SessionEnded,
    SessionStarted,
)
from mnemolog.projections.language import content_hash
from mnemolog.projections.robot import state
from mnemolog.projections.robot.state import Memory, Session
from tests.spec.given import (
    MODEL,
    NORTH,
    NOW_US,
    S1,
    Given,
    days,
    forgotten,
    happened,
    learned,
    perceived,
    recalled,
    started,
    superseded,
)
from tests.spec.projections.fed import Fed, Specs
from tests.spec.projections.words import EAST, embedded, updated

SPACE = "default/robot/default"
KITCHEN = "default/robot/kitchen"
GRIP = "grip the cup firmly"
about = Specs(LANGUAGE)


def memory(fed: Fed, number: int) -> Memory:
    found = state.memory(fed.view, number)
    assert found is not None, f"there is no memory {number}"
    return found


def known_by(fed: Fed, text: str, vector: bytes, space: str = SPACE) -> tuple[int | None, ...]:
    """The memory that says this already: by its text, by its words, by its meaning."""
    view, place = fed.view, fed.space(space)
    by_words = state.alike_by_words(view, place, text, 0.7, guarded=True)
    by_meaning = state.alike_by_meaning(
        view, place, text, Embedding(MODEL.name, vector), 0.9, guarded=True
    )
    return (
        state.same_text(view, place, text, guarded=True),
        by_words[0] if by_words else None,
        by_meaning[0] if by_meaning else None,
    )


def found(fed: Fed, text: str, vector: bytes, space: str = SPACE) -> tuple[Any, ...]:
    """What a search finds: by words, by meaning, and by words within the state."""
    return (
        fed.by_words(text, space),
        [number for number, _ in fed.by_meaning(vector, space)],
        sorted(state.rank_by_words(fed.view, fed.space(space), text, 10)),
    )


@pytest.mark.parametrize("fact", about.facts, ids=tag_of)
def test_every_fact_has_a_spec(fact: type[Fact]) -> None:
    about.check(fact)


# --- MemoryLearned -------------------------------------------------------------------------------


@about(MemoryLearned)
def test_what_was_learned_is_kept_as_it_was_said(fed: Fed) -> None:
    fact = MemoryLearned(
        memory_id=1,
        collection="default",
        content=GRIP,
        category="pattern",
        tags=["pattern", "decision"],
        confidence=0.85,
        context='{"task": {"success": true}}',
        scope_files=["config/grip.yaml"],
        session_id=S1,
    )
    fed.given(happened(fact, at_us=days(1)))
    assert memory(fed, 1) == Memory(
        id=1,
        space=SPACE,
        kind="fact",
        perception_type=None,
        content=GRIP,
        content_hash=content_hash(GRIP),
        version=1,
        context='{"task": {"success": true}}',
        category="pattern",
        tags=["pattern", "decision"],
        scope_files=["config/grip.yaml"],
        confidence=0.85,
        session=S1,
        data=None,
        metadata=None,
        status="active",
        superseded_by=None,
        forgotten_because=None,
        created_at_us=days(1),
        updated_at_us=days(1),
        accessed_at_us=None,
        access_count=0,
    )
    assert [one.id for one in state.session_memories(fed.view, S1)] == [1]
    assert state.active_count(fed.view, SPACE) == 1
    assert fed.view.peek_id(state.COUNTER) == 2
    assert fed.view.touching("memory:1") == {fed.last}


@about(MemoryLearned)
def test_what_was_learned_is_found_in_its_collection_alone(fed: Fed) -> None:
    fed.given(
        learned(1, GRIP, vector=NORTH),
        learned(2, "open the door", vector=EAST),
        learned(3, "open the drawer", collection="kitchen", vector=NORTH),
    )
    assert known_by(fed, GRIP, NORTH) == (1, 1, 1)
    assert known_by(fed, GRIP, EAST, KITCHEN) == (None, None, None)
    assert found(fed, "cup", NORTH) == ([1], [1], [1])
    assert found(fed, "open", EAST) == ([2], [2], [2])
    assert found(fed, "open", NORTH, KITCHEN) == ([3], [3], [3])
    assert fed.by_meaning(NORTH, SPACE) == [(1, 1)]
    assert state.active_count(fed.view, SPACE) == 2


@about(MemoryLearned)
def test_an_index_can_filter_by_session_and_confidence(fed: Fed) -> None:
    fed.given(
        learned(1, "cup one", session=S1, confidence=0.5, vector=NORTH),
        learned(2, "cup two", confidence=0.9, vector=NORTH),
    )
    assert fed.by_words("cup", SPACE, session=S1) == [1]
    assert fed.by_words("cup", SPACE, min_confidence=0.8) == [2]
    assert fed.by_meaning(NORTH, SPACE, session=S1) == [(1, 1)]
    assert fed.by_meaning(NORTH, SPACE, min_confidence=0.8) == [(2, 1)]


@about(MemoryLearned)
def test_without_a_vector_it_is_found_by_words_and_waits_for_one(fed: Fed) -> None:
    fed.given(learned(1, GRIP), learned(2, "open the door", vector=NORTH))
    assert found(fed, "cup", NORTH) == ([1], [2], [1])
    assert state.without_vector(fed.view, MODEL.name, 0, 10) == [(1, SPACE, GRIP)]
    assert state.count_without_vector(fed.view, MODEL.name) == 1


@about(MemoryLearned)
def test_a_vector_of_another_model_is_kept_but_not_mixed_in(fed: Fed) -> None:
    given = learned(1, GRIP, vector=NORTH)
    fed.given(replace(given, inputs=[Embedding("other", NORTH)]))
    assert len(state.vectors_of(fed.view, "other", [1])) == 1
    assert known_by(fed, GRIP, NORTH) == (1, 1, None)
    assert found(fed, "cup", NORTH) == ([1], [], [1])
    assert state.count_without_vector(fed.view, "other") == 0
    assert state.count_without_vector(fed.view, MODEL.name) == 1


@about(MemoryLearned)
def test_a_perception_is_found_and_never_a_duplicate(fed: Fed) -> None:
    given = perceived(1, GRIP, vector=NORTH)
    assert isinstance(given.fact, MemoryLearned)
    recording = replace(given.fact, data='{"force": 1}', metadata='{"hz": 50}')
    fed.given(replace(given, fact=recording))
    kept = memory(fed, 1)
    assert (kept.kind, kept.perception_type) == ("perception", "visual")
    assert (kept.data, kept.metadata) == ('{"force": 1}', '{"hz": 50}')
    assert found(fed, "cup", NORTH) == ([1], [1], [1])
    assert known_by(fed, GRIP, NORTH) == (None, None, None)
    unguarded = state.alike_by_words(fed.view, fed.space(SPACE), GRIP, 0.7, guarded=False)
    assert unguarded is None


# --- DuplicateFound ------------------------------------------------------------------------------


@about(DuplicateFound)
def test_what_was_said_again_leaves_a_trace_in_the_audit_alone(fed: Fed) -> None:
    fed.given(learned(1, GRIP, vector=NORTH))
    fact = DuplicateFound(existing_id=1, method="jaccard", similarity=0.8)
    assert fed.changed_by(happened(fact)) == {"state/audit"}
    assert fed.view.touching("memory:1") == {0, fed.last}


# --- MemoryUpdated -------------------------------------------------------------------------------


@about(MemoryUpdated)
def test_a_corrected_memory_says_something_else(fed: Fed) -> None:
    before = memory(fed.given(learned(1, GRIP, session=S1, context="{}")), 1)
    fed.given(updated(1, "open the door", at_us=days(2), context='{"a": 1}', session=S1))
    assert memory(fed, 1) == replace(
        before,
        content="open the door",
        content_hash=content_hash("open the door"),
        version=2,
        context='{"a": 1}',
        category="pattern",
        tags=["pattern"],
        scope_files=["arm.py"],
        confidence=0.95,
        updated_at_us=days(2),
    )
    assert fed.view.touching("memory:1") == {0, fed.last}
    assert fed.view.peek_id(state.COUNTER) == 2


@about(MemoryUpdated)
def test_who_taught_a_memory_is_who_said_what_it_says_now(fed: Fed) -> None:
    fed.given(replace(learned(1, GRIP), actor="arm-7"), learned(2, "wet trays slip"))
    assert [memory(fed, number).taught_by for number in (1, 2)] == ["arm-7", ""]
    fed.given(replace(updated(1, "open the door"), actor="arm-8"))
    assert memory(fed, 1).taught_by == "arm-8"
    fed.given(replace(recalled(1), actor="arm-9"))
    assert memory(fed, 1).taught_by == "arm-8"
    fed.given(updated(1, "close the door", version=3))
    assert memory(fed, 1).taught_by == "", "nobody knows who said this"


@about(MemoryUpdated)
def test_a_corrected_memory_is_found_by_what_it_says_now(fed: Fed) -> None:
    fed.given(learned(1, GRIP, vector=NORTH))
    assert known_by(fed, GRIP, NORTH) == (1, 1, 1)
    fed.given(updated(1, "open the door", session=S1, vector=EAST))
    assert known_by(fed, GRIP, NORTH) == (None, None, None)
    assert known_by(fed, "open the door", EAST) == (1, 1, 1)
    assert found(fed, "cup", NORTH) == ([], [], [])
    assert found(fed, "door", EAST) == ([1], [1], [1])
    assert fed.by_meaning(EAST, SPACE, session=S1, min_confidence=0.95) == [(1, 2)]
    assert fed.by_words("door", SPACE, session=S1, min_confidence=0.95) == [1]
    assert state.active_count(fed.view, SPACE) == 1


@about(MemoryUpdated)
def test_a_correction_without_a_vector_takes_the_old_one_away(fed: Fed) -> None:
    fed.given(learned(1, GRIP, vector=NORTH), updated(1, "open the door"))
    assert known_by(fed, "open the door", NORTH) == (1, 1, None)
    assert found(fed, "door", NORTH) == ([1], [], [1])
    assert state.vectors_of(fed.view, MODEL.name, [1]) == []
    assert state.without_vector(fed.view, MODEL.name, 0, 10) == [(1, SPACE, "open the door")]


@about(MemoryUpdated)
def test_a_corrected_recording_stays_a_recording(fed: Fed) -> None:
    fed.given(perceived(1, GRIP, vector=NORTH), updated(1, "open the door", vector=EAST))
    assert known_by(fed, "open the door", EAST) == (None, None, None)
    assert found(fed, "door", EAST) == ([1], [1], [1])


@about(MemoryUpdated)
def test_a_new_content_fades_from_its_own_beginning(fed: Fed) -> None:
    fed.given(learned(1, GRIP), updated(1, "open the door", at_us=days(9)))
    place = fed.space(SPACE)
    assert state.decayable(fed.view, place, days(10), 1.0, 0.05, []) == 0
    assert state.decayable(fed.view, place, days(11), 1.0, 0.05, []) == 1


# --- MemoryForgotten -----------------------------------------------------------------------------


@about(MemoryForgotten)
def test_a_forgotten_memory_is_kept_and_not_found(fed: Fed) -> None:
    fed.given(learned(1, GRIP, session=S1, vector=NORTH), learned(2, "lift the cup", vector=EAST))
    assert known_by(fed, GRIP, NORTH) == (1, 1, 1)
    fed.given(forgotten(1, "the sensor was off", at_us=days(3)))
    kept = memory(fed, 1)
    assert (kept.status, kept.forgotten_because) == ("invalidated", "the sensor was off")
    assert (kept.content, kept.updated_at_us) == (GRIP, days(3))
    assert known_by(fed, GRIP, NORTH) == (None, None, None)
    assert found(fed, "cup", NORTH) == ([2], [], [2])
    assert state.session_memories(fed.view, S1) == []
    assert state.active_count(fed.view, SPACE) == 1
    assert state.count_without_vector(fed.view, "other") == 1
    assert fed.view.peek_id(state.COUNTER) == 3
    assert fed.view.touching("memory:1") == {0, fed.last}


# --- MemoriesRecalled ----------------------------------------------------------------------------


@about(MemoriesRecalled)
def test_a_recall_counts_as_an_access(fed: Fed) -> None:
    fed.given(learned(1, GRIP), learned(2, "open the door"), learned(3, "lift the lid"))
    access = recalled(1, 2, at_us=days(1)), recalled(1, at_us=days(4)), recalled(70_000)
    assert fed.changed_by(*access) == {"state/memory"}
    seen = [(memory(fed, n).access_count, memory(fed, n).accessed_at_us) for n in (1, 2, 3)]
    assert seen == [(2, days(4)), (1, days(1)), (0, None)]
    assert state.decayable(fed.view, fed.space(SPACE), days(4.5), 1.0, 0.05, []) == 2


# --- SessionStarted, SessionEnded ----------------------------------------------------------------


@about(SessionStarted)
def test_a_session_is_open_from_its_start(fed: Fed) -> None:
    fact = SessionStarted(session_id=S1, collection="kitchen", context='{"robot": "UR5e"}')
    start = happened(fact, collection="kitchen", at_us=days(1))
    assert fed.changed_by(start) == {"state/session", "state/space", "state/audit"}
    assert state.session(fed.view, S1) == Session(id=S1, space=KITCHEN, ended=False)
    row = fed.view.one("SELECT context, started_at_us, ended_at_us, outcome_score FROM session")
    assert row == ('{"robot": "UR5e"}', days(1), None, None)
    assert fed.view.touching(f"session:{S1}") == {fed.last}


@about(SessionEnded)
def test_a_session_ends_and_its_memories_stay(fed: Fed) -> None:
    fed.given(started(S1), learned(1, GRIP, session=S1, vector=NORTH))
    end = happened(SessionEnded(session_id=S1, outcome_score=0.75), at_us=days(2))
    assert fed.changed_by(end) == {"state/session", "state/audit"}
    assert state.session(fed.view, S1) == Session(id=S1, space=SPACE, ended=True)
    assert fed.view.one("SELECT ended_at_us, outcome_score FROM session") == (days(2), 0.75)
    assert fed.view.touching(f"session:{S1}") == {0, fed.last}


# --- MemoriesDecayed: what it spares is in test_decayed.py ---------------------------------------


@about(MemoriesDecayed)
def test_what_was_long_not_used_fades_in_one_collection(fed: Fed) -> None:
    fact = MemoriesDecayed(collection="default", rate=0.1, min_days=5.0, floor=0.2, spared=[])
    fed.given(
        learned(1, GRIP, vector=NORTH),
        learned(2, "just recalled"),
        learned(3, "at the floor", confidence=0.2),
        learned(4, "elsewhere", collection="kitchen"),
        learned(5, "forgotten before"),
        forgotten(5),
        recalled(2, at_us=days(6)),
    )
    assert fed.changed_by(happened(fact, at_us=days(10))) == {"state/memory"}
    confidences = [memory(fed, number).confidence for number in range(1, 6)]
    assert confidences == [round(0.8 * 0.9**10, 6), 0.8, 0.2, 0.8, 0.8]
    # The indexes filter by a confidence that may be too high; the state knows better.
    assert fed.by_words("cup", SPACE, min_confidence=0.8) == [1]
    # The days are counted once: from now on, no sooner.
    assert state.decayable(fed.view, fed.space(SPACE), days(12), 5.0, 0.2, []) == 1


# --- MemoriesConsolidated ------------------------------------------------------------------------


@about(MemoriesConsolidated)
def test_those_merged_into_another_are_no_longer_found(fed: Fed) -> None:
    fed.given(
        learned(1, GRIP, session=S1, vector=NORTH),
        learned(2, "grip the cup tightly", session=S1, vector=NORTH),
        learned(3, "grip that cup hard", session=S1, vector=EAST),
    )
    fact = MemoriesConsolidated(session_id=S1, kept=2, superseded=[1, 3])
    fed.given(happened(fact, at_us=days(1)))
    status = [(memory(fed, n).status, memory(fed, n).superseded_by) for n in (1, 2, 3)]
    assert status == [("superseded", 2), ("active", None), ("superseded", 2)]
    assert [memory(fed, n).updated_at_us for n in (1, 2, 3)] == [days(1), NOW_US, days(1)]
    assert found(fed, "grip cup", NORTH) == ([2], [2], [2])
    assert fed.by_meaning(EAST, SPACE) == []
    assert known_by(fed, GRIP, NORTH) == (None, None, 2)
    assert [one.id for one in state.session_memories(fed.view, S1)] == [2]
    assert state.active_count(fed.view, SPACE) == 1
    assert all(fed.view.touching(f"memory:{n}") == {n - 1, fed.last} for n in (1, 2, 3))


# --- Embedded ------------------------------------------------------------------------------------


@about(Embedded)
def test_a_late_vector_makes_a_memory_found_by_meaning(fed: Fed) -> None:
    fed.given(
        learned(1, "open the door", session=S1),
        updated(1, GRIP, session=S1),
        embedded(1, GRIP, version=2, session=S1),
    )
    assert known_by(fed, GRIP, NORTH) == (1, 1, 1)
    assert fed.by_meaning(NORTH, SPACE, session=S1, min_confidence=0.8) == [(1, 2)]
    assert fed.by_meaning(NORTH, SPACE, min_confidence=0.9) == []
    assert state.without_vector(fed.view, MODEL.name, 0, 10) == []
    assert fed.by_words("cup", SPACE) == [1]


@about(Embedded)
@pytest.mark.parametrize(
    "meanwhile",
    [updated(1, "open the door", vector=EAST), forgotten(1), superseded(1, by=2)],
    ids=["updated", "forgotten", "superseded"],
)
def test_deciding_never_sees_a_vector_of_what_is_no_longer_said(fed: Fed, meanwhile: Given) -> None:
    fed.given(learned(1, GRIP), learned(2, "lift the lid"), meanwhile)
    before = fed.stores.state.digest()
    fed.given(embedded(1, GRIP))
    assert fed.stores.state.digest() == before
    assert known_by(fed, GRIP, NORTH) == (None, None, None)
