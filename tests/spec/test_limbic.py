"""The limbic score, worked out by hand."""

from __future__ import annotations

from math import exp, log2

import pytest

from mnemolog.projections.ranking.limbic import (
    Together,
    Use,
    base_of_meaning,
    base_of_words,
    importance,
    scores,
    temporal,
)

HOUR_US = 3_600_000_000
NOW_US = 1_000_000 * HOUR_US


def use(count: int = 1, days: int = 1, *, hours: float = 0, degree: int = 0) -> Use:
    return Use(count, days, NOW_US - round(hours * HOUR_US), degree)


def test_alone_and_fresh_everything_is_one() -> None:
    """1 access of at most 1, 1 day of at most 1: importance 1 x 1 x 1.2, so 0.5 x (1 + 0.6)."""
    found = scores({7: 0.5}, {7: use()}, [], NOW_US)[7]
    assert found.importance == pytest.approx(1.2)
    assert (found.temporal, found.cooccurrence) == (1.0, 0.0)
    assert found.score == pytest.approx(0.8)


def test_every_part_at_once() -> None:
    """Candidate 1: 3 accesses on 1 day, 5 relations, 1,000 hours ago; 2: 15 accesses on 3 days.

    importance 1 = log2(4)/log2(16) x (1 + 0.15 x 5/15) x (1 + 0.2 x log2(2)/log2(4))
                 = 0.5 x 1.05 x 1.1 = 0.5775; temporal 1 = e^-0.1.
    They met 7 times, last 2,000 hours ago: log2(8) x e^-0.2 = 3 e^-0.2.
    """
    found = scores(
        {1: 0.8, 2: 0.4},
        {1: use(3, 1, hours=1000, degree=5), 2: use(15, 3)},
        [Together(1, 2, 7, NOW_US - 2000 * HOUR_US)],
        NOW_US,
    )
    met = 3 * exp(-0.2)
    assert found[1].importance == pytest.approx(0.5775)
    assert found[1].temporal == pytest.approx(0.904837418)
    assert found[1].cooccurrence == found[2].cooccurrence == pytest.approx(met)
    assert found[1].score == pytest.approx(0.8 * 1.28875 * exp(-0.1) * (1 + 0.01 * met))
    assert found[2].score == pytest.approx(0.4 * 1.6 * 1.0 * (1 + 0.01 * met))


def test_relations_count_up_to_fifteen() -> None:
    assert importance(use(degree=15), 1, 1) == pytest.approx(1.15 * 1.2)
    assert importance(use(degree=500), 1, 1) == pytest.approx(1.15 * 1.2)


def test_nothing_matters_when_nothing_was_ever_used() -> None:
    never = use(0, 0, degree=9)
    assert scores({1: 1.0, 2: 0.5}, {1: never, 2: never}, [], NOW_US)[1].score == 1.0
    assert importance(never, 0, 0) == 0.0


def test_days_that_nobody_has_do_not_divide_by_zero() -> None:
    assert importance(use(3, 0), 3, 0) == 1.0


def test_time_fades_to_a_tenth_and_the_future_is_now() -> None:
    assert temporal(NOW_US, NOW_US) == 1.0
    assert temporal(NOW_US + HOUR_US, NOW_US) == 1.0
    assert temporal(NOW_US - 10_000 * HOUR_US, NOW_US) == pytest.approx(exp(-1))
    assert temporal(NOW_US - 30_000 * HOUR_US, NOW_US) == 0.1


def test_only_the_other_candidates_count_as_company() -> None:
    pairs = [Together(1, 2, 1, NOW_US), Together(1, 9, 1000, NOW_US), Together(2, 3, 3, NOW_US)]
    found = scores(dict.fromkeys((1, 2, 3), 1.0), dict.fromkeys((1, 2, 3), use()), pairs, NOW_US)
    assert [found[n].cooccurrence for n in (1, 2, 3)] == [1.0, 1.0 + log2(4), log2(4)]


def test_the_base_of_what_meaning_found_is_its_nearness() -> None:
    assert base_of_meaning(0.25) == 0.75
    assert base_of_meaning(1.5) == 0.0, "what points away is not negative"


def test_the_base_of_what_words_alone_found_is_its_place_among_the_ranks() -> None:
    assert base_of_words(0.01, 0.01, 0.03) == pytest.approx(0.2)
    assert base_of_words(0.02, 0.01, 0.03) == pytest.approx(0.5)
    assert base_of_words(0.03, 0.01, 0.03) == pytest.approx(0.8)
    assert base_of_words(0.01, 0.01, 0.01) == pytest.approx(0.8), "alone it is the best there is"
