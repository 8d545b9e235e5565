from __future__ import annotations

import pytest

from tests.spec.given import Robot


@pytest.fixture
def robot() -> Robot:
    """A partition in which nothing has happened yet."""
    return Robot()
