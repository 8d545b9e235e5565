"""analyze_entity_split, propose_entity_split, execute_entity_split, find_split_candidates."""

from __future__ import annotations

from typing import Any

import pytest

from mnemolog.events.graph import (
    EntityCreated,
    EntitySplit,
    ObservationsAdded,
    ObservationsRemoved,
    RelationCreated,
    SplitPart,
)
from mnemolog.services.families.graph.answering import examining
from tests.spec.given import Ask, ask, unit
from tests.spec.given_graph import (
    Graph,
    Reply,
    add,
    analyze,
    candidates,
    create,
    end,
    entity,
    open_nodes,
    part,
    propose,
    read,
    relate,
    split,
    triple,
)

SUBJECTS = {"tests": 0, "deploy": 1, "colour": 2}


def about(subject: str, count: int) -> list[str]:
    """Different observations with one word in common."""
    return [f"{subject} n{i}" for i in range(count)]


def grown(*counts: int) -> list[str]:
    """Observations about so many things, mixed."""
    lists = [about(subject, n) for subject, n in zip(SUBJECTS, counts, strict=False)]
    return [one[i] for i in range(max(counts)) for one in lists if i < len(one)]


def meaning(texts: list[str]) -> dict[str, bytes]:
    """Vectors that put texts on one subject together, and none exactly on another."""
    found = {}
    for i, text in enumerate(texts):
        values = [0.0] * 8
        values[SUBJECTS[text.split()[0]]] = 1.0
        values[3 + i % 5] += 0.2
        found[text] = unit(*values)
    return found


@pytest.fixture
def large(graph: Graph) -> Graph:
    """A project of 28 observations on three subjects, with vectors."""
    texts = grown(12, 10, 6)
    graph.after(create(entity("P", "Proyecto", *texts)))
    graph.passages = meaning(texts)
    return graph


# --- analyze_entity_split ------------------------------------------------------------------------


def test_an_entity_is_analysed(large: Graph) -> None:
    assert large.told(analyze("P")) == {
        "analysis": {
            "entity_name": "P",
            "entity_type": "Proyecto",
            "observation_count": 28,
            "threshold": 25,
            "needs_split": True,
            "topics": {
                "Tests": about("tests", 12),
                "Deploy": about("deploy", 10),
                "Colour": about("colour", 6),
            },
            "split_score": 1.12,
        }
    }
    large.then()


def test_analysing_leaves_no_trace_but_the_call(large: Graph) -> None:
    before = large.access(1)
    for one in (analyze("P"), propose("P"), candidates()):
        large.when(one).then().then_nothing_changed()
    assert large.access(1) == before


def test_the_same_entity_has_the_same_topics(large: Graph) -> None:
    first = large.told(analyze("P"))["analysis"]["topics"]
    again = large.told(analyze("P"))["analysis"]["topics"]
    assert list(first.items()) == list(again.items())


@pytest.mark.parametrize(
    ("kind", "threshold"),
    [
        ("Sesion", 15),
        ("Sesión", 15),
        ("session", 15),
        ("SESSION", 15),
        ("Proyecto", 25),
        ("project", 25),
        ("Generic", 20),
        ("Sesiones", 20),
        ("会话", 20),
    ],
)
def test_the_threshold_is_that_of_the_type(graph: Graph, kind: str, threshold: int) -> None:
    texts = [f"text n{i}" for i in range(threshold)]
    graph.after(create(entity("E", kind, *texts)))
    analysis = graph.told(analyze("E"))["analysis"]
    assert (analysis["threshold"], analysis["split_score"]) == (threshold, 1.0)
    assert analysis["needs_split"] is False
    graph.after(add("E", "one more"))
    analysis = graph.told(analyze("E"))["analysis"]
    assert analysis["needs_split"] is True
    assert analysis["split_score"] == round((threshold + 1) / threshold, 2)


def test_the_documented_scores(graph: Graph) -> None:
    graph.after(create(entity("S", "Sesion", *(f"n{i}" for i in range(18)))))
    assert graph.told(analyze("S"))["analysis"]["split_score"] == 1.2


@pytest.mark.parametrize(
    "asked", [analyze("Nobody"), propose("Nobody"), split("Nobody", part("a", "b", "c"))]
)
def test_an_unknown_entity_is_refused(graph: Graph, asked: Ask) -> None:
    graph.after(create(entity("P"))).when(asked).then_refused("Entity not found: Nobody")


