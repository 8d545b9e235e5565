"""What the crash tests share: chance that can be repeated, and a directory for one store."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest


@pytest.fixture
def chance() -> random.Random:
    """Random choices from a seed that is shown when the test fails; CRASH_SEED repeats them."""
    seed = int(os.environ.get("CRASH_SEED") or random.SystemRandom().randrange(2**32))
    sys.stdout.write(f"repeat with CRASH_SEED={seed}\n")
    return random.Random(seed)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Where the store is; the processes' stderr goes to a file beside it."""
    return tmp_path / "store"
