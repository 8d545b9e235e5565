"""What all tests share: a real Kafka broker, started when the first test asks for it, and that no
property is given up because a machine is slow."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from mnemolog.infra.kafka.broker import Broker, BrokerError
from tests.ports import HeldPort

for _module in ("process", "server", "stored", "writer"):
    pytest.register_assert_rewrite(f"tests.crash.{_module}")

# No test asserts a time: a busy machine is no counterexample.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Nor does a test depend on the settings of whoever runs it.
os.environ["XDG_CONFIG_HOME"] = os.devnull
# Many calls from one address in a moment are what tests are; those of the limits set them.
os.environ["MNEMOLOG_RATE_LIMITS"] = "off"

_HELD: list[HeldPort] = []
"""Of brokers, as long as the tests run: they may be ended and started again."""


def start_broker() -> Broker:
    broker = Broker()
    started(broker)
    return broker


def started(broker: Broker, *more: int) -> None:
    """Start it, on ports that nobody else gets; `more` are those that it has beside."""
    _HELD.extend(HeldPort(port) for port in (broker.port, broker._controller_port, *more))
    try:
        broker.__enter__()
    except BrokerError as error:
        pytest.fail(str(error))


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """For everybody: use topics of your own."""
    broker = start_broker()
    yield broker
    broker.close()
