"""Nodes are killed, come and go, the broker dies: nothing acknowledged is lost, nothing happens
twice, and everybody holds the same afterwards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from mnemolog.infra.kafka.broker import Broker
from tests.bus.fleet import PARTITIONS, Fleet, Robot, decides, knows, wait_until
from tests.e2e.conftest import HttpClient, Server

ALL = set(range(PARTITIONS))


def turned(clients: list[HttpClient], by: int) -> list[HttpClient]:
    return clients[by:] + clients[:by]


def robots(count: int, *servers: Server, named: str = "robot") -> list[Robot]:
    clients: list[HttpClient] = [server.client() for server in servers]
    made = [Robot(f"{named}{i}", partial(turned, clients, i % len(clients))) for i in range(count)]
    for robot in made:
        robot.start()
    return made


def share(*servers: Server) -> None:
    """Each of these nodes decides something, and together they decide everything."""

    def shared() -> bool:
        found = [decides(server.client()) for server in servers]
        return all(found) and set().union(*found) == ALL

    wait_until(shared, lambda: [decides(server.client()) for server in servers])


def settled(fleet: Fleet, made: list[Robot], *names: str) -> None:
    """The robots end; what they were told is there on every node, once, nothing else is there, and
    all of them are the same."""
    for robot in made:
        robot.end()
    for name in names:
        knows(fleet._servers[name].client(), made)
    fleet.end()
    hashes = {fleet.hash_of(name) for name in names}
    assert len(hashes) == 1
    taught = {number: text for robot in made for number, text in robot.taught.items()}
    assert len(taught) == sum(len(robot.taught) for robot in made), "an id was given twice"
    for name in names:
        assert fleet.memories(name) == taught
    assert sum(one["counting"] for one in fleet.verify(names[0])) >= len(taught)


def test_a_killed_decider_is_replaced(fleet: Fleet) -> None:
    """The other node takes over within the time that a caller waits."""
    one = fleet.node("one")
    two = fleet.node("two")
    share(one, two)
    faithful = robots(2, two, named="faithful")
    made = robots(6, one, two) + faithful
    for robot in made:
        robot.wait_for(3)
    fleet.kill("one")
    for robot in made:
        robot.wait_for(3)
    assert decides(two.client()) == ALL
    fleet.node("one")
    for robot in made:
        robot.wait_for(2)
    assert [robot.failed for robot in faithful] == [0, 0], "nobody who waited was turned away"
    settled(fleet, made, "one", "two")


def test_a_gateway_is_killed_in_the_middle_of_calls(fleet: Fleet) -> None:
    """It decides nothing; its callers ask another one, under the same keys."""
    decider = fleet.node("decider", "--role", "decider,gateway")
    gateway = fleet.node("gateway", "--role", "gateway")
    made = robots(4, gateway, decider)
    for _ in range(2):
        for robot in made:
            robot.wait_for(3)
        assert decides(gateway.client()) == set()
        failed = sum(robot.failed for robot in made)
        fleet.kill("gateway")
        for robot in made:
            robot.wait_for(2)
        assert sum(robot.failed for robot in made) > failed, "somebody had to ask another one"
        gateway = fleet.node("gateway", "--role", "gateway")
        clients = [gateway.client(), decider.client()]
        for robot in made:
            robot._clients = partial(turned, clients, 0)
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
    own_broker.start()
    for robot in made:
        robot.wait_for(5)
    settled(fleet, made, "one", "two")


def test_a_worker_comes_and_goes(fleet: Fleet) -> None:
    comes_and_goes(fleet, times=1)


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_a_worker_comes_and_goes_four_times(fleet: Fleet) -> None:
    comes_and_goes(fleet, times=4)


def comes_and_goes(fleet: Fleet, times: int) -> None:
    stays = fleet.node("stays")
    made = robots(4, stays)
    for _ in range(times):
        guest = fleet.node("guest")
        share(stays, guest)
        for robot in made:
            robot.wait_for(2)
        assert guest.stop() == 0
        share(stays)
        for robot in made:
            robot.wait_for(2)
    fleet.node("guest")
    settled(fleet, made, "stays", "guest")


@pytest.mark.faults
@pytest.mark.timeout(1800)
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
            robot.wait_for(3)
        fleet.kill(name)
        for robot in made:
            robot.wait_for(2)
        servers[name] = fleet.node(name)
    settled(fleet, made, "one", "two", "three")
