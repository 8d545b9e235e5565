"""Reflections: what they may be about, and how they are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemolog.events.graph import MAX_REFLECTION, ReflectionAdded
from mnemolog.services.families.graph.answering import semantic
from tests.spec.given import NORTH, NOW_US, Ask, at_cosine
from tests.spec.given_graph import (
    Graph,
    create,
    delete,
    end,
    entity,
    reflect,
    relate,
    triple,
    unrelate,
)
from tests.spec.given_meaning import Meant, reflections

SHAPED = "This entity represents the core architectural decision that shaped the entire project."
NEAR, HALF = at_cosine(0.9), at_cosine(0.5)


@pytest.fixture
def graph(graph: Graph) -> Graph:
    """With the entities A and B, and the relation 1 between them."""
    return graph.after(create(entity("A"), entity("B")), relate(triple("A", "uses", "B")))


@pytest.fixture
def meant(tmp_path: Path) -> Iterator[Meant]:
    meant = Meant(tmp_path)
    meant.after(create(entity("A")))
    meant.asking(trust=NORTH)
    yield meant
    meant.close()


# --- add_reflection ------------------------------------------------------------------------------


def test_the_documented_example(graph: Graph) -> None:
    asked = reflect(SHAPED, "entity", target_id=2, author="nolan", mood="insight", at_us=NOW_US)
    graph.when(asked).then(
        ReflectionAdded(
            reflection_id=1,
            target_type="entity",
            target_id=2,
            author="nolan",
            content=SHAPED,
            mood="insight",
        )
    ).then_reply(
        {
            "result": {
                "id": 1,
                "target_type": "entity",
                "target_id": 2,
                "author": "nolan",
                "content": SHAPED,
                "mood": "insight",
                "created_at": "2024-10-04 00:00:00",
            }
        }
    )


def test_author_and_mood_have_defaults_and_any_words(graph: Graph) -> None:
    graph.when(reflect("fine")).then_reply_has()
    assert graph.reply["result"]["author"] == "sofia"
    assert graph.reply["result"]["mood"] is None
    graph.after(reflect("bien", author="数据 agent", mood="à peu près"))
    assert graph.reply["result"]["id"] == 2, "ids of their own"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            reflect("x", "entity"),
            "target_id is required for target_type entity: the id of the entity",
        ),
        (
            reflect("x", "relation"),
            "target_id is required for target_type relation: the id of the relation",
        ),
        (reflect("x", "entity", target_id=9), "Entity 9 does not exist"),
        (reflect("x", "relation", target_id=9), "Relation 9 does not exist"),
        (
            reflect("x", "session", target_id=1),
            "target_id must be null for target_type session, not 1",
        ),
        (
            reflect("x", "global", target_id=1),
            "target_id must be null for target_type global, not 1",
        ),
        (
            reflect("x", "entity", target_id=0),
            "target_id must be a whole number greater than 0 and up to 9007199254740991, not 0",
        ),
        (
            reflect("x", "mood"),
            "target_type must be one of entity, session, relation, global, not 'mood'",
        ),
        (reflect(" "), "content must be text of 1 to 5000 characters that is not blank, not …"),
        (
            reflect("x" * (MAX_REFLECTION + 1)),
            "content must be text of 1 to 5000 characters that is not blank, not a text of 5001 …",
        ),
        (
            reflect("x", author=""),
            "author must be text of 1 to 64 characters that is not blank and has no…",
        ),
        (
            reflect("x", mood="m" * 65),
            "mood must be text of 1 to 64 characters that is not blank and has no…",
        ),
    ],
)
def test_what_is_refused(graph: Graph, asked: Ask, sentence: str) -> None:
    graph.when(asked).then_refused(sentence)


def test_another_tenant_s_entity_is_no_target(graph: Graph) -> None:
    graph.when(reflect("x", "entity", target_id=1, tenant="rival")).then_refused(
        "Entity 1 does not exist"
    )


def test_an_ended_relation_is_a_target_and_a_deleted_one_is_not(graph: Graph) -> None:
    graph.after(end(1), reflect("it was good", "relation", target_id=1))
    graph.after(relate(triple("A", "uses", "B")), unrelate(triple("A", "uses", "B")))
    graph.when(reflect("x", "relation", target_id=2)).then_refused("Relation 2 does not exist")


def test_it_outlives_what_it_is_about(meant: Meant) -> None:
    meant.after(reflect("trust it", "entity", target_id=1), delete("A"))
    meant.described(trust_it=NORTH)
    (row,) = meant.rows(reflections("trust"))
    assert (row["target_type"], row["target_id"]) == ("entity", 1)


# --- search_reflections --------------------------------------------------------------------------


def test_the_score_is_half_rank_half_nearness(meant: Meant) -> None:
    meant.after(
        reflect("trust it"), reflect("build on rock", author="nolan"), reflect("doubt all")
    ).described(trust_it=NEAR, build_on_rock=NORTH, doubt_all=HALF)
    rows = meant.rows(reflections("trust"))
    assert [(row["content"], row["score"]) for row in rows] == [
        ("trust it", pytest.approx(0.5 * (61 / 61 + 61 / 62) / 2 + 0.45, abs=0.001)),
        ("build on rock", pytest.approx(0.5 * (61 / 61) / 2 + 0.5, abs=0.001)),
        ("doubt all", pytest.approx(0.5 * (61 / 63) / 2 + 0.25, abs=0.001)),
    ]
    assert rows[1] == {
        "id": 2,
        "target_type": "global",
        "target_id": None,
        "author": "nolan",
        "content": "build on rock",
        "mood": None,
        "created_at": "2024-10-04 00:00:00",
        "score": rows[1]["score"],
    }


def test_a_score_lies_between_0_and_1(meant: Meant) -> None:
    meant.after(reflect("trust"), reflect("against")).described(
        trust=NORTH, against=at_cosine(-1.0)
    )
    assert [row["score"] for row in meant.rows(reflections("trust"))] == [
        1.0,
        pytest.approx(0.5 * (61 / 62) / 2, abs=0.001),
    ]


def test_words_are_found_before_the_vector_is_there(meant: Meant) -> None:
    meant.after(reflect("trust it"))
    (row,) = meant.rows(reflections("trust"))
    assert row["score"] == 0.5
    assert meant.answer["pending"] == 1
    meant.described(trust_it=NORTH)
    assert meant.rows(reflections("trust"))[0]["score"] == 1.0
    assert "pending" not in meant.answer


def test_another_script_is_searched_by_words_alone(meant: Meant) -> None:
    meant.after(reflect("信任 它"), reflect("trust")).described(trust=NORTH)
    assert meant.found(reflections("信任")) == ["信任 它"]


@pytest.mark.parametrize("exact", [semantic.EXACT, 0], ids=["few pass", "many pass"])
def test_filters_never_starve_the_result(
    meant: Meant, exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nearer and more literal ones of others are passed over, however many there are."""
    monkeypatch.setattr(semantic, "EXACT", exact)
    meant.after(*(reflect(f"trust {i}", author="sofia", mood="duda") for i in range(60)))
    meant.after(*(reflect(f"far {i}", author="nolan", mood="insight") for i in range(4)))
    meant.after(reflect("far away", "entity", target_id=1, author="nolan"))
    meant.described(
        **{f"trust_{i}": NORTH for i in range(60)},
        **{f"far_{i}": HALF for i in range(4)},
        far_away=NEAR,
    )
    found = meant.found(reflections("trust", author="nolan", limit=3))
    assert found == ["far away", "far 3", "far 2"]
    assert len(meant.found(reflections("trust", author="nolan"))) == 5
    assert len(meant.found(reflections("trust", mood="insight"))) == 4
    assert meant.found(reflections("trust", target_type="entity")) == ["far away"]
    assert meant.found(reflections("trust", author="nolan", target_type="session")) == []
    assert meant.found(reflections("trust", author="Nolan")) == []
    assert len(meant.found(reflections("trust", mood="duda", limit=50))) == 50


