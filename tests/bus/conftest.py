"""What the tests of many nodes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemolog.infra.kafka.broker import Broker
from tests.bus.fleet import Fleet
from tests.conftest import start_broker


@pytest.fixture
def fleet(broker: Broker, tmp_path: Path) -> Iterator[Fleet]:
    """Nodes without a model: what is tested here does not need one."""
    made = Fleet(broker, tmp_path, "--model", "none")
    yield made
    made.close()


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A broker of this test's own, which it may kill."""
    started = start_broker()
    yield started
    started.close()


@pytest.fixture
def fleet_on(tmp_path: Path) -> Iterator[Callable[[Broker], Fleet]]:
    made: list[Fleet] = []

    def make(broker: Broker) -> Fleet:
        made.append(Fleet(broker, tmp_path, "--model", "none"))
        return made[-1]

    yield make
    for one in made:
        one.close()