def test_an_entity_of_another_tenant_is_unknown(large: Graph) -> None:
    large.when(analyze("P", tenant="rival")).then_refused("Entity not found: P")
    large.when(split("P", part("Q", "T", "tests n0"), tenant="rival")).then_refused(
        "Entity not found: P"
    )
    assert large.told(candidates(tenant="rival")) == {"candidates": []}


def test_without_a_model_topics_go_by_shared_words(large: Graph) -> None:
    large.passages = None
    topics = large.told(analyze("P"))["analysis"]["topics"]
    assert topics == {
        "Tests": about("tests", 12),
        "Deploy": about("deploy", 10),
        "Colour": about("colour", 6),
    }


def test_what_the_model_does_not_cover_goes_by_words(large: Graph) -> None:
    foreign = ["螺丝 M3", "螺丝 M4", "托盘"]
    large.after(add("P", *foreign))
    topics = large.told(analyze("P"))["analysis"]["topics"]
    assert topics["螺丝"] == foreign[:2]
    assert topics["General"] == foreign[2:]
    assert sorted(text for texts in topics.values() for text in texts) == sorted(large.said("P"))


def test_nothing_said_is_no_topic(graph: Graph) -> None:
    graph.after(create(entity("E")))
    assert graph.told(analyze("E"))["analysis"]["topics"] == {}


# --- propose_entity_split ------------------------------------------------------------------------


def test_a_split_is_proposed(large: Graph) -> None:
    large.after(add("P", *(f"tests m{i}" for i in range(2))))
    proposal = large.told(propose("P"))["proposal"]
    assert proposal["original_entity"] == {"name": "P", "entity_type": "Proyecto"}
    assert [one["name"] for one in proposal["suggested_splits"]] == [
        "P - Tests",
        "P - Deploy",
        "P - Colour",
    ]
    assert {one["entity_type"] for one in proposal["suggested_splits"]} == {"Proyecto"}
    assert proposal["relations_to_create"][:2] == [
        {"from": "P", "to": "P - Tests", "type": "contiene"},
        {"from": "P - Tests", "to": "P", "type": "parte_de"},
    ]
    assert len(proposal["relations_to_create"]) == 6
    analysis = proposal["analysis"]
    assert (analysis["observation_count"], analysis["threshold"]) == (30, 25)
    assert analysis["split_score"] == 1.2
    moved = [text for one in proposal["suggested_splits"] for text in one["observations"]]
    assert len(moved) == len(set(moved))
    assert set(moved) <= set(large.said("P"))


def test_what_needs_no_split_gets_no_proposal(graph: Graph) -> None:
    graph.after(create(entity("E", None, "a", "b")))
    assert graph.told(propose("E")) == {"proposal": None}


def test_what_is_about_one_thing_gets_no_proposal(graph: Graph) -> None:
    graph.after(create(entity("E", None, *(f"n{i}" for i in range(21)))))
    assert graph.told(propose("E")) == {"proposal": None}


def test_a_proposed_name_is_nobody_elses(large: Graph) -> None:
    large.after(create(entity("P - Tests"), entity("P - Tests 2"), entity("P - Deploy")))
    names = [one["name"] for one in large.told(propose("P"))["proposal"]["suggested_splits"]]
    assert names == ["P - Tests 3", "P - Deploy 2", "P - Colour"]


@pytest.mark.parametrize(("count", "length"), [(1_300, 20), (900, 1_500)])
def test_a_proposal_is_no_larger_than_what_can_be_carried_out(
    graph: Graph, count: int, length: int
) -> None:
    texts = [text.ljust(length, "x") for text in grown(count, 30)]
    graph.after(create(entity("P")))
    for start in range(0, len(texts), 100):
        graph.after(add("P", *texts[start : start + 100]))
    proposal = graph.told(propose("P"))["proposal"]
    parts = proposal["suggested_splits"]
    moved = sum(len(one["observations"]) for one in parts)
    assert 0 < proposal["left_for_later"] <= len(texts) - moved
    graph.after(split("P", *parts))
    assert len(graph.said("P")) == len(texts) - moved


def test_what_is_proposed_can_be_carried_out(large: Graph) -> None:
    long = "P" * 512
    texts = grown(12, 10)
    large.after(create(entity(long, None, *texts)))
    for name in ("P", long):
        before = large.said(name)
        parts = large.told(propose(name))["proposal"]["suggested_splits"]
        large.after(split(name, *parts))
        after = [text for one in parts for text in large.said(one["name"])]
        assert sorted([*after, *large.said(name)]) == sorted(before)
        assert large.told(propose(name)) == {"proposal": None}


