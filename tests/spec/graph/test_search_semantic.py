"""Entities by meaning and words, ranked by how they are used."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import exp
from pathlib import Path

import pytest

from mnemolog.events.graph import EntitiesAccessed, EntitiesCoOccurred
from tests.spec.given import NORTH, NOW_US, at_cosine, days
from tests.spec.given_graph import (
    add,
    create,
    delete,
    end,
    entity,
    open_nodes,
    relate,
    triple,
)
from tests.spec.given_meaning import Meant, semantic

HALF = at_cosine(0.5)
NEAR = at_cosine(0.9)


@pytest.fixture
def meant(tmp_path: Path) -> Iterator[Meant]:
    """Astro, Kafka and Cup lie at a cosine of 1, 0.9 and 0.5 from what is asked."""
    meant = Meant(tmp_path)
    meant.after(
        create(
            entity("Astro", "Tool", "a web framework"),
            entity("Kafka", "Tool", "a log"),
            entity("Cup", "Thing", "red"),
        )
    )
    meant.described(Astro=NORTH, Kafka=NEAR, Cup=HALF)
    meant.asking(web=NORTH, sites=NORTH, cup=NORTH)
    yield meant
    meant.close()


def test_meaning_alone_when_no_word_is_found(meant: Meant) -> None:
    """All were used alike: importance 1.2, so 1.6 times the nearness."""
    rows = meant.rows(semantic("sites"))
    assert [row["name"] for row in rows] == ["Astro", "Kafka", "Cup"]
    assert rows[1] == {
        "id": 2,
        "name": "Kafka",
        "entityType": "Tool",
        "observations": ["a log"],
        "limbic_score": pytest.approx(1.44, abs=0.001),
        "scoring": {"importance": 1.2, "temporal_factor": 1.0, "cooc_boost": 0.0},
        "distance": pytest.approx(0.1, abs=0.001),
    }
    assert rows[0]["distance"] == 0.0
    assert meant.answer.keys() == {"results"}


def test_words_and_meaning_are_fused(meant: Meant) -> None:
    rows = {row["name"]: row["rrf_score"] for row in meant.rows(semantic("cup"))}
    assert rows == {
        "Astro": round(1 / 61, 6),
        "Kafka": round(1 / 62, 6),
        "Cup": round(1 / 63 + 1 / 61, 6),
    }


def test_what_is_asked_for_in_another_script_is_found_by_words(meant: Meant) -> None:
    meant.after(add("Cup", "杯子 在 桌上")).described(Cup=HALF)
    rows = meant.rows(semantic("杯子"))
    assert [(row["name"], row["distance"], row["rrf_score"]) for row in rows] == [
        ("Cup", None, round(1 / 61, 6))
    ]
    assert rows[0]["limbic_score"] == pytest.approx(0.8 * 1.6)
    assert meant.rows(semantic("没有")) == []


@pytest.mark.parametrize(
    ("asked_at", "best", "score", "distance"),
    [
        # Nearness 1 is more than the 0.8 of the best words.
        (NORTH, "o0", 1.6, 0.0),
        # Nearness 0.5 is less; how far away it is, is shown though it does not count.
        (at_cosine(0.5, axis=3), "Mug", 1.28, 0.95),
    ],
    ids=["meaning wins", "words win"],
)
def test_what_only_words_found_is_scored_by_its_rank(
    tmp_path: Path, asked_at: bytes, best: str, score: float, distance: float
) -> None:
    """With limit 1 each leg has three places, and those of the meaning go to others."""
    meant = Meant(tmp_path)
    others = {f"o{i}": at_cosine(1.0 - i / 100) for i in range(4)}
    meant.after(create(*map(entity, others), entity("Mug", None, "for tea")))
    meant.described(**others, Mug=at_cosine(0.1)).asking(tea=asked_at)
    (row,) = meant.rows(semantic("tea", limit=1))
    assert row["name"] == best
    assert row["limbic_score"] == pytest.approx(score, abs=0.001)
    assert row["distance"] == pytest.approx(distance, abs=0.001)
    assert row["rrf_score"] == round(1 / 61, 6)
    meant.close()


def test_what_the_model_does_not_cover_has_no_distance(meant: Meant) -> None:
    meant.after(create(entity("杯", None, "web")))
    meant.described()
    rows = {row["name"]: row["distance"] for row in meant.rows(semantic("web"))}
    assert rows["杯"] is None
    assert rows["Astro"] == 0.0


def test_use_moves_the_ranking(meant: Meant) -> None:
    assert meant.found(semantic("sites"))[0] == "Astro"
    for i in range(40):
        meant.after(open_nodes("Kafka", at_us=days(i % 5)))
    assert meant.found(semantic("sites", at_us=days(5)))[0] == "Kafka"


def test_importance_counts_accesses_days_and_relations(meant: Meant) -> None:
    """Astro: 4 accesses on 2 days, 1 active relation; the others one access on one day."""
    meant.after(relate(triple("Astro", "uses", "Astro"), triple("Cup", "on", "Astro")), end(2))
    for at in (0.1, 1.0, 1.1):
        meant.after(open_nodes("Astro", at_us=days(at)))
    rows = {row["name"]: row["scoring"] for row in meant.rows(semantic("sites", at_us=days(1.1)))}
    assert rows["Astro"]["importance"] == round(1 * 1.01 * 1.2, 4)
    # log2(2)/log2(5) = 0.430677, log2(2)/log2(3) = 0.630930
    assert rows["Cup"]["importance"] == round(0.430677 * 1 * (1 + 0.2 * 0.630930), 4)
    assert rows["Cup"]["temporal_factor"] == round(exp(-0.0001 * 26.4), 4)
    assert rows["Astro"]["temporal_factor"] == 1.0


def test_what_was_found_together_helps_each_other(meant: Meant) -> None:
    meant.after(open_nodes("Astro", "Cup"), open_nodes("Astro", "Cup"), open_nodes("Cup", "Kafka"))
    rows = {row["name"]: row["scoring"]["cooc_boost"] for row in meant.rows(semantic("sites"))}
    assert rows == {"Astro": 1.585, "Cup": 2.585, "Kafka": 1.0}


def test_the_call_s_own_time_counts(meant: Meant) -> None:
    row = meant.rows(semantic("sites", at_us=NOW_US + 10_000 * 3_600_000_000))[0]
    assert row["scoring"]["temporal_factor"] == round(exp(-1), 4)
    row = meant.rows(semantic("sites", at_us=NOW_US - 5))[0]
    assert row["scoring"]["temporal_factor"] == 1.0


def test_every_result_is_used_by_being_found(meant: Meant) -> None:
    meant.when(semantic("sites", at_us=days(1))).then(
        EntitiesAccessed(entity_ids=[1, 2, 3]), EntitiesCoOccurred(entity_ids=[1, 2, 3])
    ).then_reply({"ids": [1, 2, 3]})
    assert [meant.access(n) for n in (1, 2, 3)] == [(2, 2, days(1))] * 3
    assert set(meant.pairs()) == set(combinations((1, 2, 3), 2))
    meant.when(semantic("sites", limit=1)).then(EntitiesAccessed(entity_ids=[1]))


def test_as_many_as_asked_for(meant: Meant) -> None:
    assert meant.found(semantic("sites", limit=2)) == ["Astro", "Kafka"]
    for limit in (0, 101, -1):
        meant.when(semantic("sites", limit=limit)).then_refused(
            f"limit must be a whole number from 1 to 100, not {limit}"
        )


@pytest.mark.parametrize("query", ["", " \n", "x" * 501])
def test_a_query_has_1_to_500_characters(meant: Meant, query: str) -> None:
    meant.when(semantic(query)).then_refused(
        "query must be text of 1 to 500 characters that is not blank, …"
    )


def test_what_changed_is_found_by_what_it_says_now(meant: Meant) -> None:
    meant.after(add("Cup", "holds tea"))
    meant.when(semantic("sites"))
    assert meant.answer["pending"] == 1
    meant.described(Cup=NORTH).asking(tea=NORTH)
    assert meant.found(semantic("tea", limit=1)) == ["Cup"]
    assert "pending" not in meant.answer


def test_what_is_deleted_is_not_found(meant: Meant) -> None:
    meant.after(delete("Astro"))
    assert meant.found(semantic("web")) == ["Kafka", "Cup"]
    meant.after(create(entity("Astro", "Tool", "a web framework"))).described(Astro=NORTH)
    assert ("Astro", 4) in [(row["name"], row["id"]) for row in meant.rows(semantic("web"))]


def test_tenants_do_not_see_each_other(meant: Meant) -> None:
    meant.after(create(entity("Web", None, "web web"), tenant="rival"))
    meant.described_of("rival", {"Web": NORTH})
    assert meant.found(semantic("web", tenant="rival")) == ["Web"]
    assert "Web" not in meant.found(semantic("web"))
    assert meant.found(semantic("web", tenant="nobody")) == []


def test_a_store_that_lags_gives_no_wrong_distance(meant: Meant) -> None:
    """The vector index missed the last description: the state knows better."""
    with meant.vectors_lag():
        meant.after(add("Astro", "turned away")).described(Astro=HALF)
    rows = {row["name"]: row["distance"] for row in meant.rows(semantic("sites"))}
    assert rows["Astro"] == pytest.approx(0.5, abs=0.001)


def test_what_only_a_store_that_lags_knows_is_not_found(meant: Meant) -> None:
    with meant.vectors_lag():
        for name in ("Astro", "Kafka", "Cup"):
            meant.after(add(name, "抓取力"))
        meant.described()  # None of them has a vector any more.
    meant.queries["unrelated"] = NORTH
    assert meant.found(semantic("unrelated")) == []


def test_without_a_model_it_is_refused(tmp_path: Path) -> None:
    meant = Meant(tmp_path, has_model=False)
    meant.after(create(entity("A")))
    meant.when(semantic("web")).then_refused(
        "Embedding model not available. Run `mnemolog models pull spec-model` to download it "
        "first; it is noticed without a restart"
    )
    meant.model = None
    meant.when(semantic("web")).then_refused(
        "Embedding model not available. The service runs with the model `none`: run …"
    )
    meant.close()
