"""What faded, and what was spared, is what the fact says: no rule of today changes it.

The first version of the fact did not say which categories were spared; it was always the same ones.
"""

from __future__ import annotations

import msgspec
import pytest

from mnemolog.events import robot as language
from mnemolog.events.robot import MemoriesDecayed
from mnemolog.projections.robot import state
from tests.golden.records import golden
from tests.spec.given import Given, days, happened, learned
from tests.spec.projections.fed import Fed

CATEGORIES = ("code", "constraint", "gotcha", "observation", "postmortem")
FIRST_VERSION = msgspec.Raw(golden("robot.memories_decayed"))
FADED = round(0.8 * 0.99**10, 6)


def version_2(*spared: str) -> MemoriesDecayed:
    return MemoriesDecayed(
        collection="default", rate=0.01, min_days=1.0, floor=0.05, spared=list(spared)
    )


def after(fed: Fed, fact: MemoriesDecayed | msgspec.Raw) -> set[str]:
    """The categories whose memories have faded ten days later."""
    memories = [learned(n, one, category=one) for n, one in enumerate(CATEGORIES, 1)]
    fed.given(*memories, happened(fact, at_us=days(10)))
    every = state.memories(fed.view, range(1, len(CATEGORIES) + 1))
    assert {one.confidence for one in every} <= {0.8, FADED}
    return {one.category for one in every if one.confidence == FADED}


def test_the_first_version_spared_three_categories(fed: Fed) -> None:
    assert b"spared" not in bytes(FIRST_VERSION)
    assert after(fed, FIRST_VERSION) == {"code", "observation"}


@pytest.mark.parametrize(
    ("spared", "faded"),
    [
        ((), set(CATEGORIES)),
        (("observation",), set(CATEGORIES) - {"observation"}),
        (("code", "constraint", "gotcha"), {"observation", "postmortem"}),
        (("constraint", "gotcha", "postmortem"), {"code", "observation"}),
        (("a category that nothing has",), set(CATEGORIES)),
    ],
    ids=lambda one: ",".join(sorted(one)) or "none",
)
def test_the_second_version_says_which(fed: Fed, spared: tuple[str, ...], faded: set[str]) -> None:
    assert after(fed, version_2(*spared)) == faded


@pytest.mark.parametrize(
    ("fact", "faded"),
    [(FIRST_VERSION, {"code", "observation"}), (version_2("code"), set(CATEGORIES) - {"code"})],
    ids=["first", "second"],
)
def test_categories_that_are_protected_today_do_not_matter(
    fed: Fed,
    monkeypatch: pytest.MonkeyPatch,
    fact: MemoriesDecayed | msgspec.Raw,
    faded: set[str],
) -> None:
    monkeypatch.setattr(language, "PROTECTED", ("observation",))
    assert after(fed, fact) == faded


def test_both_versions_may_be_on_one_log(fed: Fed) -> None:
    """Each does its own: what one spared fades with the next, from when it was made."""
    assert after(fed, FIRST_VERSION) == {"code", "observation"}
    later: Given = happened(version_2("code"), at_us=days(20))
    fed.given(later)
    twice = round(FADED * 0.99**10, 6)
    long = round(0.8 * 0.99**20, 6)
    every = {one.category: one for one in state.memories(fed.view, range(1, 6))}
    assert {name: one.confidence for name, one in every.items()} == {
        "code": FADED,
        "observation": twice,
        "constraint": long,
        "gotcha": long,
        "postmortem": long,
    }
