from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spec.projections.fed import Fed


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Fed]:
    """Projections that have been given nothing yet."""
    fed = Fed(tmp_path / "projections")
    yield fed
    fed.stores.close()
