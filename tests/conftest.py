"""What all tests share: a real Kafka broker, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mnemolog.infra.kafka.broker import Broker, BrokerError


def start_broker() -> Broker:
    try:
        return Broker().__enter__()
    except BrokerError as error:
        pytest.fail(str(error))


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """For everybody: use topics of your own."""
    started = start_broker()
    yield started
    started.close()
