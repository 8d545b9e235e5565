"""A search by meaning in the graph whose vector store is away: words alone, and it says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemolog.projections.vectors.breaker import Breaker
from mnemolog.projections.vectors.tail import TailedVectors
from tests.contract.qdrant_local import LocalServer, away
from tests.spec.given import DIMS, MODEL, NORTH, at_cosine
from tests.spec.given_graph import create, entity, reflect
from tests.spec.given_meaning import Meant, reflections, semantic


@pytest.fixture
def local() -> Iterator[LocalServer]:
    local = LocalServer()
    yield local
    local.stop()


@pytest.fixture
def meant(local: LocalServer, tmp_path: Path) -> Iterator[Meant]:
    """Astro is what is meant and shares no word with the query; Cup shares one and lies far."""
    meant = Meant(tmp_path)
    meant.vectors.close()
    vectors: Any = TailedVectors(local.server(), DIMS, MODEL.name, breaker=Breaker(pause_s=0.0))
    meant.vectors = vectors
    vectors.checkpoint(0)
    meant.after(create(entity("Astro", "Tool", "a framework"), entity("Cup", "Thing", "web red")))
    meant.described(Astro=NORTH, Cup=at_cosine(0.5))
    meant.after(reflect("sites are easy", author="ann"), reflect("the web is wide", author="ben"))
    meant.described(sites_are_easy=NORTH, the_web_is_wide=at_cosine(0.5))
    meant.asking(web=NORTH)
    yield meant
    meant.close()


def test_entities_are_found_by_words_and_keep_their_distance(
    meant: Meant, local: LocalServer
) -> None:
    assert meant.found(semantic("web")) == ["Astro", "Cup"]
    assert "mode" not in meant.told(semantic("web"))
    local.before = away()
    told = meant.told(semantic("web"))
    assert [one["name"] for one in told["results"]] == ["Cup"]
    assert told["results"][0]["distance"] == pytest.approx(0.5, abs=0.01)
    assert told["mode"] == "bm25_only"
    nothing = meant.told(semantic("nothing of this"))
    assert (nothing["results"], "mode" in nothing) == ([], False)  # No vector was needed.
    local.before = lambda name: None
    assert meant.found(semantic("web")) == ["Astro", "Cup"]


def test_reflections_are_found_by_words_unless_the_state_can_compare_them(
    meant: Meant, local: LocalServer
) -> None:
    assert set(meant.found(reflections("web"))) == {"sites are easy", "the web is wide"}
    local.before = away()
    told = meant.told(reflections("web"))
    assert [one["content"] for one in told["results"]] == ["the web is wide"]
    assert told["mode"] == "bm25_only"
    # So few are by one author that the state compares all of them: nothing is missed.
    told = meant.told(reflections("web", author="ann"))
    assert [one["content"] for one in told["results"]] == ["sites are easy"]
    assert "mode" not in told
