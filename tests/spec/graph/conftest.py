from __future__ import annotations

import pytest

from tests.spec.given_graph import Graph


@pytest.fixture
def graph() -> Graph:
    """A knowledge graph in which nothing is known yet."""
    return Graph()