def test_aliases_are_carried_out_and_recorded_as_they_were_called(large: Graph) -> None:
    large.when(ask("propose_entity_split_tool", entity_name="P")).then()
    assert large.decision is not None
    assert large.decision.tool == "propose_entity_split_tool"
    parts = [part("Q", "Proyecto", "tests n0")]
    large.when(
        ask("execute_entity_split_tool", entity_name="P", approved_splits=parts)
    ).then_taken()
    assert large.decision.tool == "execute_entity_split_tool"
    assert large.said("Q") == ["tests n0"]


# --- execute_entity_split ------------------------------------------------------------------------


def result(made: list[str], moved: int, relations: int, left: int, **more: Any) -> Reply:
    return {
        "result": {
            "new_entities": made,
            "moved_observations": moved,
            "relations_created": relations,
            "original_observations_remaining": left,
            **more,
        }
    }


def test_a_split_is_carried_out(graph: Graph) -> None:
    graph.after(create(entity("P", "Proyecto", "a", "b", "c"))).when(
        split("P", part("P - One", "Proyecto", "c", "a"))
    ).then(
        EntitySplit(entity_id=1, name="P", parts=[SplitPart(2, "P - One", 2)], parent_id=1),
        EntityCreated(entity_id=2, name="P - One", entity_type="Proyecto"),
        ObservationsRemoved(entity_id=1, observations=["c", "a"]),
        ObservationsAdded(entity_id=2, observations=["c", "a"]),
        RelationCreated(relation_id=1, source_id=1, target_id=2, relation_type="contiene"),
        RelationCreated(relation_id=2, source_id=2, target_id=1, relation_type="parte_de"),
    ).then_reply(result(["P - One"], 2, 2, 1))
    assert (graph.said("P"), graph.said("P - One")) == (["b"], ["c", "a"])
    assert graph.access(1)[0] == graph.access(2)[0] == 1


def test_several_parts_have_ids_in_their_order(graph: Graph) -> None:
    graph.after(create(entity("P", "T", "a", "b"), entity("X"))).when(
        split("P", part("Q", "T", "a"), part("R", "U", "b"))
    ).then_reply(result(["Q", "R"], 2, 4, 0))
    told = graph.told(read())
    assert [(one["id"], one["name"], one["entityType"]) for one in told["entities"]] == [
        (1, "P", "T"),
        (2, "X", "Generic"),
        (3, "Q", "T"),
        (4, "R", "U"),
    ]
    assert len({one["id"] for one in told["relations"]}) == 4


def test_a_part_that_exists_takes_the_observations_in(graph: Graph) -> None:
    graph.after(create(entity("P", "T", "a", "b"), entity("Q", "T", "a", "z"))).when(
        split("P", part("Q", "T", "a", "b"))
    ).then(
        EntitySplit(entity_id=1, name="P", parts=[SplitPart(2, "Q", 2)], parent_id=1),
        ObservationsRemoved(entity_id=1, observations=["a", "b"]),
        ObservationsAdded(entity_id=2, observations=["b"]),
        RelationCreated(relation_id=1, source_id=1, target_id=2, relation_type="contiene"),
        RelationCreated(relation_id=2, source_id=2, target_id=1, relation_type="parte_de"),
    ).then_reply(result([], 2, 2, 0, merged_into=["Q"]))
    assert graph.said("Q") == ["a", "z", "b"]


def test_a_relation_that_holds_is_not_made_again(graph: Graph) -> None:
    graph.after(
        create(entity("P", "T", "a", "b"), entity("Q", "T")),
        relate(triple("P", "contiene", "Q")),
    )
    graph.when(split("P", part("Q", "T", "a"))).then_reply(result([], 1, 1, 1, merged_into=["Q"]))
    graph.after(end(1)).when(split("P", part("Q", "T", "b"))).then_reply(
        result([], 1, 2, 0, merged_into=["Q"])
    )


def test_the_parts_may_belong_to_another_parent(graph: Graph) -> None:
    graph.after(create(entity("P", "T", "a"), entity("Owner"))).when(
        split("P", part("Q", "T", "a"), parent_entity_name="Owner")
    ).then_reply(result(["Q"], 1, 2, 0))
    relations = graph.told(open_nodes("Q"))["relations"]
    assert [(one["from"], one["relationType"], one["to"]) for one in relations] == [
        ("Owner", "contiene", "Q"),
        ("Q", "parte_de", "Owner"),
    ]


