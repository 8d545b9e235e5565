"""Nodes on Kafka whose log, whose files or whose clock are not what they should be."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mnemolog.events.codec import decode_decision, encode_decision
from mnemolog.infra.kafka.broker import Broker
from mnemolog.projections.state.store import StateError
from mnemolog.projections.times import DAY_US, iso
from mnemolog.services.api import Request, Unavailable
from mnemolog.services.node.kafka.node import KafkaNode
from tests.bus.fleet import PARTITIONS, Fleet, call, digest, settings_of, until, wait_until
from tests.bus.test_inside import collections, decides, log_of, opened, same, topics
from tests.e2e.conftest import HttpClient
from tests.families import CATALOGUE
from tests.faults import failing

__all__ = ["topics"]


async def taught(node: KafkaNode, count: int, word: str = "lesson") -> None:
    for i in range(count):
        for collection in collections().values():
            said = f"{word} {i} of {uuid.uuid4().hex}"
            assert not (await call(node, "learn", insight=said, collection=collection)).refused


def test_a_decision_that_extends_nothing_stops_its_partition(
    broker: Broker, topics: str, tmp_path: Path
) -> None:
    """As after a record before it was changed or lost: nobody decides past it."""

    async def check() -> None:
        async with log_of(broker, topics) as log, opened(broker, topics, tmp_path / "1") as node:
            await taught(node, 2)
            (last,) = await log.read_decisions(0, node.partitions[0].state.next_offset - 1, 1)
            strange = replace(decode_decision(last.data), previous=b"\1" * 32)
            offset, *_ = await log.append_decisions(0, [("x", encode_decision(strange))])
            await until(lambda: node.partitions[0].failed is not None)
            place = f"Decision {offset} of partition 0 extends no record of the log"
            assert place in (node.partitions[0].failed or "")
            assert any(place in one for one in (await node.health())["reasons"])
            with pytest.raises(Unavailable, match="extends no record"):
                await call(node, "learn", insight="no more", collection=collections()[0])
            assert not (
                await call(node, "learn", insight="elsewhere", collection=collections()[1])
            ).refused
        # Neither does a node that comes later.
        with pytest.raises(Exception, match=place):
            await KafkaNode.open(settings_of(broker, topics, tmp_path / "2"), CATALOGUE)

    asyncio.run(check())


@pytest.mark.parametrize("others", [0, 3, 9], ids=["empty", "shorter", "longer"])
def test_a_replica_of_another_log_is_refused_and_remade(
    broker: Broker, topics: str, tmp_path: Path, others: int
) -> None:
    """A topic that lost its end, and another cluster's of the same name."""

    async def check() -> None:
        other = f"{topics}-other"
        async with opened(broker, topics, tmp_path / "1") as node:
            await taught(node, 5)
        async with opened(broker, other, tmp_path / "2") as node:
            await taught(node, others, "another lesson")
            expected = digest(node)
        with pytest.raises(StateError, match="delete the replica directory"):
            async with opened(broker, other, tmp_path / "1"):
                pass
        (tmp_path / "1" / "replica").rename(tmp_path / "aside")
        async with opened(broker, other, tmp_path / "1") as node:
            assert digest(node) == expected

    asyncio.run(check())


def test_a_replica_whose_state_is_damaged_is_remade(
    broker: Broker, topics: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with opened(broker, topics, tmp_path / "1") as node:
            await taught(node, 5)
            await same(node)
            expected = digest(node)
        states = sorted((tmp_path / "1").rglob("p[0-9]*.db"))
        assert len(states) == PARTITIONS
        for place, file in enumerate(states):
            found = bytearray(file.read_bytes())
            found[(place + 1) * len(found) // (PARTITIONS + 1)] ^= 4
            file.write_bytes(found)
        async with opened(broker, topics, tmp_path / "1") as node:
            assert digest(node) == expected
            assert not (await call(node, "learn", insight="and on", collection="c")).refused

    asyncio.run(check())


def test_a_gateway_with_a_fast_clock_is_held_to_the_deciders(
    broker: Broker, topics: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with opened(broker, topics, tmp_path / "1") as node:
            await decides(node)
            now_us = time.time_ns() // 1000
            fast = await learned_at(node, "from the future", now_us + 3650 * DAY_US)
            right = await learned_at(node, "of the present", now_us)
            for created in (fast, right):
                assert iso(now_us) <= created <= iso(time.time_ns() // 1000 + 60_000_000)

    async def learned_at(node: KafkaNode, insight: str, at_us: int) -> str:
        request = Request(
            tool="learn",
            arguments=msgspec.json.encode({"insight": insight}),
            call_id=uuid.uuid4().hex,
            received_at_us=at_us,
        )
        assert not (await node.call(request)).refused
        found = await call(node, "recall", query=insight, n=1, consistency="strong")
        return str(msgspec.json.decode(found.reply)["memories"][0]["created_at"])

    asyncio.run(check())


def test_a_full_disk_on_one_node_costs_that_node_alone(broker: Broker, tmp_path: Path) -> None:
    fleet = Fleet(broker, tmp_path, "--model", "none")
    try:
        servers = fleet.node("well"), fleet.node("ill")
        well, ill = (one.client() for one in servers)
        for i in range(5):
            well.ok("learn", {"insight": f"lesson {i} of {uuid.uuid4().hex}"})

        states = tuple(fleet.data("ill").rglob("p[0-9]*.db-wal"))
        assert len(states) == PARTITIONS
        with failing(servers[1].process.pid, "ENOSPC", "pwrite64", files=states):
            # Which of them decides is Kafka's matter: here or there, what is acknowledged is kept.
            wait_until(lambda: has_no_room(well, ill), lambda: health(ill))
        wait_until(lambda: health(ill)["status"] == "ok", lambda: health(ill))
        well.ok("learn", {"insight": f"after it {uuid.uuid4().hex}"})
        fleet.end()
        assert fleet.memories("well") == fleet.memories("ill")
        assert fleet.hash_of("well") == fleet.hash_of("ill")
    finally:
        fleet.close()


def health(client: HttpClient) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.get("/healthz")[1])
    return found


def has_no_room(well: HttpClient, ill: HttpClient) -> bool:
    """Has something taught to every collection; whether the node that has no room says so."""
    for collection in collections().values():
        arguments = {"insight": f"meanwhile {uuid.uuid4().hex}", "collection": collection}
        well.call("learn", arguments)
    found = health(ill)
    return found["status"] != "ok" and any("full" in one for one in found["reasons"])
