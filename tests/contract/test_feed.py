"""Following along on a real node: each change once, in order, from any position, and limits."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemolog.events.arguments import Refused
from mnemolog.events.codec import decode_decision, encode_call, encode_decision
from mnemolog.events.envelope import GENESIS, Call
from mnemolog.infra.log.sqlite import SqliteLog
from mnemolog.infra.settings import Settings
from mnemolog.projections.state.store import PartitionState
from mnemolog.services.api import Answer, Event, Follow, Request, Unavailable
from mnemolog.services.decider.decide import Inputs
from mnemolog.services.decider.partition import PartitionDecider
from mnemolog.services.node.embedded.node import EmbeddedNode
from mnemolog.services.node.following.positions import Positions, reached
from tests.families import CATALOGUE, PROJECTED, deciding

PATIENCE_S = 240.0
"""How long a test waits for an event before it fails; nothing is measured by it."""

Message = dict[str, Any]


class Node:
    def __init__(self, node: EmbeddedNode) -> None:
        self.node = node
        self._calls = 0

    async def call(self, tool: str, tenant: str = "default", **arguments: Any) -> Answer:
        self._calls += 1
        return await self.node.call(
            Request(
                tool=tool,
                arguments=msgspec.json.encode(arguments),
                call_id=f"call-{self._calls}",
                received_at_us=time.time_ns() // 1000,
                tenant=tenant,
                actor=f"robot-{self._calls}",
            )
        )

    async def learn(self, number: int, collection: str = "a", tenant: str = "default") -> None:
        """Marks, since texts that are alike would be duplicates."""
        text = f"mark {number} of {random.getrandbits(64):x}"
        answer = await self.call("learn", tenant, insight=text, collection=collection)
        assert not answer.refused, answer

    def events(self, **follow: Any) -> AsyncGenerator[Event, None]:
        return self.node.events(Follow(**follow))

    async def until_now(self, **follow: Any) -> list[Message]:
        """The changes up to the present."""
        async with aclosing(self.events(**follow, live=False)) as events:
            return [said(event) async for event in events if event.kind == "decided"]


@asynccontextmanager
async def opened(data: Path, **settings: Any) -> AsyncIterator[Node]:
    given = Settings(**{"data": str(data), "model": "none", **settings})
    node = await asyncio.to_thread(EmbeddedNode, given, CATALOGUE)
    try:
        yield Node(node)
    finally:
        await asyncio.to_thread(node.close)


def run(data: Path, test: Callable[[Node], Awaitable[None]], **settings: Any) -> None:
    async def with_node() -> None:
        async with opened(data, **settings) as node:
            await test(node)

    asyncio.run(with_node())


def said(event: Event) -> Message:
    message: Message = msgspec.json.decode(event.data)
    return message


def numbers(changes: list[Message]) -> list[int]:
    return [int(one["facts"][0]["content"].split()[1]) for one in changes]


async def following(events: AsyncGenerator[Event, None]) -> Event:
    """Go on to the present; the event that says so."""
    while (event := await following_one(events)).kind != "present":
        pass
    return event


async def following_one(events: AsyncGenerator[Event, None]) -> Event:
    return await asyncio.wait_for(anext(events), PATIENCE_S)


async def changes(events: AsyncGenerator[Event, None], count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        event = await following_one(events)
        assert event.kind in ("opened", "decided", "present"), event
        if event.kind == "decided":
            found.append(said(event))
    return found


def test_a_change_as_followers_see_it(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        async with aclosing(node.events(space="robot/a")) as events:
            await following(events)
            answer = await node.call("learn", insight="grip cups at 12 N", collection="a")
            event = await following_one(events)
        assert (event.kind, event.position) == ("decided", "0:0") == ("decided", answer.position)
        change = said(event)
        assert change.pop("at").startswith("20")
        assert change == {
            "position": "0:0",
            "tool": "learn",
            "actor": "robot-1",
            "call_id": "call-1",
            "space": "robot/a",
            "facts": [
                {
                    "fact": "robot.memory_learned",
                    "memory_id": 1,
                    "collection": "a",
                    "content": "grip cups at 12 N",
                    "category": "code",
                    "tags": ["code"],
                    "confidence": 0.8,
                }
            ],
        }
        assert await node.until_now(space="robot/a", after="start") == [said(event)]

    run(tmp_path, test)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("space", ["robot/a", None])
def test_no_gap_and_no_duplicate_whenever_one_joins(
    tmp_path: Path, partitions: int, space: str | None
) -> None:
    """Followers join at any moment of a busy time, some from the start and some from where an
    earlier one stopped. Each sees what the log holds, once and in order."""
    count, spaces = 200, ("a", "b", "c")

    async def test(node: Node) -> None:
        async def write(collection: str) -> None:
            for number in range(count):
                await node.learn(number, collection)

        async def follow() -> list[Message]:
            found: list[Message] = []
            position, wanted = "start", count * (1 if space else len(spaces))
            while len(found) < wanted:
                # Hang up after a while and come again.
                until = min(wanted, len(found) + random.randint(1, wanted // 2))
                async with aclosing(node.events(space=space, after=position)) as events:
                    while len(found) < until:
                        event = await following_one(events)
                        position = event.position
                        if event.kind == "decided":
                            found.append(said(event))
                await asyncio.sleep(random.uniform(0, 0.05))
            return found

        async def later(delay_s: float) -> list[Message]:
            await asyncio.sleep(delay_s)
            return await follow()

        followers = [asyncio.create_task(later(random.uniform(0, 1.0))) for _ in range(6)]
        await asyncio.gather(*(write(one) for one in spaces))
        for found in await asyncio.gather(*followers):
            places = [one["position"] for one in found]
            assert len(places) == len(set(places))
            for one in spaces if space is None else ("a",):
                mine = [change for change in found if change["space"] == f"robot/{one}"]
                assert numbers(mine) == list(range(count))

    run(tmp_path, test, partitions=partitions, events_buffer=10_000)


def test_what_is_no_change_is_not_told(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        async with aclosing(node.events()) as events:
            await following(events)
            await node.learn(1)
            assert (await node.call("learn", insight=" ")).refused
            assert (await node.call("no_such_tool")).refused
            await node.call("recall", query="mark", collection="a")
            await node.call("create_entities", entities=[{"name": "cup", "entityType": "object"}])
            await node.call("read_graph")
            await node.learn(2)
            tools = [one["tool"] for one in await changes(events, 3)]
        assert tools == ["learn", "create_entities", "learn"]
        assert [one["tool"] for one in await node.until_now(after="start")] == tools
        assert [one["tool"] for one in await node.until_now(space="graph", after="start")] == [
            "create_entities"
        ]

    run(tmp_path, test)


def test_a_tenant_sees_its_own(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        async with (
            aclosing(node.events(tenant="b")) as all_of_b,
            aclosing(node.events(tenant="b", space="robot/a")) as space_of_b,
        ):
            await following(all_of_b)
            await following(space_of_b)
            for number, tenant in enumerate(["a", "b", "a", "b"]):
                await node.learn(number, tenant=tenant)
            for events in (all_of_b, space_of_b):
                assert numbers(await changes(events, 2)) == [1, 3]
        assert numbers(await node.until_now(tenant="a", after="start")) == [0, 2]
        assert await node.until_now(tenant="c", after="start") == []
        assert await node.until_now(tenant="c", last=10) == []

    run(tmp_path, test)


def test_a_slow_reader_is_cut_off_and_can_go_on(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        async with (
            aclosing(node.events(space="robot/a")) as slow,
            aclosing(node.events(space="robot/b")) as other,
        ):
            await following(slow)
            await following(other)
            await node.learn(0)
            assert numbers(await changes(slow, 1)) == [0]
            for number in range(1, 8):
                await node.learn(number)
            await node.learn(0, "b")
            last = await following_one(slow)
            assert (last.kind, last.position) == ("cut_off", "0:0")
            assert said(last) == {
                "position": "0:0",
                "reason": "This reader fell more than 5 events behind; go on with after=0:0",
            }
            assert [event async for event in slow] == []
            assert numbers(await changes(other, 1)) == [0]
        async with aclosing(node.events(space="robot/a", after=last.position)) as again:
            assert numbers(await changes(again, 7)) == list(range(1, 8))

    run(tmp_path, test, events_buffer=5)


def test_a_reader_that_is_far_behind_is_not_slow(tmp_path: Path) -> None:
    """What is on the log already can be read at leisure, whatever is written meanwhile."""

    async def test(node: Node) -> None:
        for number in range(250):
            await node.learn(number)
        async with aclosing(node.events(space="robot/a", after="start")) as events:
            assert numbers(await changes(events, 100)) == list(range(100))
            for number in range(250, 300):
                await node.learn(number)
            assert numbers(await changes(events, 200)) == list(range(100, 300))

    run(tmp_path, test, events_buffer=5)


def test_the_newest(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        assert await node.until_now(last=5) == []
        for number in range(150):
            await node.learn(number, "ab"[number % 2])
            await node.call("recall", query="mark", collection="a")
        assert numbers(await node.until_now(space="robot/a", last=3)) == [144, 146, 148]
        assert numbers(await node.until_now(space="robot/b", last=1)) == [149]
        assert numbers(await node.until_now(space="robot/a", last=1000)) == list(range(0, 150, 2))
        newest = await node.until_now(last=4)
        assert sorted(numbers(newest)) == [146, 147, 148, 149]
        for wrong in (0, -1, 1001):
            with pytest.raises(Refused, match="last must be from 1 to 1000"):
                await node.until_now(last=wrong)

    run(tmp_path, test, partitions=4)


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    wrong = {
        "foo": "space can be graph",
        "robot": "space can be graph",
        "robot/": "space can be graph",
        "robot/a\nb": "space can be graph",
        "graph/x": "space can be graph",
        "": "space can be graph",
    }

    async def test(node: Node) -> None:
        for space, sentence in wrong.items():
            with pytest.raises(Refused, match=sentence):
                await anext(node.events(space=space))
        for after in ("", "x", "0", "0:", "0:-1", "0:1,", "0:1;1:2", "0:" + "9" * 19, "９:１" * 9):
            with pytest.raises(Refused, match="after must be start, or a position"):
                await anext(node.events(after=after))
        with pytest.raises(Refused, match="after names partition 4, and the log has 4"):
            await anext(node.events(after="4:0"))
        elsewhere = [p for p in range(4) if await is_elsewhere(node, p)]
        assert len(elsewhere) == 3
        with pytest.raises(
            Refused, match="after is 0:7, and partition 0 of the log has 0 decisions"
        ):
            await anext(node.events(after="0:7"))

    async def is_elsewhere(node: Node, partition: int) -> bool:
        try:
            await anext(node.events(space="graph", after=f"{partition}:0"))
        except Refused as refused:
            return "and the space is in" in refused.sentence
        return False

    run(tmp_path, test, partitions=4, call_timeout_s=0.2)


def test_a_position_that_is_on_its_way_is_waited_for(tmp_path: Path) -> None:
    """It is on the log, and not shown here yet."""

    async def test(node: Node) -> None:
        for number in range(3):
            await node.learn(number)
        shown = node.node.feed._shown
        shown[0] = 0
        async with aclosing(node.events(after="0:1")) as events:
            coming = asyncio.create_task(changes(events, 1))
            await asyncio.sleep(0)
            assert not coming.done()
            shown[0] = 3
            assert numbers(await coming) == [2]

    run(tmp_path, test)


def test_a_position_that_does_not_come_in_time() -> None:
    async def end(partition: int) -> int:
        return 9

    async def test() -> None:
        with pytest.raises(Unavailable, match=r"Position 0:7 was not reached here within 0\.01 s"):
            await reached(Positions({0: 8}), lambda _: 3, end, 0.01)

    asyncio.run(test())


def test_a_limit_on_streams(tmp_path: Path) -> None:
    async def test(node: Node) -> None:
        async with aclosing(node.events()) as one, aclosing(node.events()) as two:
            await following(one)
            await following(two)
            with pytest.raises(Unavailable, match="2 streams are open, which is the limit"):
                await anext(node.events())
        async with aclosing(node.events()) as again:
            await following(again)
        live = asyncio.Event()
        waiting = asyncio.create_task(drain(node.events(), live))
        await asyncio.wait_for(live.wait(), PATIENCE_S)
        waiting.cancel()
        await asyncio.wait([waiting])
        async with aclosing(node.events()) as one, aclosing(node.events()) as two:
            await following(one)
            await following(two)
        assert not node.node.feed._followers, "who has gone gets nothing any more"

    async def drain(events: AsyncGenerator[Event, None], live: asyncio.Event) -> None:
        async for event in events:
            if event.kind == "present":
                live.set()

    run(tmp_path, test, events_streams=2)


def test_closing_is_said(tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(tmp_path) as node:
            await node.learn(1)
            events = node.events(after="start")
            assert numbers(await changes(events, 1)) == [1]
            await following(events)
        last = await following_one(events)
        assert (last.kind, last.position) == ("closing", "0:0")
        assert [event async for event in events] == []
        with pytest.raises(Unavailable, match="The service is closing"):
            await anext(node.events(after="start"))

    asyncio.run(test())


def test_void_decisions_are_left_out(tmp_path: Path) -> None:
    """A displaced decider wrote twice: what it wrote counts for nobody."""
    log, state = SqliteLog(tmp_path / "log.db"), PartitionState(None, 0, 1, PROJECTED)
    decider = PartitionDecider(state, deciding())
    for number in range(3):
        call = Call(
            id=f"c{number}",
            tool="learn",
            arguments=msgspec.json.encode({"insight": f"mark {number}", "collection": "a"}),
            space="default/robot/a",
            received_at_us=number,
        )
        data = encode_call(call)
        decider.state.begin()
        made = decider.decide(data, decider.read(data), Inputs())
        decider.state.commit()
        decision, encoded = made.counted.decision, made.encoded
        # As somebody decided it who knew of nothing before it.
        stale = encode_decision(msgspec.structs.replace(decision, previous=GENESIS))
        assert decode_decision(stale).facts
        rows = [(decision.space, one) for one in (stale, encoded, encoded)]
        log.append(0, [(call.space, data)], rows)
    log.shut()

    async def test(node: Node) -> None:
        found = await node.until_now(space="robot/a", after="start")
        assert [one["position"] for one in found] == ["0:0", "0:4", "0:7"]
        assert [one["position"] for one in await node.until_now(last=2)] == ["0:4", "0:7"]
        async with aclosing(node.events(after="0:4")) as events:
            await node.learn(3)
            found = await changes(events, 2)
        assert numbers(found) == [2, 3]
        assert found[-1]["position"] == "0:9"

    run(tmp_path, test)
