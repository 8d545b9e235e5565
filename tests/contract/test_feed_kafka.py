"""Following along a log on Kafka: the same feed, against a real broker."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing

import msgspec

from mnemolog.events.codec import encode_call, encode_decision
from mnemolog.events.envelope import Call, Decision
from mnemolog.events.ids import partition_of_space
from mnemolog.infra.kafka.broker import Broker
from mnemolog.infra.log.kafka import KafkaLog
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.api import Follow
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.decider.partition import PartitionDecider
from mnemolog.services.node.following.feed import Feed
from tests.contract.test_feed import Message, changes, following, numbers
from tests.families import CATALOGUE, PROJECTED, deciding

PARTITIONS = 2


class Deciding:
    """The smallest decider on Kafka: a void decision goes before every counting one."""

    def __init__(self, log: KafkaLog) -> None:
        self.log = log
        self.states = [PartitionState(None, p, PARTITIONS, PROJECTED) for p in range(PARTITIONS)]
        self.feed = Feed(CATALOGUE, log, self.voids, [0, 0], buffer=1000, streams=10, timeout_s=10)
        self._deciders = [PartitionDecider(state, deciding()) for state in self.states]
        self._calls = 0

    async def voids(self, partition: int, start: int, end: int) -> frozenset[int]:
        return self.states[partition].view.voids(start, end)

    async def learn(self, number: int, collection: str) -> None:
        self._calls += 1
        space = f"default/robot/{collection}"
        partition = partition_of_space(space, PARTITIONS)
        call = Call(
            id=f"call-{self._calls}",
            tool="learn",
            arguments=msgspec.json.encode(
                {"insight": f"mark {number} {uuid.uuid4().hex}", "collection": collection}
            ),
            space=space,
            received_at_us=self._calls,
            actor=f"robot-{collection}",
        )
        data = encode_call(call)
        state, decider = self.states[partition], self._deciders[partition]
        stale = Decision(
            call_id=call.id,
            call_offset=0,
            call_hash=b"",
            previous=b"\1" * 32,
            at_us=0,
            tool="learn",
            tenant="default",
            space=space,
            reply=b"{}",
        )
        decider.state.begin()
        assert state.apply(state.next_offset, encode_decision(stale)) is None
        offset = state.next_offset
        made = decider.decide(data, decider.read(data), Inputs())
        rows = [(space, encode_decision(stale)), made.row]
        await self.log.append_calls(partition, [(space, data)])
        assert (await self.log.append_decisions(partition, rows))[-1] == offset
        decider.state.commit()
        await asyncio.to_thread(self.feed.publish, partition, made.counted)
        # A broker may deliver twice.
        await asyncio.to_thread(self.feed.publish, partition, made.counted)


def test_history_and_what_comes_join_without_a_seam(broker: Broker) -> None:
    async def test() -> None:
        log = await KafkaLog.open(broker.bootstrap, PARTITIONS, prefix=f"feed-{uuid.uuid4().hex}")
        try:
            deciding = Deciding(log)

            async def write(collection: str) -> None:
                for number in range(40):
                    await deciding.learn(number, collection)

            async def follow(delay_s: float, space: str | None, count: int) -> list[Message]:
                await asyncio.sleep(delay_s)
                wish = Follow(space=space, after="start")
                async with aclosing(deciding.feed.events(wish)) as events:
                    return await changes(events, count)

            spaces = ["a", "b"]
            followers = [
                asyncio.create_task(follow(delay_s, space, count))
                for delay_s in (0, 0.1, 0.3)
                for space, count in (("robot/a", 40), (None, 80))
            ]
            for one in spaces:
                await write(one)
            for found in await asyncio.gather(*followers):
                for one in {change["space"] for change in found}:
                    mine = [change for change in found if change["space"] == one]
                    assert numbers(mine) == list(range(40))
                    assert {change["actor"] for change in mine} == {one.replace("robot/", "robot-")}
            async with aclosing(deciding.feed.events(Follow())) as events:
                last = await following(events)
            ends = [await log.ends(p) for p in range(PARTITIONS)]
            stands = [f"{p}:{end.decisions - 1}" for p, end in enumerate(ends) if end.decisions]
            assert last.position == ",".join(stands)
        finally:
            await log.close()

    asyncio.run(test())
