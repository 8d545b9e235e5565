"""find_duplicate_observations, consolidation_report, similarity_flag."""

from __future__ import annotations

import pytest

from mnemolog.events.graph import EntitiesAccessed, ObservationsAdded
from mnemolog.services.families.graph.answering import upkeep
from mnemolog.services.families.graph.rules import GraphRules
from tests.spec.given import NORTH, ask, at_cosine, days, unit
from tests.spec.given_graph import (
    Graph,
    add,
    create,
    duplicates,
    entity,
    open_nodes,
    part,
    report,
    split,
    unsay,
)

STACK = "Stack: FastMCP + SQLite + ONNX Runtime for embeddings"


def flagged(graph: Graph) -> list[str]:
    rows = graph.state.view.all(
        "SELECT content FROM observation WHERE similarity_flag = 1 ORDER BY entity, place"
    )
    return [row[0] for row in rows]


# --- find_duplicate_observations -----------------------------------------------------------------


def test_duplicates_are_found_by_meaning_and_by_containment(graph: Graph) -> None:
    texts = ["Deployed on Vercel", "Hosted at Vercel", STACK, "FastMCP", "unrelated text"]
    graph.after(create(entity("P", None, *texts)))
    graph.passages = {
        texts[0]: NORTH,
        texts[1]: at_cosine(0.91),
        STACK: unit(0, 0, 1),
        "FastMCP": unit(0, 0, 0, 1),
        texts[4]: unit(0, 0, 0, 0, 1),
    }
    told = graph.told(duplicates("P"))
    assert told == {
        "entity_name": "P",
        "total_observations": 5,
        "duplicate_pairs": [
            {
                "obs_text_a": STACK,
                "obs_text_b": "FastMCP",
                "similarity_score": 1.0,
                "match_type": "containment",
                "group": 2,
            },
            {
                "obs_text_a": texts[0],
                "obs_text_b": texts[1],
                "similarity_score": pytest.approx(0.91, abs=0.001),
                "match_type": "cosine",
                "group": 1,
            },
        ],
    }
    graph.then()
    graph.then_nothing_changed()


def test_each_pair_is_told_once_and_chains_are_one_group(graph: Graph) -> None:
    graph.after(create(entity("P", None, "aa", "bb", "cc", "dd", "ee")))
    graph.passages = {
        "aa": NORTH,
        "bb": unit(0.9, 0.435),
        "cc": unit(0.6, 0.8),
        "dd": unit(0, 0, 1),
        "ee": unit(0, 0, 1),
    }
    pairs = graph.told(duplicates("P"))["duplicate_pairs"]
    assert [(one["obs_text_a"], one["obs_text_b"], one["group"]) for one in pairs] == [
        ("dd", "ee", 2),
        ("aa", "bb", 1),
        ("bb", "cc", 1),
    ]


@pytest.mark.parametrize(
    ("threshold", "found"), [(0.0, 1), (0.86, 1), (0.874, 1), (0.876, 0), (1.0, 0)]
)
def test_the_threshold_is_the_callers(graph: Graph, threshold: float, found: int) -> None:
    graph.after(create(entity("P", None, "alpha", "beta")))
    graph.passages = {"alpha": NORTH, "beta": at_cosine(0.875)}
    assert len(graph.told(duplicates("P", threshold=threshold))["duplicate_pairs"]) == found


@pytest.mark.parametrize(
    ("short", "share"),
    [
        ("gripper slips", 1.0),
        ("gripper holds", 0.5),
        ("Gripper SLIPS!", 1.0),
        ("agarra slips", 0.5),
    ],
)
def test_containment_is_the_share_of_the_shorter_texts_words(
    graph: Graph, short: str, share: float
) -> None:
    long = "the gripper slips on glass that is wet"
    graph.after(create(entity("P", None, long, short)))
    graph.passages = {}
    for threshold in (share, share + 0.01):
        if threshold <= 1:
            told = graph.told(duplicates("P", containment_threshold=threshold))["duplicate_pairs"]
            assert [one["similarity_score"] for one in told] == [share] * (threshold == share)


def test_what_the_model_does_not_cover_is_compared_by_its_words(graph: Graph) -> None:
    texts = [
        "明日は東京で会議があります",
        "明日は東京で会議があります。",
        "猫は魚が好きです",
        "tea",
    ]
    graph.after(create(entity("P", None, *texts)))
    graph.passages = {"tea": NORTH}
    (pair,) = graph.told(duplicates("P"))["duplicate_pairs"]
    assert (pair["obs_text_a"], pair["obs_text_b"]) == (texts[0], texts[1])
    assert (pair["similarity_score"], pair["match_type"]) == (1.0, "words")


def test_texts_of_about_one_length_do_not_contain_each_other(graph: Graph) -> None:
    graph.after(create(entity("P", None, "wet glass slips", "slips wet glass often")))
    graph.passages = {}
    assert graph.told(duplicates("P"))["duplicate_pairs"] == []


