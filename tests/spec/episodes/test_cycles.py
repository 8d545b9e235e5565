"""Relationships of some types never lead back to where they began; validate_no_cycles tells it of
all types."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import networkx  # type: ignore[import-untyped]
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from mnemolog.events.episodes import ACYCLIC, RelationshipType
from mnemolog.services.families.episodes import cycles
from tests.spec.given import Ask, ask
from tests.spec.given_episodes import (
    VALIDATION,
    Episodes,
    begun,
    called,
    linked,
    no_cycles,
    relate,
    unrelate,
)

TYPES = get_args(get_args(RelationshipType)[0])
FREE = [kind for kind in TYPES if kind not in ACYCLIC]
A, B, C, D = 1, 2, 3, 4


def path(*numbers: int) -> list[str]:
    return [called(number) for number in numbers]


def closes(kind: str, many: int) -> str:
    return (
        f"leads back by {kind} to the episode that it begins at; cycle_path has the {many}"
        " episodes of the cycle"
    )


@pytest.fixture
def episodes() -> Episodes:
    """With the episodes A, B, C and D."""
    return Episodes().given(*(begun(number) for number in (A, B, C, D)))


@pytest.mark.parametrize("kind", ACYCLIC)
def test_what_closes_a_cycle_is_refused_with_its_path(episodes: Episodes, kind: str) -> None:
    episodes.given(linked(1, A, kind, B), linked(2, B, kind, C), linked(3, A, kind, D))
    episodes.when(relate(B, kind, A)).then_invalid(
        "to_episode_id", closes(kind, 2), value=called(A), cycle_path=path(B, A, B)
    )
    episodes.when(relate(C, kind, A)).then_invalid(
        "to_episode_id", closes(kind, 3), value=called(A), cycle_path=path(C, A, B, C)
    )
    episodes.told(relate(D, kind, C))


def test_the_path_is_the_shortest(episodes: Episodes) -> None:
    kind = "depends_on"
    episodes.given(
        linked(1, A, kind, B), linked(2, B, kind, C), linked(3, C, kind, D), linked(4, A, kind, D)
    )
    episodes.when(relate(D, kind, A))
    assert episodes.reply["cycle_path"] == path(D, A, D)


def test_each_type_is_acyclic_on_its_own(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "depends_on", B))
    for kind in ("blocks", "parent_child"):
        episodes.told(relate(B, kind, A))


@pytest.mark.parametrize("kind", FREE)
def test_other_types_may_lead_back(episodes: Episodes, kind: str) -> None:
    episodes.given(linked(1, A, kind, B)).told(relate(B, kind, A))


def test_what_was_removed_closes_no_cycle(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "blocks", B), linked(2, B, "blocks", C))
    episodes.told(unrelate("r-1"))
    episodes.told(relate(C, "blocks", A))


def test_a_deleted_episode_is_on_no_cycle(episodes: Episodes) -> None:
    episodes.given(linked(1, A, "blocks", B), linked(2, B, "blocks", C))
    episodes.told(ask("delete_episode", episode_id=called(B), confirm=True))
    episodes.told(relate(C, "blocks", A))
    episodes.then_rebuilt()


@pytest.mark.parametrize("bound", ["MAX_WALKED", "MAX_LINKS"])
def test_a_walk_that_leads_too_far_is_given_up(
    episodes: Episodes, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycles, bound, 2)
    episodes.given(begun(5), begun(6))
    chain = [(A, B), (B, C), (C, D), (D, 5)]
    episodes.given(*(linked(n, a, "blocks", b) for n, (a, b) in enumerate(chain, 1)))
    for make in (relate, no_cycles):
        episodes.when(make(5, "blocks", A)).then_nothing_changed()
        assert episodes.decision is not None and episodes.decision.code == VALIDATION
        assert "too many to tell whether there would be a cycle" in episodes.reply["error"]
    # Nothing leads to a new episode: it is on no cycle, however much comes after it.
    episodes.told(relate(6, "blocks", A))
    # And the end is near from here.
    episodes.when(relate(5, "blocks", D))
    assert episodes.reply["cycle_path"] == path(5, D, 5)


def test_a_long_chain_is_walked_to_its_end() -> None:
    many = 1200
    episodes = Episodes().given(*(begun(number) for number in range(1, many + 1)))
    episodes.given(*(linked(n, n, "depends_on", n + 1) for n in range(1, many)))
    episodes.when(relate(many, "depends_on", 1))
    assert episodes.reply["cycle_path"] == path(many, *range(1, many + 1))


def test_a_wide_graph_is_walked_to_its_end() -> None:
    """Wider than what is looked up at once."""
    many = 1200
    episodes = Episodes().given(*(begun(number) for number in range(1, many + 1)))
    pairs = [(n // 2, n) for n in range(2, many + 1)]
    episodes.given(*(linked(n, a, "blocks", b) for n, (a, b) in enumerate(pairs, 1)))
    episodes.when(relate(many, "blocks", 1))
    way = [many]
    while way[-1] > 1:
        way.append(way[-1] // 2)
    assert episodes.reply["cycle_path"] == path(many, *way[::-1])
    episodes.given(begun(many + 1), linked(many, many + 1, "blocks", 1))
    episodes.told(relate(many + 1, "blocks", many))


@settings(max_examples=40, deadline=None)
@drawn(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 5), st.sampled_from(["blocks", "depends_on"])),
        max_size=25,
    )
)
def test_a_relationship_is_taken_if_and_only_if_its_type_stays_acyclic(
    asked: list[tuple[int, int, str]],
) -> None:
    episodes = Episodes().given(*(begun(number) for number in range(1, 6)))
    graphs = {kind: networkx.DiGraph() for kind in ("blocks", "depends_on")}
    for source, target, kind in asked:
        graph = graphs[kind]
        known = graph.has_edge(source, target)
        graph.add_edge(source, target)
        fine = not known and networkx.is_directed_acyclic_graph(graph)
        told = episodes.told(no_cycles(source, kind, target))
        assert told["is_valid"] == (known or fine)
        episodes.when(relate(source, kind, target))
        assert episodes.decision is not None and episodes.decision.refused != fine
        if not fine and not known:
            graph.remove_edge(source, target)
            cycle = told["cycle_path"]
            assert (cycle[0], cycle[1], cycle[-1]) == tuple(path(source, target, source))
            for a, b in pairwise(cycle[1:]):
                assert episodes.told(_between(a, b, kind))["exists"]
    episodes.then_rebuilt()


def _between(source: str, target: str, kind: str) -> Ask:
    return ask(
        "check_relationship_exists",
        from_episode_id=source,
        to_episode_id=target,
        relationship_type=kind,
    )


# --- validate_no_cycles ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_whether_there_would_be_a_cycle_is_told_of_every_type(
    episodes: Episodes, kind: str
) -> None:
    episodes.given(linked(1, A, kind, B), linked(2, B, kind, C))
    assert episodes.told(no_cycles(A, kind, C)) == {
        "would_create_cycle": False,
        "is_valid": True,
        "cycle_path": [],
    }
    episodes.then()
    assert episodes.told(no_cycles(C, kind, A)) == {
        "would_create_cycle": True,
        "is_valid": kind in FREE,
        "cycle_path": path(C, A, B, C),
    }
    assert episodes.told(no_cycles(A, kind, A)) == {
        "would_create_cycle": True,
        "is_valid": False,
        "cycle_path": path(A, A),
    }
