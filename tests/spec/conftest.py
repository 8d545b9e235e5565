from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.spec.given import Robot

# No test asserts a time: a busy machine is no counterexample.
settings.register_profile("spec", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("spec")


@pytest.fixture
def robot() -> Robot:
    """A partition in which nothing has happened yet."""
    return Robot()