REFUSED: dict[str, tuple[Ask, str]] = {
    "no part": (split("P"), "approved_splits must be a list of 1 to 50 entries, not []"),
    "51 parts": (
        split("P", *(part(f"Q{i}", "T", "a") for i in range(51))),
        "approved_splits must be a list of 1 to 50 entries, not a list of 51",
    ),
    "a part of nothing": (split("P", part("Q", "T")), "approved_splits[0].observations must …"),
    "a part without a type": (
        split("P", {"name": "Q", "observations": ["a"]}),
        "approved_splits[0] needs entity_type",
    ),
    "what it does not say": (
        split("P", part("Q", "T", "a", "A")),
        "P does not have the observation 'A'",
    ),
    "one observation in two parts": (
        split("P", part("Q", "T", "a"), part("R", "T", "a")),
        "The observation 'a' is to be moved twice; name it once, in one part",
    ),
    "one observation twice in a part": (
        split("P", part("Q", "T", "a", "a")),
        "The observation 'a' is to be moved twice; name it once, in one part",
    ),
    "two parts of one name": (
        split("P", part("Q", "T", "a"), part("Q", "T", "b")),
        "approved_splits has two parts named 'Q'; make them one",
    ),
    "itself": (
        split("P", part("P", "T", "a")),
        "approved_splits names the entity that is split, 'P'; a part needs its own name",
    ),
    "its parent": (
        split("P", part("Owner", "Generic", "a"), parent_entity_name="Owner"),
        "approved_splits names the parent, 'Owner'; a part needs its own name",
    ),
    "an unknown parent": (
        split("P", part("Q", "T", "a"), parent_entity_name="Nobody"),
        "Entity not found: Nobody",
    ),
    "a parent that is yet to be made": (
        split("P", part("Q", "T", "a"), parent_entity_name="Q"),
        "Entity not found: Q",
    ),
    "a part that exists as something else": (
        split("P", part("R", "T", "a"), part("Owner", "T", "b")),
        "Entity 'Owner' exists already as a Generic, not a T; …",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_split_that_cannot_be_is_refused_whole(graph: Graph, why: str) -> None:
    asked, sentence = REFUSED[why]
    graph.after(create(entity("P", "T", "a", "b"), entity("Owner"))).when(asked)
    graph.then_refused(sentence)


def test_a_split_under_a_key_happens_once(graph: Graph) -> None:
    graph.after(create(entity("P", "T", "a", "b")))
    asked = split("P", part("Q", "T", "a"), key="k")
    first = graph.told(asked)
    graph.when(asked).then().then_reply(first)


# --- find_split_candidates -----------------------------------------------------------------------


def test_candidates_are_found_the_fullest_first(large: Graph) -> None:
    session = [f"colour s{i}" for i in range(18)]
    large.after(
        create(entity("S", "Sesion", *session), entity("small", None, "a")),
        create(entity("full", None, *(f"n{i}" for i in range(20)))),
    )
    found = large.told(candidates())
    assert set(found) == {"candidates"}
    assert [(one["entity_name"], one["split_score"]) for one in found["candidates"]] == [
        ("S", 1.2),
        ("P", 1.12),
    ]
    assert found["candidates"][1] == large.told(analyze("P"))["analysis"]


def test_no_candidates(graph: Graph) -> None:
    assert graph.told(candidates()) == {"candidates": []}
    graph.after(create(entity("a", None, "x")))
    assert graph.told(candidates()) == {"candidates": []}


def test_looking_for_candidates_is_bounded(large: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    other = grown(14, 14, 14)
    large.after(create(entity("Q", "Proyecto", *other)))
    large.passages = {**meaning(other), **(large.passages or {})}
    monkeypatch.setattr(examining, "MAX_EMBEDDED", 50)
    found = large.told(candidates())["candidates"]
    assert large.embedded == 42, "those that are most over their threshold"
    assert [len(one["topics"]) for one in found] == [3, 3], "the rest goes by words"
    monkeypatch.setattr(examining, "MAX_CANDIDATES", 1)
    short = large.told(candidates())
    assert [one["entity_name"] for one in short["candidates"]] == ["Q"]
    assert (short["truncated"], short["total_candidates"]) == (True, 2)
    monkeypatch.setattr(examining, "MAX_CANDIDATES", 200)
    monkeypatch.setattr(examining, "MAX_CHARACTERS", 400)
    assert large.told(candidates()) == short
