from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spec.given_episodes import Episodes


@pytest.fixture
def episodes(tmp_path: Path) -> Iterator[Episodes]:
    """No episode yet, and a model."""
    episodes = Episodes(tmp_path)
    yield episodes
    episodes.close()


@pytest.fixture
def by_words(tmp_path: Path) -> Iterator[Episodes]:
    """No episode yet, and no model."""
    episodes = Episodes(tmp_path, model=None)
    yield episodes
    episodes.close()
