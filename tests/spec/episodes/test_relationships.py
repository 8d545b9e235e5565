"""add_episode_relationship, remove_episode_relationship, get_episode_relationships,
find_related_episodes, check_relationship_exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from mnemolog.events.codec import encode_call
from mnemolog.events.envelope import Call
from mnemolog.events.episodes import (
    MAX_RELATIONSHIPS,
    RelationshipAdded,
    RelationshipRemoved,
    RelationshipType,
)
from mnemolog.events.ids import uuid_of
from tests.spec.given import NOW_US, Ask, ask, days
from tests.spec.given_episodes import (
    VALIDATION,
    Episodes,
    Reply,
    begun,
    called,
    exists,
    linked,
    no_cycles,
    relate,
    related_to,
    relationships_of,
    unrelate,
)

TYPES = get_args(get_args(RelationshipType)[0])
A, B, C, D = 1, 2, 3, 4
ITSELF = "is the episode that it begins at; an episode is not related to itself"


@pytest.fixture
def episodes() -> Episodes:
    """With the episodes A, B, C and D."""
    return Episodes().given(*(begun(number) for number in (A, B, C, D)))


# --- adding --------------------------------------------------------------------------------------


def test_a_relationship_has_an_id_and_says_what_it_was_told(episodes: Episodes) -> None:
    own = uuid_of("relationship", "call-1", 0)
    asked = relate(A, "depends_on", B, reason=" B makes the keys ", priority=7, created_by="ada")
    episodes.when(asked).then(
        RelationshipAdded(
            relationship=1,
            relationship_id=own,
            source=A,
            target=B,
            relationship_type="depends_on",
            reason="B makes the keys",
            priority=7,
            created_by="ada",
        )
    ).then_reply(
        {
            "success": True,
            "relationship_id": own,
            "relationship": {
                "id": own,
                "from": called(A),
                "to": called(B),
                "relationship_type": "depends_on",
                "reason": "B makes the keys",
                "priority": 7,
                "created_by": "ada",
                "created_at": "2024-10-04T00:00:00Z",
            },
            "message": "Relationship depends_on added",
        }
    ).then_rebuilt()
    told = episodes.reply["relationship"]
    assert episodes.told(relationships_of(A))["outgoing"] == [told]


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_can_be_all_that_is_said(episodes: Episodes, kind: str) -> None:
    found = episodes.told(relate(A, kind, B))["relationship"]
    assert found["relationship_type"] == kind
    assert (found["reason"], found["priority"], found["created_by"]) == (None, None, None)


@pytest.mark.parametrize("said", [None, "ada"])
def test_who_asks_made_it_unless_somebody_else_is_named(
    episodes: Episodes, said: str | None
) -> None:
    asked = relate(A, "follows", B, **({} if said is None else {"created_by": said}))
    call = Call(
        id="call",
        tool=asked.tool,
        arguments=asked.arguments,
        space="",
        received_at_us=NOW_US,
        actor="grace",
    )
    episodes.when_bytes(encode_call(call))
    assert episodes.reply["relationship"]["created_by"] == (said or "grace")


def test_an_id_is_taken_however_it_is_written(episodes: Episodes) -> None:
    asked = ask(
        "add_episode_relationship",
        from_episode_id=f" {called(A).upper()} ",
        to_episode_id=called(B),
        relationship_type="blocks",
    )
    assert episodes.told(asked)["relationship"]["from"] == called(A)


def test_two_episodes_are_related_in_several_ways_and_both_directions(episodes: Episodes) -> None:
    for asked in (
        relate(A, "follows", B),
        relate(B, "follows", A),
        relate(A, "blocks", B),
        relate(B, "depends_on", A),
    ):
        episodes.told(asked)
    assert episodes.told(relationships_of(A))["total_count"] == 4


@pytest.mark.parametrize("kind", TYPES)
def test_no_episode_is_related_to_itself(episodes: Episodes, kind: str) -> None:
    episodes.when(relate(A, kind, A)).then_invalid("to_episode_id", ITSELF, value=called(A))


@pytest.mark.parametrize("kind", TYPES)
def test_the_same_relationship_is_there_once(episodes: Episodes, kind: str) -> None:
    issue = f"has this relationship, {kind}, from the same episode already: r-1"
    episodes.given(linked(1, A, kind, B)).when(relate(A, kind, B, priority=3)).then_invalid(
        "to_episode_id", issue, value=called(B)
    )


@pytest.mark.parametrize(("asked", "missing"), [((A, 9), 9), ((9, A), 9), ((8, 9), 8)])
def test_both_episodes_have_to_exist(
    episodes: Episodes, asked: tuple[int, int], missing: int
) -> None:
    source, target = asked
    for make in (relate, exists, no_cycles):
        episodes.when(make(source, "follows", target)).then_not_found(called(missing))


def test_another_tenants_episodes_are_not_related_to(episodes: Episodes) -> None:
    episodes.given(begun(5, tenant="other"))
    episodes.when(relate(A, "follows", 5)).then_not_found(called(5))


@pytest.mark.parametrize("end", [A, B])
def test_an_episode_has_so_many_relationships(episodes: Episodes, end: int) -> None:
    half = MAX_RELATIONSHIPS // 2
    others = range(10, 10 + half)
    episodes.given(*(begun(number) for number in others))
    episodes.given(*(linked(n, end, "follows", number) for n, number in enumerate(others, 1)))
    episodes.given(
        *(linked(half + n, number, "follows", end) for n, number in enumerate(others, 1))
    )
    field = "from_episode_id" if end == A else "to_episode_id"
    issue = f"has {MAX_RELATIONSHIPS:,} relationships, as many as are kept: remove some"
    episodes.when(relate(A, "blocks", B)).then_invalid(field, issue, value=called(end))
    episodes.told(unrelate("r-1"))
    episodes.told(relate(A, "blocks", B))


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("relationship_type", relate(A, "causes", B)),
        ("priority", relate(A, "follows", B, priority=0)),
        ("priority", relate(A, "follows", B, priority=11)),
        ("priority", relate(A, "follows", B, priority=1.5)),
        ("reason", relate(A, "follows", B, reason="  ")),
        ("created_by", relate(A, "follows", B, created_by="a\nb")),
        ("weight", relate(A, "follows", B, weight=1)),
        ("to_episode_id", ask("add_episode_relationship", from_episode_id=called(A))),
        ("relationship_type", exists(A, "causes", B)),
        ("relationship_type", no_cycles(A, "causes", B)),
        ("relationship_type", relationships_of(A, relationship_type="causes")),
        ("direction", relationships_of(A, direction="sideways")),
        ("relationship_type", related_to(A, relationship_type="causes")),
        ("limit", related_to(A, limit=0)),
        ("limit", related_to(A, limit=101)),
        ("relationship_id", unrelate("")),
    ],
)
def test_what_does_not_fit_is_refused(episodes: Episodes, field: str, asked: Ask) -> None:
    episodes.when(asked).then_nothing_changed()
    assert episodes.decision is not None and episodes.decision.code == VALIDATION
    assert episodes.reply["field"] == field
    assert episodes.reply["error"].startswith("Validation error: ")


# --- removing ------------------------------------------------------------------------------------


def test_a_relationship_is_removed(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "follows", B)).when(unrelate(" R-1 ")).then(
        RelationshipRemoved(
            relationship=1,
            relationship_id="r-1",
            source=A,
            target=B,
            source_id=called(A),
            target_id=called(B),
            relationship_type="follows",
        )
    ).then_reply(
        {"success": True, "relationship_id": "r-1", "message": "Relationship follows removed"}
    ).then_rebuilt()
    assert episodes.told(relationships_of(A))["total_count"] == 0
    episodes.when(unrelate("r-1")).then_not_found("r-1", "relationship")
    episodes.told(relate(A, "follows", B))


def test_another_tenants_relationship_does_not_exist(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "follows", B))
    episodes.when(unrelate("r-1", tenant="other")).then_not_found("r-1", "relationship")


# --- looking -------------------------------------------------------------------------------------


@pytest.fixture
def several(episodes: Episodes) -> Episodes:
    return episodes.given(
        linked(1, A, "depends_on", B),
        linked(2, C, "blocks", A, at_us=days(1)),
        linked(3, A, "follows", D, at_us=days(2)),
        linked(4, C, "follows", D, at_us=days(3)),
    )


def ids(found: list[Reply]) -> list[str]:
    return [one["id"] for one in found]


@pytest.mark.parametrize(
    ("more", "outgoing", "incoming"),
    [
        ({}, ["r-1", "r-3"], ["r-2"]),
        ({"direction": "outgoing"}, ["r-1", "r-3"], []),
        ({"direction": "incoming"}, [], ["r-2"]),
        ({"relationship_type": "follows"}, ["r-3"], []),
        ({"relationship_type": "blocks"}, [], ["r-2"]),
        ({"relationship_type": "blocks", "direction": "outgoing"}, [], []),
    ],
)
def test_the_relationships_of_an_episode(
    several: Episodes, more: Reply, outgoing: list[str], incoming: list[str]
) -> None:
    found = several.told(relationships_of(A, **more))
    several.then()
    assert found["episode_id"] == called(A)
    assert (ids(found["outgoing"]), ids(found["incoming"])) == (outgoing, incoming)
    assert found["total_count"] == len(outgoing) + len(incoming)


def test_a_relationship_is_shown_with_both_its_ends(several: Episodes) -> None:
    (one,) = several.told(relationships_of(A, direction="incoming"))["incoming"]
    assert one == {
        "id": "r-2",
        "from": called(C),
        "to": called(A),
        "relationship_type": "blocks",
        "reason": None,
        "priority": None,
        "created_by": None,
        "created_at": "2024-10-05T00:00:00Z",
    }


def test_related_episodes_the_newest_relationship_first(several: Episodes) -> None:
    def row(number: int, kind: str, direction: str) -> Reply:
        return {
            "episode_id": called(number),
            "task_description": f"task {number}",
            "relationship_type": kind,
            "direction": direction,
        }

    rows = [row(D, "follows", "outgoing"), row(C, "blocks", "incoming")]
    rows.append(row(B, "depends_on", "outgoing"))
    assert several.told(related_to(A)) == {
        "episode_id": called(A),
        "count": 3,
        "related_episodes": rows,
    }
    several.then()
    limited = several.told(related_to(A, limit=2))
    assert (limited["count"], limited["related_episodes"]) == (3, rows[:2])
    assert several.told(related_to(A, relationship_type="blocks"))["related_episodes"] == rows[1:2]
    assert several.told(related_to(B, relationship_type="blocks"))["count"] == 0


def test_related_episodes_with_what_is_known_of_the_relationship(several: Episodes) -> None:
    several.told(relate(B, "related_to", C, reason="same keys", priority=2, created_by="ada"))
    (one, *_) = several.told(related_to(C, include_metadata=True))["related_episodes"]
    assert one == {
        "episode_id": called(B),
        "task_description": "task 2",
        "relationship_type": "related_to",
        "direction": "incoming",
        "relationship_id": uuid_of("relationship", "call-1", 0),
        "reason": "same keys",
        "priority": 2,
        "created_by": "ada",
        "created_at": "2024-10-07T00:00:00Z",
        "domain": "web-api",
        "task_type": "testing",
        "status": "active",
    }


def test_whether_a_relationship_exists(several: Episodes) -> None:
    assert several.told(exists(A, "depends_on", B)) == {
        "exists": True,
        "from_episode_id": called(A),
        "to_episode_id": called(B),
        "relationship_type": "depends_on",
        "relationship_id": "r-1",
    }
    several.then()
    for asked in (exists(B, "depends_on", A), exists(A, "follows", B), exists(A, "blocks", A)):
        found = several.told(asked)
        assert (found["exists"], found["relationship_id"]) == (False, None)


@pytest.mark.parametrize("make", [relationships_of, related_to])
def test_an_episode_that_does_not_exist(episodes: Episodes, make: Callable[..., Ask]) -> None:
    episodes.when(make(9)).then_not_found(called(9))
