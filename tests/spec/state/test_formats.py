"""A state that an earlier version made goes on, or says what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from projections.state import graph_schema
from projections.state.store import PartitionState, StateError


def test_a_state_from_before_the_knowledge_graph_gets_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "p0000.db"
    made = PartitionState(path, 0, 1)
    expected = made.digest()
    made.close()
    with sqlite3.connect(path) as connection:
        for table in (*graph_schema.CANONICAL, "node", "node_text"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
    again = PartitionState(path, 0, 1)
    assert again.digest() == expected
    again.close()


def test_a_state_of_a_later_version_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "p0000.db"
    PartitionState(path, 0, 1).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(StateError, match="mnemolog rebuild"):
        PartitionState(path, 0, 1)