def test_searching_reflections_leaves_no_trace_but_the_record(meant: Meant) -> None:
    meant.after(reflect("trust"))
    meant.when(reflections("trust")).then().then_reply({"ids": [1]}).then_nothing_changed()


def test_entities_and_reflections_do_not_meet(meant: Meant) -> None:
    """Both have the id 1."""
    meant.after(reflect("trust")).described(trust=NORTH, A=NORTH)
    assert [row["id"] for row in meant.rows(reflections("trust"))] == [1]
    meant.after(delete("A"))
    assert meant.found(reflections("trust")) == ["trust"]


def test_tenants_do_not_see_each_other(meant: Meant) -> None:
    meant.after(reflect("trust"))
    assert meant.found(reflections("trust", tenant="rival")) == []


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (reflections(""), "query must be text of 1 to 500 characters that is not blank, not ''"),
        (reflections("x", limit=0), "limit must be a whole number from 1 to 100, not 0"),
        (
            reflections("x", target_type="all"),
            "target_type must be one of entity, session, relation, global, not 'all'",
        ),
        (reflections("x", author=""), "author must be text of 1 to 64 characters…"),
    ],
)
def test_bad_searches_are_refused(meant: Meant, asked: Ask, sentence: str) -> None:
    meant.when(asked).then_refused(sentence)


def test_without_a_model_it_is_refused(tmp_path: Path) -> None:
    meant = Meant(tmp_path, has_model=False)
    meant.when(reflections("web")).then_refused("Embedding model not available. Run `mnemolog …")
    meant.close()
