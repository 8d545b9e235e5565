"""A memory in a few words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog.projections.language.summary import human_summary


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("grip_force=12.5N optimal for cylindrical objects", "grip_force=12.5N optimal..."),
        ("Short enough", "Short enough"),
        ("exactly thirty characters long", "exactly thirty characters long"),
        ("this one is thirty-one in length", "this one is thirty-one in..."),
        ("  lines\n are \t joined ", "lines are joined"),
        ("The tray is cold, wet, blue, and heavy", "The tray is cold, wet, blue..."),
        ("x" * 40, "x" * 27 + "..."),
        ("发现红色杯子" * 6, ("发现红色杯子" * 6)[:27] + "..."),
        ("不超过 15N 否则" + "杯子会碎" * 6, "不超过 15N 否则" + ("杯子会碎" * 6)[:17] + "..."),
        ("", ""),
    ],
)  # fmt: skip
def test_the_summary_is_cut_between_words(text: str, expected: str) -> None:
    assert human_summary(text) == expected


@given(st.text(st.characters(), max_size=100))
def test_a_summary_is_short_and_begins_like_its_text(text: str) -> None:
    summary = human_summary(text)
    line = " ".join(text.split())
    assert len(summary) <= 30
    assert summary == line or (summary.endswith("...") and line.startswith(summary[:-3]))
