"""What goes on inside nodes on Kafka when the log or Faust does something unexpected."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from mnemolog.events.codec import decode_call, decode_decision, encode_call
from mnemolog.events.envelope import Call
from mnemolog.infra.kafka.broker import Broker
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.projections.state.store import StateError
from mnemolog.services.api import Follow, Unavailable
from mnemolog.services.audit import entry_of
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.decider.partition import Made, PartitionDecider
from mnemolog.services.decider.tool import Asked
from mnemolog.services.node.following.follow import counted_after
from mnemolog.services.node.kafka.node import KafkaNode
from tests.bus.fleet import PARTITIONS, call, digest, settings_of, until
from tests.e2e.conftest import PATIENCE_S
from tests.families import CATALOGUE, FACTS, PROJECTED
from tests.spec.given import collection_in


@pytest.fixture
def topics() -> str:
    return f"inside-{uuid.uuid4().hex[:12]}"


@asynccontextmanager
async def opened(broker: Broker, topics: str, data: Path, **more: Any) -> AsyncIterator[KafkaNode]:
    node = await KafkaNode.open(settings_of(broker, topics, data, **more), CATALOGUE)
    try:
        yield node
    finally:
        await node.aclose()


@asynccontextmanager
async def log_of(broker: Broker, topics: str) -> AsyncIterator[KafkaLog]:
    log = await KafkaLog.open(broker.bootstrap, PARTITIONS, prefix=topics)
    try:
        yield log
    finally:
        await log.close()


def collections() -> dict[int, str]:
    """One collection of each partition."""
    return {number: collection_in(number, PARTITIONS) for number in range(PARTITIONS)}


async def decides(node: KafkaNode, *numbers: int) -> None:
    await until(lambda: all(node.partitions[n].ours for n in numbers or range(PARTITIONS)))


async def same(*nodes: KafkaNode) -> None:
    """Every node comes to the end of the log, and they all hold the same."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        await asyncio.sleep(0.1)
        # Records of reads that wait, or are on their way, would come in between.
        quiet = all(node.outbox.is_empty() and not node._kafka._appending for node in nodes)
        ends = [(one.decisions, one.calls) for one in await nodes[0]._kafka.all_ends()]
        at = [[(p.shown, p.state.head.next_call) for p in node.partitions] for node in nodes]
        if quiet and all(stands == ends for stands in at):
            break
        assert time.monotonic() < deadline, f"the log ends at {ends}, the nodes are at {at}"
    first = digest(nodes[0])
    assert any(first.values())
    for node in nodes[1:]:
        assert digest(node) == first


