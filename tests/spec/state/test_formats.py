"""A state that an earlier version made is made anew; one of a later version says what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mnemolog.projections import robot
from mnemolog.projections.projection import Projected
from mnemolog.projections.state.store import PartitionState, StateError
from tests.families import PROJECTED


def test_a_state_of_an_earlier_version_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "p0000.db"
    made = PartitionState(path, 0, 1, PROJECTED)
    expected = made.digest()
    made.begin()
    made.view.ensure_space("default/old")
    made.next_offset = 7
    made.commit()
    made.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE entity")
        connection.execute("PRAGMA user_version = 1")
    again = PartitionState(path, 0, 1, PROJECTED)
    assert (again.next_offset, again.digest()) == (0, expected)
    again.close()


def test_a_state_of_a_later_version_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "p0000.db"
    PartitionState(path, 0, 1, PROJECTED).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    path.with_name("p0000.db.seal").unlink()
    with pytest.raises(StateError, match="mnemolog rebuild"):
        PartitionState(path, 0, 1, PROJECTED)


def test_a_state_with_other_tables_is_begun_anew(tmp_path: Path) -> None:
    """Another family has come: its facts may be on the log already."""
    path = tmp_path / "p0000.db"
    made = PartitionState(path, 0, 1, Projected([robot.PROJECTION]))
    made.begin()
    made.next_offset = 7
    made.commit()
    made.close()
    again = PartitionState(path, 0, 1, PROJECTED)
    assert again.next_offset == 0
    assert again.view.all("SELECT * FROM entity") == []
    again.close()
    kept = PartitionState(path, 0, 1, PROJECTED)
    kept.begin()
    kept.next_offset = 7
    kept.commit()
    kept.close()
    assert PartitionState(path, 0, 1, PROJECTED).next_offset == 7
