"""What is known by its number is looked up by it, however much there is besides in its space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mnemolog.projections.episodes import patterns, state
from mnemolog.projections.episodes.state import DESCRIBED, EPISODE, Wanted
from mnemolog.projections.graph import meaning
from mnemolog.projections.graph import state as graph
from mnemolog.projections.robot import state as robot
from mnemolog.projections.state.store import PartitionState
from mnemolog.projections.state.view import View
from tests.families import PROJECTED

SPACE = 1
Lookup = Callable[[View, Sequence[int]], Any]


def wanted(numbers: Sequence[int]) -> Wanted:
    return Wanted(numbers=numbers, domain="web-api", task_type="testing", outcome_type="success")


LOOKUPS: dict[str, Lookup] = {
    "episodes": lambda view, numbers: state.episodes(view, SPACE, numbers),
    "kinds": lambda view, numbers: state.kinds(view, SPACE, numbers),
    "found": lambda view, numbers: state.found(view, SPACE, wanted(numbers), "newest", 5),
    "count": lambda view, numbers: state.count(view, SPACE, wanted(numbers)),
    "totals": lambda view, numbers: state.totals(view, SPACE, wanted(numbers)),
    "names": state.names,
    "tags": state.tags_of,
    "tools": state.tools_of,
    "size": state.size,
    "patterns": lambda view, numbers: patterns.patterns(view, SPACE, numbers),
    "meanings": lambda view, numbers: DESCRIBED.meanings(view, "model", EPISODE, numbers),
    "entities": lambda view, numbers: graph.used(view, SPACE, numbers),
    "reflections": lambda view, numbers: meaning.reflections(view, SPACE, numbers),
    "memories": lambda view, numbers: list(robot.candidates(view, SPACE, numbers, contexts=True)),
}


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    found = PartitionState(tmp_path / "p0000.db", 0, 1, PROJECTED)
    yield found.reader()
    found.close()


@pytest.mark.parametrize("count", [1, 5, 200])
@pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS)
def test_no_index_of_the_space_is_gone_through(view: View, lookup: Lookup, count: int) -> None:
    asked: list[str] = []
    view.connection.set_trace_callback(asked.append)
    lookup(view, range(1, count + 1))
    view.connection.set_trace_callback(None)
    assert asked
    for sql in asked:
        plan = [row[3] for row in view.all(f"EXPLAIN QUERY PLAN {sql}")]
        steps = [one for one in plan if one.startswith(("SEARCH", "SCAN"))]
        assert steps and all(" PRIMARY KEY " in one for one in steps), plan