def test_two_nodes_share_the_partitions_and_see_each_other(
    broker: Broker, topics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started_in = tmp_path / "started-in"
    started_in.mkdir()
    monkeypatch.chdir(started_in)

    async def check() -> None:
        async with AsyncExitStack() as stack:
            one = await stack.enter_async_context(opened(broker, topics, tmp_path / "1"))
            two = await stack.enter_async_context(opened(broker, topics, tmp_path / "2"))

            def shared() -> bool:
                mine = [{p.number for p in node.partitions if p.ours} for node in (one, two)]
                return all(mine) and mine[0] | mine[1] == set(range(PARTITIONS))

            await until(
                shared,
                say=lambda: [
                    (node._decides.owns, [p.ours for p in node.partitions], node._watch.away)
                    for node in (one, two)
                ],
            )
            for i in range(20):
                # Into every partition, through either node.
                learned = await call(
                    (one, two)[i % 2], "learn", insight=f"thing {i}", collection=f"c{i % 7}"
                )
                assert not learned.refused
                other = (two, one)[i % 2]
                found = await call(
                    other,
                    "recall",
                    after=learned.position,
                    query=f"thing {i}",
                    collection=f"c{i % 7}",
                )
                assert f"thing {i}".encode() in found.reply
            # What somebody followed, in all partitions, may be waited for elsewhere, too.
            everything = one.events(Follow(tenant="default", after="start", live=False))
            last = [event.position async for event in everything][-1]
            assert "," in last
            found = await call(two, "recall", after=last, query="thing 19", collection="c5")
            assert b"thing 19" in found.reply
            await same(one, two)

    asyncio.run(check())
    assert not list(started_in.iterdir()), "a node leaves something where it was started"


def test_two_deciders_that_both_believe_to_own_everything(
    broker: Broker, topics: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with AsyncExitStack() as stack:
            nodes = [
                await stack.enter_async_context(opened(broker, topics, tmp_path / name))
                for name in ("1", "2")
            ]
            for node in nodes:
                node._decides._owned = lambda _: None  # Kafka's word no longer counts.
                for partition in node.partitions:
                    partition.own(True)

            async def robot(node: KafkaNode, name: str) -> list[int]:
                ids = []
                for i in range(25):
                    told = await call(
                        node, "learn", insight=f"{name} {uuid.uuid4().hex}", collection=f"c{i % 5}"
                    )
                    assert not told.refused, told
                    ids.append(msgspec.json.decode(told.reply)["memory_id"])
                return ids

            made = await asyncio.gather(
                *(robot(node, f"r{i}") for i, node in enumerate((*nodes, *nodes)))
            )
            ids = list(itertools.chain(*made))
            assert len(ids) == len(set(ids)) == 100
            assert sum(one.voids for node in nodes for one in node.partitions) > 0
            await same(*nodes)
            for node in nodes:
                assert (await node.health())["status"] == "ok"
            await asyncio.to_thread(told_of_what_counts, nodes[0])

    asyncio.run(check())


def told_of_what_counts(node: KafkaNode) -> None:
    """The audit shows every call with its counting decision."""
    for state in node.projections.states:
        view = state.reader()
        void = view.voids()
        for counted in counted_after(node.log, PROJECTED, state.partition, -1):
            about = counted.decision.call_offset
            entry = entry_of(node.log, FACTS, state.partition, about, void)
            assert entry is not None and entry.decision == counted.decision


def test_only_what_may_take_long_is_decided_beside_the_loop(
    broker: Broker, topics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[tuple[str, bool]] = []
    decide = PartitionDecider.decide

    def noted(self: PartitionDecider, data: bytes, asked: Asked | None, inputs: Inputs) -> Made:
        on_loop = threading.current_thread() is threading.main_thread()
        decided.append((decode_call(data).tool, on_loop))
        return decide(self, data, asked, inputs)

    monkeypatch.setattr(PartitionDecider, "decide", noted)

    async def check() -> None:
        async with opened(broker, topics, tmp_path) as node:
            await decides(node)
            started = await call(node, "start_session", collection="c")
            await call(node, "learn", insight="wet cups slip", collection="c")
            session = msgspec.json.decode(started.reply)["session_id"]
            await call(node, "end_session", session_id=session)
            observed = ["x" * 1999 + str(i) for i in range(40)]
            large = {"name": "large", "entityType": "thing", "observations": observed}
            await call(node, "create_entities", entities=[large])

    asyncio.run(check())
    by_tool = dict(decided)
    assert by_tool["learn"] and by_tool["start_session"]
    assert not by_tool["end_session"] and not by_tool["create_entities"]


def test_an_undecodable_call_is_refused_and_the_next_one_decided(
    broker: Broker, topics: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with log_of(broker, topics) as log, opened(broker, topics, tmp_path / "1") as node:
            for partition in range(PARTITIONS):
                garbage = [("x", b"\xc1 no call"), ("x", b"")]
                await log.append_calls(partition, garbage)
            for i in range(8):
                assert not (
                    await call(node, "learn", insight=f"after {i}", collection=f"c{i}")
                ).refused
            stray = Call(
                id="stray",
                tool="learn",
                space="x",
                received_at_us=1,
                arguments=msgspec.json.encode({"insight": "lost", "collection": collections()[0]}),
            )
            await log.append_calls(1, [("x", encode_call(stray))])
            # A partition that nobody writes to afterwards decides it, too.
            await until(lambda: all(one.state.head.next_call >= 2 for one in node.partitions))
            await until(lambda: node.partitions[1].state.head.next_call >= 3)
            assert (await node.health())["status"] == "ok"
            refused = [
                decode_decision(one.data)
                for p in range(PARTITIONS)
                for one in await log.read_decisions(p, 0, 100)
            ]
            errors = [one.reply.decode() for one in refused if one.refused]
            assert len(errors) == 2 * PARTITIONS + 1
            assert sum("Unreadable call" in error for error in errors) == 2 * PARTITIONS
            assert any("belongs into partition 0, not 1" in error for error in errors)

    asyncio.run(check())


def test_a_decision_of_a_newer_version_stops_its_partition_visibly(
    broker: Broker, topics: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with log_of(broker, topics) as log, opened(broker, topics, tmp_path / "1") as node:
            await decides(node)
            told = await call(node, "learn", insight="before", collection="c")
            stopped = int((told.position or "").split(":")[0])
            newer = msgspec.msgpack.encode(("decision", 99, {}))
            await log.append_decisions(stopped, [("x", newer)])
            await until(lambda: node.partitions[stopped].failed is not None)
            health = await node.health()
            assert health["status"] == "degraded"
            assert any("newer mnemolog" in reason for reason in health["reasons"]), health
            with pytest.raises(Unavailable, match="has stopped on this node"):
                await call(node, "learn", insight="here no more", collection="c")
            # What was known before can still be read, and the other partitions go on.
            assert b"before" in (await call(node, "recall", query="before", collection="c")).reply
            for number, collection in collections().items():
                if number != stopped:
                    told = await call(node, "learn", insight="elsewhere", collection=collection)
                    assert not told.refused
                    assert (told.position or "").startswith(f"{number}:")

    asyncio.run(check())


def test_an_offset_that_faust_committed_too_far_leaves_no_hole(
    broker: Broker, topics: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with opened(broker, topics, tmp_path / "1") as node:
            for i in range(10):
                await call(node, "learn", insight=f"first {i}", collection=f"c{i}")
            groups = [member.group for member in node._members]
        async with log_of(broker, topics) as log:
            ends = await log.all_ends()
            for number, name in collections().items():
                later = Call(
                    id=f"later-{number}",
                    tool="learn",
                    space=f"default/{name}",
                    received_at_us=1,
                    arguments=msgspec.json.encode(
                        {"insight": "while nobody looked", "collection": name}
                    ),
                )
                await log.append_calls(number, [(later.space, encode_call(later))])
            for group, topic, end in zip(
                groups,
                (f"{topics}.decisions", f"{topics}.calls"),
                ([one.decisions + 50 for one in ends], [one.calls + 1 for one in ends]),
                strict=True,
            ):
                consumer = AIOKafkaConsumer(
                    bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
                )
                await consumer.start()
                consumer.assign([TopicPartition(topic, p) for p in range(PARTITIONS)])
                await consumer.commit({TopicPartition(topic, p): end[p] for p in range(PARTITIONS)})
                await consumer.stop()
        async with opened(broker, topics, tmp_path / "1") as node:
            await until(
                lambda: all(
                    one.state.head.next_call == end.calls + 1
                    for one, end in zip(node.partitions, ends, strict=True)
                )
            )
            assert not (await call(node, "learn", insight="and on", collection="c1")).refused
            async with opened(broker, topics, tmp_path / "2") as other:
                await same(node, other)

    asyncio.run(check())


def test_files_that_followed_another_log_are_refused(
    broker: Broker, topics: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with opened(broker, topics, tmp_path / "1") as node:
            await call(node, "learn", insight="here")
        with pytest.raises(
            StateError,
            match="the log has lost its end, or is another one",
        ):
            async with opened(broker, f"{topics}-other", tmp_path / "1"):
                pass

    asyncio.run(check())


def test_a_live_rebuild_on_kafka_changes_nothing(
    broker: Broker, topics: str, tmp_path: Path
) -> None:
    from mnemolog.services.node.following.rebuild import rebuild_live

    async def check() -> None:
        async with opened(broker, topics, tmp_path / "1") as node:
            for i in range(20):
                await call(node, "learn", insight=f"before {i}", collection=f"c{i % 3}")
            before = digest(node)
            ignore = lambda done, total: None  # noqa: E731
            report = await asyncio.to_thread(rebuild_live, node, True, ignore)
            assert report.differences == []
            await asyncio.to_thread(rebuild_live, node, False, ignore)
            assert digest(node) == before
            assert not (await call(node, "learn", insight="after", collection="c1")).refused
            found = await call(node, "recall", query="before 7", collection="c1")
            assert b"before 7" in found.reply

    asyncio.run(check())
