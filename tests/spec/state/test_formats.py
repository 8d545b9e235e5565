"""A state that an earlier version made is made anew; one of a later version says what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mnemolog.projections.state.store import PartitionState, StateError


def test_a_state_of_an_earlier_version_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "p0000.db"
    made = PartitionState(path, 0, 1)
    expected = made.digest()
    made.begin()
    made.view.ensure_space("default/old")
    made.next_offset = 7
    made.commit()
    made.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE entity")
        connection.execute("PRAGMA user_version = 1")
    again = PartitionState(path, 0, 1)
    assert (again.next_offset, again.digest()) == (0, expected)
    again.close()


def test_a_state_of_a_later_version_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "p0000.db"
    PartitionState(path, 0, 1).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(StateError, match="mnemolog rebuild"):
        PartitionState(path, 0, 1)