def test_without_the_model_there_is_an_error_that_says_what_to_do(graph: Graph) -> None:
    graph.after(create(entity("P", None, "a", "b")))
    graph.when(duplicates("P")).then_refused(
        "Embedding model not available. Run `mnemolog models pull spec-model` to download …"
    )
    graph.model = None
    graph.when(duplicates("P")).then_refused(
        "Embedding model not available. The service runs with the model `none`: run …"
    )


@pytest.mark.parametrize("name", ["threshold", "containment_threshold"])
@pytest.mark.parametrize("value", [-0.1, 1.1, "0.9"])
def test_a_threshold_is_a_number_from_0_to_1(graph: Graph, name: str, value: object) -> None:
    graph.after(create(entity("P")))
    graph.when(ask("find_duplicate_observations", entity_name="P", **{name: value})).then_refused(
        f"{name} must be a number from 0.0 to 1.0, not …"
    )


def test_an_unknown_entity_has_no_duplicates(graph: Graph) -> None:
    graph.passages = {}
    graph.when(duplicates("Nobody")).then_refused("Entity not found: Nobody")


def test_nothing_to_compare(graph: Graph) -> None:
    graph.after(create(entity("P")))
    graph.passages = {}
    assert graph.told(duplicates("P")) == {
        "entity_name": "P",
        "total_observations": 0,
        "duplicate_pairs": [],
    }


