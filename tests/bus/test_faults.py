"""Nodes are killed, come and go, the broker dies: nothing acknowledged is lost, nothing happens
twice, and everybody holds the same afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from mnemolog.infra.kafka.broker import Broker
from tests.bus.fleet import Fleet, Robot, knows
from tests.e2e.conftest import HttpClient, Server

FAILOVER_S = 15


def turned(clients: list[HttpClient], by: int) -> list[HttpClient]:
    return clients[by:] + clients[:by]


def robots(count: int, *servers: Server) -> list[Robot]:
    clients: list[HttpClient] = [server.client() for server in servers]
    made = [Robot(f"robot{i}", partial(turned, clients, i % len(clients))) for i in range(count)]
    for robot in made:
        robot.start()
    return made


def settled(fleet: Fleet, made: list[Robot], *names: str) -> None:
    """The robots end; what they were told is there on every node, and all of them are the same."""
    for robot in made:
        robot.end()
    for name in names:
        knows(fleet._servers[name].client(), made)
    fleet.end()
    hashes = {fleet.hash_of(name) for name in names}
    assert len(hashes) == 1
    partitions = fleet.verify(names[0])
    taught = sum(len(robot.taught) for robot in made)
    assert sum(one["counting"] for one in partitions) >= taught


def test_a_killed_decider_is_replaced(fleet: Fleet) -> None:
    """The other node takes over within the time that a caller waits."""
    one = fleet.node("one")
    two = fleet.node("two")
    made = robots(6, one, two)
    for robot in made:
        robot.wait_for(3)
    fleet.kill("one")
    began = time.monotonic()
    for robot in made:
        robot.wait_for(3, FAILOVER_S)
    assert time.monotonic() - began < FAILOVER_S
    fleet.node("one")
    for robot in made:
        robot.wait_for(2)
    settled(fleet, made, "one", "two")


def test_a_gateway_is_killed_in_the_middle_of_calls(fleet: Fleet) -> None:
    """It decides nothing; its callers ask another one, under the same keys."""
    decider = fleet.node("decider", "--role", "decider,gateway")
    gateway = fleet.node("gateway", "--role", "gateway")
    made = robots(4, gateway, decider)
    for round_ in range(2):
        for robot in made:
            robot.wait_for(3)
        fleet.kill("gateway")
        for robot in made:
            robot.wait_for(2)
        gateway = fleet.node("gateway", "--role", "gateway")
        clients = [gateway.client(), decider.client()]
        for robot in made:
            robot._clients = partial(turned, clients, 0)
        assert round_ < 2
    settled(fleet, made, "decider", "gateway")


def test_the_broker_is_killed_and_comes_back(
    own_broker: Broker, fleet_on: Callable[[Broker], Fleet]
) -> None:
    fleet = fleet_on(own_broker)
    one, two = fleet.node("one"), fleet.node("two")
    made = robots(4, one, two)
    for robot in made:
        robot.wait_for(3)
    own_broker.kill()
    time.sleep(2)
    own_broker.start()
    for robot in made:
        robot.wait_for(5, 120)
    settled(fleet, made, "one", "two")


def test_a_worker_comes_and_goes(fleet: Fleet) -> None:
    comes_and_goes(fleet, times=1, between_s=2)


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_a_worker_comes_and_goes_four_times(fleet: Fleet) -> None:
    comes_and_goes(fleet, times=4, between_s=15)


def comes_and_goes(fleet: Fleet, times: int, between_s: float) -> None:
    stays = fleet.node("stays")
    made = robots(4, stays)
    for _ in range(times):
        guest = fleet.node("guest")
        time.sleep(between_s)
        for robot in made:
            robot.wait_for(2)
        assert guest.stop() == 0
        time.sleep(between_s)
        for robot in made:
            robot.wait_for(2)
    fleet.node("guest")
    settled(fleet, made, "stays", "guest")


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_every_node_is_killed_again_and_again(fleet: Fleet) -> None:
    servers = {name: fleet.node(name) for name in ("one", "two", "three")}

    def clients() -> list[HttpClient]:
        return [server.client() for server in servers.values()]

    made = [Robot(f"robot{i}", clients) for i in range(4)]
    for robot in made:
        robot.start()
    for round_ in range(9):
        name = ("one", "two", "three")[round_ % 3]
        for robot in made:
            robot.wait_for(3, 90)
        fleet.kill(name)
        for robot in made:
            robot.wait_for(2, 90)
        servers[name] = fleet.node(name)
    settled(fleet, made, "one", "two", "three")