def test_comparing_is_bounded(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.after(create(entity("P", None, "a", "b", "c")))
    graph.passages = dict.fromkeys("abc", NORTH)
    monkeypatch.setattr(upkeep, "MAX_PAIRS", 2)
    told = graph.told(duplicates("P"))
    assert len(told["duplicate_pairs"]) == 2
    assert (told["truncated"], told["total_pairs"]) == (True, 3)
    monkeypatch.setattr(upkeep, "MAX_COMPARED", 2)
    graph.when(duplicates("P")).then_refused(
        "P has 3 observations, and up to 2 can be compared; propose_entity_split tells how to …"
    )


# --- similarity_flag -----------------------------------------------------------------------------


def test_an_observation_that_resembles_another_is_flagged(graph: Graph) -> None:
    graph.after(create(entity("P", None, STACK))).when(add("P", "FastMCP", "Vercel")).then(
        ObservationsAdded(entity_id=1, observations=["FastMCP", "Vercel"], flagged=[0]),
        EntitiesAccessed(entity_ids=[1]),
    )
    assert flagged(graph) == ["FastMCP"]
    graph.when(create(entity("P", None, "Vercel with a domain of our own and more"))).then(
        ObservationsAdded(
            entity_id=1, observations=["Vercel with a domain of our own and more"], flagged=[0]
        )
    )


def test_observations_of_one_call_are_compared_too(graph: Graph) -> None:
    graph.when(create(entity("P", None, "FastMCP", "other", STACK)))
    assert flagged(graph) == [STACK]


def test_other_entities_do_not_matter(graph: Graph) -> None:
    graph.after(create(entity("P", None, STACK), entity("Q", None, "FastMCP")))
    assert flagged(graph) == []


@pytest.mark.parametrize(
    ("said", "new", "resembles"),
    [
        ("deployed on Vercel with a domain", "deployed on vercel, with a domain", True),
        ("el despliegue está en Vercel", "El despliegue esta en Vercel", True),
        ("deployed on Vercel with a domain", "hosted at Netlify without a domain", False),
        ("the arm stops after 12 cycles", "the arm stops after 13 cycles", False),
        ("the arm stops at the blue line there", "the arm does not stop at the blue line", False),
        ("抓取力过大会损坏陶瓷杯子的把手", "陶瓷杯子", True),
        ("抓取力过大会损坏陶瓷杯子的把手", "导航地图", False),
    ],
)
def test_what_resembles(graph: Graph, said: str, new: str, resembles: bool) -> None:
    graph.after(create(entity("P", None, said)), add("P", new))
    assert flagged(graph) == [new] * resembles


def test_the_rules_set_how_much_is_alike(graph: Graph) -> None:
    graph = Graph(GraphRules(similar_containment=1.0))
    long = "one two three four five six seven eight nine"
    graph.after(create(entity("P", None, long)), add("P", "one two three x", "one two three"))
    assert flagged(graph) == ["one two three"]


def test_only_so_many_of_the_newest_are_compared() -> None:
    graph = Graph(GraphRules(similar_among=2))
    graph.after(create(entity("P", None, STACK, "b1", "b2")), add("P", "FastMCP"))
    assert flagged(graph) == []
    graph = Graph(GraphRules(similar_characters=len(STACK) + 3))
    graph.after(create(entity("P", None, STACK, "bb1")), add("P", "FastMCP"))
    assert flagged(graph) == ["FastMCP"]
    graph.after(add("P", "c"), unsay("P", "FastMCP"), add("P", "ONNX"))
    assert flagged(graph) == []


def test_a_moved_observation_is_compared_with_what_its_new_entity_says(graph: Graph) -> None:
    graph.after(
        create(entity("P", "T", STACK, "FastMCP", "other"), entity("Q", "T", "other than that"))
    )
    graph.after(split("P", part("Q", "T", "FastMCP", "other")))
    assert flagged(graph) == ["other"]


# --- consolidation_report ------------------------------------------------------------------------


def test_an_empty_graph_has_nothing_to_report(graph: Graph) -> None:
    empty = {
        "summary": {
            "total_entities": 0,
            "total_observations": 0,
            "split_candidates_count": 0,
            "flagged_observations_count": 0,
            "stale_entities_count": 0,
            "large_entities_count": 0,
        },
        "split_candidates": [],
        "flagged_observations": [],
        "stale_entities": [],
        "large_entities": [],
    }
    assert graph.told(report()) == empty
    graph.after(create(entity("ours")))
    assert graph.told(report(tenant="rival")) == empty


def test_the_report(graph: Graph) -> None:
    mixed = [f"{word} n{i}" for i in range(9) for word in ("tests", "deploy")]
    alike = [f"n{i}" for i in range(16)]
    graph.after(
        create(entity("Sesión 1", "Sesion", *mixed), entity("one thing", "Sesion", *alike)),
        create(entity("My Project", "Project", "Deployed on Vercel with a domain of its own")),
        add("My Project", "deployed on Vercel"),
        create(entity("Old", None, "x", "y", "z")),
        create(entity("says nothing")),
        open_nodes("Sesión 1", "one thing", "My Project", at_us=days(100)),
    )
    told = graph.told(report(at_us=days(145.9)))
    assert told == {
        "summary": {
            "total_entities": 5,
            "total_observations": 39,
            "split_candidates_count": 1,
            "flagged_observations_count": 1,
            "stale_entities_count": 1,
            "large_entities_count": 2,
        },
        "split_candidates": [
            {
                "entity_name": "Sesión 1",
                "entity_type": "Sesion",
                "observation_count": 18,
                "threshold": 15,
                "split_score": 1.2,
            }
        ],
        "flagged_observations": [
            {
                "entity_name": "My Project",
                "observation_text": "deployed on Vercel",
                "similarity_flag": 1,
            }
        ],
        "stale_entities": [
            {
                "entity_name": "Old",
                "entity_type": "Generic",
                "last_accessed_days_ago": 145,
                "access_count": 1,
                "observation_count": 3,
            }
        ],
        "large_entities": [
            {"entity_name": "Sesión 1", "entity_type": "Sesion", "observation_count": 18},
            {"entity_name": "one thing", "entity_type": "Sesion", "observation_count": 16},
        ],
    }
    graph.then()
    graph.then_nothing_changed()


def stale(graph: Graph, at: float, **more: object) -> list[str]:
    told = graph.told(report(at_us=days(at), **more))
    assert told["summary"]["stale_entities_count"] == len(told["stale_entities"])
    return [one["entity_name"] for one in told["stale_entities"]]


def test_what_is_stale(graph: Graph) -> None:
    graph.after(
        create(entity("often", None, "x")),
        create(entity("twice", None, "x")),
        create(entity("lately", None, "x")),
        open_nodes("often"),
        open_nodes("often", "twice"),
        open_nodes("lately", at_us=days(50)),
    )
    assert stale(graph, 89) == []
    assert stale(graph, 90) == ["twice"], "often was accessed three times"
    assert stale(graph, 140) == ["twice", "lately"]
    assert stale(graph, 51, stale_days=1) == ["twice", "lately"]
    assert stale(graph, 50, stale_days=0) == ["twice", "lately"]
    assert stale(graph, 50.9, stale_days=0.95) == ["twice"]


@pytest.mark.parametrize("value", [-1, -0.001, 36_501, "90"])
def test_stale_days_are_a_number_of_days(graph: Graph, value: object) -> None:
    graph.when(ask("consolidation_report", stale_days=value)).then_refused(
        "stale_days must be a number from 0.0 to 36500.0, not …"
    )


def test_lists_are_cut_and_counts_are_not(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAX_ROWS", 2)
    monkeypatch.setattr(upkeep, "MAX_CANDIDATES", 2)
    mixed = [f"{word} n{i}" for i in range(11) for word in ("tests", "deploy")]
    graph.after(
        create(*(entity(f"e{i}", None, *mixed, "tests n0 and deploy n1") for i in range(3)))
    )
    told = graph.told(report(stale_days=0))
    lists = ("split_candidates", "flagged_observations", "stale_entities", "large_entities")
    assert [len(told[name]) for name in lists] == [2, 2, 2, 2]
    assert [told["summary"][f"{name}_count"] for name in lists] == [3, 3, 3, 3]
